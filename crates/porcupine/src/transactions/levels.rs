//! Names the anomalies and the levels of isolation, and says which level each anomaly violates.
//!
//! The names are those of Jepsen (<https://jepsen.io/consistency>) and of Elle (Kingsbury & Alvaro,
//! VLDB 2020); the cycles are those of Adya ("Weak Consistency", 1999). Snapshot isolation forbids
//! cycles in which no two rw edges are adjacent (Cerone & Gotsman, "Analysing Snapshot Isolation",
//! 2016). Keys are read by name and never by predicate, so G2-item is all of G2.

use Anomaly::*;

/// A cycle, by the edges that it consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cycle {
    /// Only ww.
    G0,
    /// ww and wr.
    G1c,
    /// Also one rw.
    GSingle,
    /// Also several rw, of which no two are adjacent.
    GNonadjacent,
    /// Also rw after rw.
    G2Item,
    /// One rw that wr, with the order of processes, leads back from.
    GCausal,
    /// Also ww and several rw, each of which follows wr or the order of a process.
    GPrefix,
}

/// The order in time that a cycle needs besides what the transactions read and wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Time {
    Nothing,
    /// That of the transactions of each process.
    Process,
    /// That of transactions of which one returned before the other was called.
    RealTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Anomaly {
    /// A read found what nobody wrote.
    Garbage,
    /// A read found an element twice.
    DuplicateElements,
    /// What transactions say of the order of a register's values is a cycle.
    CyclicVersions,
    Cycles(Cycle, Time),
    /// A read found what a failed transaction wrote.
    G1a,
    /// A read found what a transaction later replaced.
    G1b,
    /// A transaction wrote on top of what a failed one wrote.
    DirtyUpdate,
    /// Two reads of a key, neither of which begins with the other.
    IncompatibleOrder,
    /// A transaction read what it wrote afterwards.
    FutureRead,
    /// Two transactions read the same version and wrote the next.
    LostUpdate,
    /// A read contradicts what the transaction read or wrote before.
    Internal,
}

impl Cycle {
    pub const ALL: [Cycle; 7] = [
        Cycle::G0,
        Cycle::G1c,
        Cycle::GSingle,
        Cycle::GNonadjacent,
        Cycle::G2Item,
        Cycle::GCausal,
        Cycle::GPrefix,
    ];
}

impl Anomaly {
    pub fn name(self) -> &'static str {
        match self {
            Garbage => "garbage",
            DuplicateElements => "duplicate-elements",
            CyclicVersions => "cyclic-versions",
            G1a => "G1a",
            G1b => "G1b",
            DirtyUpdate => "dirty-update",
            IncompatibleOrder => "incompatible-order",
            FutureRead => "future-read",
            LostUpdate => "lost-update",
            Internal => "internal",
            Cycles(cycle, time) => CYCLE_NAMES[cycle as usize][time as usize],
        }
    }
}

const CYCLE_NAMES: [[&str; 3]; 7] = [
    ["G0", "G0-process", "G0-realtime"],
    ["G1c", "G1c-process", "G1c-realtime"],
    ["G-single", "G-single-process", "G-single-realtime"],
    [
        "G-nonadjacent",
        "G-nonadjacent-process",
        "G-nonadjacent-realtime",
    ],
    ["G2-item", "G2-item-process", "G2-item-realtime"],
    ["G-causal", "G-causal-process", "G-causal-realtime"],
    ["G-prefix", "G-prefix-process", "G-prefix-realtime"],
];

/// A level: the levels that it implies, and what it forbids besides what they forbid.
struct Definition {
    name: &'static str,
    implies: &'static [&'static str],
    forbids: &'static [Anomaly],
}

/// The levels, each after those that it implies.
const LEVELS: [Definition; 19] = {
    use Cycle::{G1c, G2Item, GCausal, GNonadjacent, GPrefix, GSingle, G0};
    use Time::{Nothing, Process, RealTime};
    const fn level(
        name: &'static str,
        implies: &'static [&'static str],
        forbids: &'static [Anomaly],
    ) -> Definition {
        Definition {
            name,
            implies,
            forbids,
        }
    }
    [
        level(
            "read-uncommitted",
            &[],
            &[
                Cycles(G0, Nothing),
                Garbage,
                DuplicateElements,
                CyclicVersions,
            ],
        ),
        level(
            "read-committed",
            &["read-uncommitted"],
            &[
                Cycles(G1c, Nothing),
                G1a,
                G1b,
                DirtyUpdate,
                IncompatibleOrder,
                FutureRead,
            ],
        ),
        level(
            "causal",
            &["read-committed"],
            &[Cycles(GCausal, Nothing), Internal],
        ),
        level("prefix", &["causal"], &[Cycles(GPrefix, Nothing)]),
        level("cursor-stability", &["read-committed"], &[LostUpdate]),
        level(
            "consistent-view",
            &["cursor-stability"],
            &[Cycles(GSingle, Nothing)],
        ),
        level(
            "snapshot-isolation",
            &["consistent-view", "prefix"],
            &[Cycles(GNonadjacent, Nothing)],
        ),
        level(
            "repeatable-read",
            &["cursor-stability"],
            &[
                Cycles(GSingle, Nothing),
                Cycles(GNonadjacent, Nothing),
                Cycles(G2Item, Nothing),
            ],
        ),
        level(
            "serializable",
            &["snapshot-isolation", "repeatable-read"],
            &[],
        ),
        level(
            "strong-session-read-uncommitted",
            &["read-uncommitted"],
            &[Cycles(G0, Process)],
        ),
        level(
            "strong-session-read-committed",
            &["read-committed", "strong-session-read-uncommitted"],
            &[Cycles(G1c, Process)],
        ),
        level(
            "strong-session-causal",
            &["causal", "strong-session-read-committed"],
            &[Cycles(GCausal, Process)],
        ),
        level(
            "strong-session-prefix",
            &["prefix", "strong-session-causal"],
            &[Cycles(GPrefix, Process)],
        ),
        level(
            "strong-session-snapshot-isolation",
            &["snapshot-isolation", "strong-session-prefix"],
            &[Cycles(GSingle, Process), Cycles(GNonadjacent, Process)],
        ),
        level(
            "strong-session-serializable",
            &["serializable", "strong-session-snapshot-isolation"],
            &[Cycles(G2Item, Process)],
        ),
        level(
            "strong-read-uncommitted",
            &["strong-session-read-uncommitted"],
            &[Cycles(G0, RealTime)],
        ),
        level(
            "strong-read-committed",
            &["strong-session-read-committed", "strong-read-uncommitted"],
            &[Cycles(G1c, RealTime)],
        ),
        level(
            "strong-snapshot-isolation",
            &["strong-session-snapshot-isolation", "strong-read-committed"],
            &[Cycles(GSingle, RealTime), Cycles(GNonadjacent, RealTime)],
        ),
        level(
            "strict-serializable",
            &["strong-session-serializable", "strong-snapshot-isolation"],
            &[Cycles(G2Item, RealTime)],
        ),
    ]
};

