//! Names the defects of servers that the model has as switches, and what else a protocol decides.

use crate::model::{Protocol, Scope};

/// How a select decides what it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As the server does, by `last_part`.
    Server,
    /// Every committed record, by one moment of ZooKeeper.
    Linearizable,
}

/// A defect, one line away from the repaired protocol (harness/sim/bugs.py).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The end of a quorum compares the version of its status only.
    QuorumAba,
    /// `last_part` takes the number of the quorum that ended last.
    LastPartLate,
    /// `last_part` takes the smaller of two numbers.
    LastPartBack,
    /// An insert that cannot find out whether it was committed keeps its part.
    PhantomPart,
    /// A replica that comes back asks for failed parts before it is active.
    FailedPartMissed,
    /// A replica that comes back keeps the parts of failed quorums.
    FailedPartKept,
    /// A replica keeps a part that failed while the replica fetched it.
    FailedPartFetched,
    /// A select takes its parts before it looks which it must have.
    EarlySnapshot,
    /// A merge may take the part that `last_part` names.
    MergedAway,
    /// An insert whose time ends while it looks for its part removes it.
    LostRetry,
    /// Whoever has the part of a quorum ends it, even its writer.
    QuorumUncounted,
}

const DEFECTS: &[(&str, Defect)] = &[
    ("quorum-aba", Defect::QuorumAba),
    ("last-part-late", Defect::LastPartLate),
    ("last-part-back", Defect::LastPartBack),
    ("phantom-part", Defect::PhantomPart),
    ("failed-part-missed", Defect::FailedPartMissed),
    ("failed-part-kept", Defect::FailedPartKept),
    ("failed-part-fetched", Defect::FailedPartFetched),
    ("early-snapshot", Defect::EarlySnapshot),
    ("merged-away", Defect::MergedAway),
    ("lost-retry", Defect::LostRetry),
    ("quorum-uncounted", Defect::QuorumUncounted),
];

pub fn defect_names() -> Vec<&'static str> {
    DEFECTS.iter().map(|(name, _)| *name).collect()
}

/// What a protocol decides.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    defects: u32,
    /// Number of replicas that form a quorum.
    pub quorum: u32,
    /// Whether quorums are pending side by side, and leave `last_part` alone.
    pub parallel: bool,
    /// Whether an insert whose answer was lost first looks for its part.
    pub retries: bool,
    pub reading: Reading,
}

impl Rules {
    /// Returns the protocol's rules, with the planted defect and without the mended ones. A defect
    /// of the protocol that this model does not have is left out.
    pub fn new(scope: &Scope, protocol: &Protocol) -> Result<Self, String> {
        let known = |name: &String| DEFECTS.iter().find(|(known, _)| known == name);
        let mut defects = 0;
        for (_, defect) in protocol.defects.iter().filter_map(known) {
            defects |= 1 << *defect as u32;
        }
        if let Some(defect) = scope.mutant(DEFECTS)? {
            defects |= 1 << defect as u32;
        }
        for name in scope.fixes {
            let Some((_, defect)) = known(name) else {
                let names = defect_names().join(", ");
                return Err(format!("fix {name:?}: expected some of {names}"));
            };
            defects &= !(1 << *defect as u32);
        }
        Ok(Self {
            defects,
            quorum: scope.quorum,
            parallel: scope.parallel,
            retries: protocol.has("insert-retries"),
            reading: match scope.read {
                "server" => Reading::Server,
                "linearizable" => Reading::Linearizable,
                name => {
                    return Err(format!("read {name:?}: expected server or linearizable"));
                }
            },
        })
    }

    #[inline(always)]
    pub fn has(&self, defect: Defect) -> bool {
        self.defects >> defect as u32 & 1 == 1
    }
}
