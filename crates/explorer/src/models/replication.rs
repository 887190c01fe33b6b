//! Models inserts and merges over one log. An elected leader assigns the merges, or every active
//! replica does: then an assignment sets `/log` at the version that its replica has read, so that
//! it knows every entry.
//!
//! Entry i of the log makes part i. A merge names the two parts that it replaces; a part covers the
//! inserts that it contains.

use super::log::Log;
use crate::fields::{Chunks, Field, Layout, State};
use crate::model::{
    act, alone, in_range, members, set_text, Action, Claim, Marks, Model, Scope, Who,
};

/// A change of one line that breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A replica assigns merges of parts that an entry which it has not executed replaces.
    StaleLeader,
    /// A part is fetched although the replica has a part that covers it.
    CoveredFetched,
    /// A replica skips a merge without executing it.
    MergeSkipped,
}

pub const MUTANTS: &[(&str, Mutant)] = &[
    ("stale-leader", Mutant::StaleLeader),
    ("covered-fetched", Mutant::CoveredFetched),
    ("merge-skipped", Mutant::MergeSkipped),
];

pub struct Replication {
    /// Maximum number of inserts.
    records: u32,
    /// Maximum number of entries: all inserts, and a merge for each except the last.
    entries: u32,
    mutant: Option<Mutant>,
    /// Whether every active replica leads.
    many_leaders: bool,
    chunks: Chunks,
    log: Log,
    /// For each entry the two parts that it merges, from 1; 0 and 0 for an insert.
    sources: Vec<(Field, Field)>,
    leader: Field,
    parts: Field,
}

const CLAIMS: &[Claim] = &[
    Claim {
        name: "no-intersection",
        text: "no two parts of a replica cover the same insert",
    },
    Claim {
        name: "nothing-lost",
        text: "a replica has the rows of every entry that it has executed",
    },
    Claim {
        name: "one-leader",
        text: "at most one replica leads, and it is active",
    },
    Claim {
        name: "equal-at-rest",
        text: "at rest, with all replicas active, all have the same parts",
    },
    Claim {
        name: "merged-at-rest",
        text: "at rest, with all replicas active and something inserted, each has one part",
    },
];

impl Replication {
    pub fn new(scope: &Scope) -> Result<Self, String> {
        in_range("replicas", scope.replicas, 1, 8)?;
        in_range("records", scope.records, 1, 6)?;
        let entries = 2 * scope.records - 1;
        let mut layout = Layout::default();
        let leader = layout.chunk.flag();
        let log = Log::new(&mut layout, entries);
        let global = &mut layout.global;
        let sources = (0..entries).map(|_| (global.number(entries), global.number(entries)));
        let many_leaders = scope.protocol.is_some_and(|p| p.has("many-leaders"));
        Ok(Self {
            many_leaders,
            records: scope.records,
            entries,
            mutant: scope.mutant(MUTANTS)?,
            log,
            sources: sources.collect(),
            leader,
            parts: layout.chunk.field(entries),
            chunks: layout.chunks(scope.replicas)?,
        })
    }

    /// Returns the bits of the parts that an entry replaces; 0 for an insert.
    #[inline(always)]
    fn replaced(&self, state: State, entry: u32) -> u32 {
        let (a, b) = self.sources[entry as usize];
        if a.is(state) {
            1 << (a.get(state) - 1) | 1 << (b.get(state) - 1)
        } else {
            0
        }
    }

    /// Returns for each entry the inserts that its part covers.
    #[inline(always)]
    fn covers(&self, state: State) -> [u32; 12] {
        let mut covers = [0; 12];
        for entry in 0..self.log.length.get(state) {
            let (a, b) = self.sources[entry as usize];
            covers[entry as usize] = if a.is(state) {
                covers[a.get(state) as usize - 1] | covers[b.get(state) as usize - 1]
            } else {
                1 << entry
            };
        }
        covers
    }

    /// Returns the bits of the entries that are inserts.
    fn inserts(&self, state: State) -> u32 {
        (0..self.log.length.get(state))
            .filter(|e| self.replaced(state, *e) == 0)
            .fold(0, |bits, e| bits | 1 << e)
    }

    #[inline(always)]
    fn led(&self, state: State) -> bool {
        self.chunks.each(state).any(|c| self.leader.is(c))
    }

    fn appended(&self, state: State, a: u32, b: u32) -> State {
        let length = self.log.length.get(state);
        let (first, second) = self.sources[length as usize];
        let state = self.log.length.set(state, length + 1);
        second.set(first.set(state, a), b)
    }

    /// Returns the parts of a replica after it has executed the entry at its pointer.
    #[inline(always)]
    fn executed(&self, state: State, chunk: u128) -> u128 {
        let entry = self.log.pointer.get(chunk);
        let parts = self.parts.get(chunk);
        let covers = self.covers(state);
        let covered = (0..self.log.length.get(state))
            .any(|p| parts >> p & 1 == 1 && covers[entry as usize] & !covers[p as usize] == 0);
        let replaced = self.replaced(state, entry);
        let skipped = replaced != 0 && self.mutant == Some(Mutant::MergeSkipped);
        let after = if skipped || (covered && self.mutant != Some(Mutant::CoveredFetched)) {
            parts
        } else {
            parts & !replaced | 1 << entry
        };
        self.parts.set(self.log.advanced(chunk), after)
    }