/// A level of isolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(usize);

impl Level {
    /// Returns all levels, each after those that it implies.
    pub fn all() -> impl Iterator<Item = Level> {
        (0..LEVELS.len()).map(Level)
    }

    /// Returns the level of a name. Jepsen calls strict-serializable strong-serializable, too.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = match name {
            "strong-serializable" => "strict-serializable",
            name => name,
        };
        LEVELS
            .iter()
            .position(|level| level.name == name)
            .map(Level)
    }

    pub fn name(self) -> &'static str {
        LEVELS[self.0].name
    }

    /// Whether what satisfies this level satisfies the other.
    pub fn implies(self, other: Level) -> bool {
        let mut weaker = LEVELS[self.0].implies.iter();
        let known = |name| Level::from_name(name).expect("the table names its own levels");
        self == other || weaker.any(|name| known(name).implies(other))
    }

    /// Whether the level or one that it implies forbids the anomaly.
    pub fn forbids(self, anomaly: Anomaly) -> bool {
        Level::all()
            .filter(|&weaker| self.implies(weaker))
            .any(|weaker| LEVELS[weaker.0].forbids.contains(&anomaly))
    }

    /// Whether the level or one that it implies forbids the anomaly of a name.
    pub fn forbids_name(self, name: &str) -> bool {
        let mut all = Level::all().flat_map(|level| LEVELS[level.0].forbids);
        all.any(|&anomaly| anomaly.name() == name && self.forbids(anomaly))
    }

    /// Whether it is causal or prefix consistency, of which the cycles are searched for by
    /// themselves.
    pub fn is_weaker_than_snapshots(self) -> bool {
        let nothing = Time::Nothing;
        self.forbids(Cycles(Cycle::GCausal, nothing))
            && !self.forbids(Cycles(Cycle::GSingle, nothing))
    }

    /// Returns the order in time that the level respects.
    pub fn time(self) -> Time {
        let times = [Time::RealTime, Time::Process];
        let respects = |&time: &Time| {
            Cycle::ALL
                .into_iter()
                .any(|cycle| self.forbids(Cycles(cycle, time)))
        };
        times.into_iter().find(respects).unwrap_or(Time::Nothing)
    }
}

/// Returns the weakest levels that anomalies violate, and the other levels that are violated with
/// them.
pub fn violated(anomalies: &[Anomaly]) -> (Vec<Level>, Vec<Level>) {
    let all: Vec<Level> = Level::all()
        .filter(|level| anomalies.iter().any(|&anomaly| level.forbids(anomaly)))
        .collect();
    let follows = |level: &Level| {
        all.iter()
            .any(|&other| *level != other && level.implies(other))
    };
    all.iter().partition(|level| !follows(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(levels: Vec<Level>) -> Vec<&'static str> {
        levels.into_iter().map(Level::name).collect()
    }

    #[test]
    fn write_skew_leaves_snapshot_isolation() {
        let (weakest, others) = violated(&[Cycles(Cycle::G2Item, Time::Nothing)]);
        assert_eq!(names(weakest), ["repeatable-read"]);
        assert_eq!(
            names(others),
            [
                "serializable",
                "strong-session-serializable",
                "strict-serializable"
            ]
        );
    }

    #[test]
    fn a_long_fork_violates_two_levels_of_which_neither_follows() {
        let (weakest, _) = violated(&[Cycles(Cycle::GNonadjacent, Time::Nothing)]);
        assert_eq!(names(weakest), ["snapshot-isolation", "repeatable-read"]);
    }

    #[test]
    fn a_stale_read_violates_only_what_respects_time() {
        let (weakest, others) = violated(&[Cycles(Cycle::GSingle, Time::RealTime)]);
        assert_eq!(names(weakest), ["strong-snapshot-isolation"]);
        assert_eq!(names(others), ["strict-serializable"]);
    }

    #[test]
    fn every_level_follows_from_the_strictest() {
        let strict = Level::from_name("strong-serializable").expect("an alias");
        assert!(Level::all().all(|level| strict.implies(level)));
        assert_eq!(strict.time(), Time::RealTime);
        let plain = Level::from_name("serializable").expect("a level");
        assert_eq!(plain.time(), Time::Nothing);
    }
}