    #[inline(always)]
    fn merge_steps(&self, state: State, replica: u32, step: &mut impl FnMut(Action, State)) {
        let chunk = self.chunks.get(state, replica);
        let length = self.log.length.get(state);
        let mut free = self.parts.get(chunk);
        if self.mutant != Some(Mutant::StaleLeader) {
            // Whoever assigns a merge must not take parts that a logged merge replaces.
            free &= !(0..length).fold(0, |bits, e| bits | self.replaced(state, e));
        }
        for a in 0..length {
            for b in a + 1..length {
                if free >> a & free >> b & 1 == 0 || length >= self.entries {
                    continue;
                }
                let kept = self.parts.get(chunk) & !(1 << a | 1 << b);
                let merged = self.parts.set(chunk, kept | 1 << length);
                let merged = self.chunks.set(state, replica, merged);
                let after = self.appended(merged, a + 1, b + 1);
                step(act("AssignMerge", Who::Replica, replica, length), after);
            }
        }
    }
}

impl Model for Replication {
    fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    #[inline(always)]
    fn steps(&self, state: State, step: &mut impl FnMut(Action, State)) {
        let length = self.log.length.get(state);
        let led = self.led(state);
        let inserts = self.inserts(state).count_ones();
        for r in 0..self.chunks.count {
            let chunk = self.chunks.get(state, r);
            let with = |after| self.chunks.set(state, r, after);
            if !self.chunks.active.is(chunk) {
                let after = self.chunks.switched(state, r, true);
                step(alone("BecomeActive", Who::Fault, r), after);
                continue;
            }
            let gone = self.chunks.active.set(self.leader.set(chunk, 0), 0);
            step(alone("BecomeInactive", Who::Fault, r), with(gone));
            if inserts < self.records && length < self.entries {
                let parts = self.parts.get(chunk) | 1 << length;
                let after = self.appended(with(self.parts.set(chunk, parts)), 0, 0);
                step(act("Insert", Who::Client, r, length), after);
            }
            if !led && !self.many_leaders {
                let after = with(self.leader.set(chunk, 1));
                step(alone("BecomeLeader", Who::Replica, r), after);
            }
            if let Some(entry) = self.log.next(state, chunk) {
                let after = with(self.executed(state, chunk));
                step(act("ExecuteLog", Who::Replica, r, entry), after);
            }
            if self.leader.is(chunk) || self.many_leaders {
                self.merge_steps(state, r, step);
            }
        }
    }

    fn claims(&self) -> &[Claim] {
        CLAIMS
    }

    #[inline(always)]
    fn judge(&self, state: State) -> Marks {
        let mut marks = Marks::default();
        let length = self.log.length.get(state);
        let covers = self.covers(state);
        let inserts = self.inserts(state);
        let (mut apart, mut complete, mut leaders, mut leads_active) = (true, true, 0, true);
        for chunk in self.chunks.each(state) {
            let parts = self.parts.get(chunk);
            let mut covered = 0;
            for part in (0..length).filter(|p| parts >> p & 1 == 1) {
                apart &= covered & covers[part as usize] == 0;
                covered |= covers[part as usize];
            }
            let executed = (1 << self.log.pointer.get(chunk)) - 1;
            complete &= inserts & executed & !covered == 0;
            leaders += self.leader.get(chunk);
            leads_active &= self.chunks.active.is(chunk) || !self.leader.is(chunk);
        }
        if !self.many_leaders {
            marks.judge(2, leaders <= 1 && leads_active);
        }
        if length == 0 {
            return marks;
        }
        marks.judge(0, apart);
        marks.judge(1, complete);
        if self.chunks.all_active(state) && self.at_rest(state) {
            let first = self.parts.get(self.chunks.get(state, 0));
            let equal = |chunk| self.parts.get(chunk) == first;
            marks.judge(3, self.chunks.each(state).all(equal));
            let whole = |chunk| self.parts.get(chunk).count_ones() == 1;
            marks.judge(4, self.chunks.each(state).all(whole));
        }
        marks
    }

    /// A merge that may still be assigned weighs more than all the executions that it causes.
    fn work_left(&self, state: State) -> Option<u32> {
        let length = self.log.length.get(state);
        let merges = length - self.inserts(state).count_ones();
        let behind = self.log.behind(&self.chunks, state);
        let weight = 4 * self.chunks.count * (self.entries + 1);
        let unmerged = self.records - merges.min(self.records);
        Some(unmerged * weight + 2 * behind + u32::from(!self.led(state) && !self.many_leaders))
    }

    fn show_global(&self, state: State) -> Vec<(&'static str, String)> {
        let entries: Vec<String> = (0..self.log.length.get(state))
            .map(|e| match self.sources[e as usize] {
                (a, b) if a.is(state) => format!("{}={}+{}", e + 1, a.get(state), b.get(state)),
                _ => (e + 1).to_string(),
            })
            .collect();
        vec![("log", entries.join(" "))]
    }

    fn show_chunk(&self, chunk: u128) -> String {
        let parts = set_text(self.parts.get(chunk));
        let leads = if self.leader.is(chunk) { " leads" } else { "" };
        format!("{parts} at {}{leads}", self.log.pointer.get(chunk))
    }

    /// Returns the inserts that the replica's parts cover, once for each part, so that duplicates
    /// show.
    fn visible(&self, state: State, replica: u32) -> Vec<u32> {
        let parts = self.parts.get(self.chunks.get(state, replica));
        let covers = self.covers(state);
        (0..self.log.length.get(state))
            .filter(|p| parts >> p & 1 == 1)
            .flat_map(|p| members(covers[p as usize]))
            .collect()
    }
}
