//! Models the truncation of the log: entries that every active replica has executed are deleted,
//! and a replica that was inactive meanwhile and needs deleted entries is lost until it has cloned
//! another.
//!
//! The parts of a replica are the records before its pointer, so the pointer stands for both.

use super::log::Log;
use crate::fields::{Chunks, Field, Layout, State};
use crate::model::{act, alone, in_range, members, Action, Claim, Marks, Model, Scope, Who, NONE};

/// A change of one line that breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Deletes up to the pointer of the most advanced active replica instead of the least advanced.
    MaxForMin,
    /// Replicas that need deleted entries are not marked as lost.
    LostUnmarked,
    /// A lost replica clones another lost one.
    CloneOfLost,
}

pub const MUTANTS: &[(&str, Mutant)] = &[
    ("max-for-min", Mutant::MaxForMin),
    ("lost-unmarked", Mutant::LostUnmarked),
    ("clone-of-lost", Mutant::CloneOfLost),
];

pub struct Truncation {
    records: u32,
    mutant: Option<Mutant>,
    chunks: Chunks,
    log: Log,
    /// Number of deleted entries.
    prefix: Field,
    lost: Field,
}

const CLAIMS: &[Claim] = &[
    Claim {
        name: "valid-log-pointer",
        text: "no active replica still needs an entry that is deleted",
    },
    Claim {
        name: "lost-is-behind",
        text: "a replica is marked lost if and only if an entry that it needs is deleted",
    },
    Claim {
        name: "truncated-at-rest",
        text: "at rest, with a replica active and something inserted, the log is truncated",
    },
    Claim {
        name: "equal-at-rest",
        text: "at rest, with all replicas active, each has every record",
    },
];

impl Truncation {
    pub fn new(scope: &Scope) -> Result<Self, String> {
        let records = scope.records;
        in_range("replicas", scope.replicas, 1, 12)?;
        in_range("records", records, 1, 30)?;
        let mut layout = Layout::default();
        let lost = layout.chunk.flag();
        Ok(Self {
            records,
            mutant: scope.mutant(MUTANTS)?,
            log: Log::new(&mut layout, records),
            prefix: layout.global.number(records),
            lost,
            chunks: layout.chunks(scope.replicas)?,
        })
    }

    /// Applies `ClearOldLog`; returns the same state if there is nothing to delete.
    #[inline(always)]
    fn cleared(&self, state: State) -> State {
        let pointers = (self.chunks.each(state))
            .filter(|c| self.chunks.active.is(*c))
            .map(|c| self.log.pointer.get(c));
        let bound = match self.mutant {
            Some(Mutant::MaxForMin) => pointers.max(),
            _ => pointers.min(),
        };
        let Some(bound) = bound else { return state };
        let prefix = bound.max(self.prefix.get(state));
        let after = self.prefix.set(state, prefix);
        if self.mutant == Some(Mutant::LostUnmarked) {
            return after;
        }
        (0..self.chunks.count).fold(after, |after, r| {
            let chunk = self.chunks.get(after, r);
            let lost = u32::from(self.log.pointer.get(chunk) < prefix);
            self.chunks.set(after, r, self.lost.set(chunk, lost))
        })
    }

    #[inline(always)]
    fn clone_steps(&self, state: State, replica: u32, step: &mut impl FnMut(Action, State)) {
        let chunk = self.chunks.get(state, replica);
        for source in (0..self.chunks.count).filter(|s| *s != replica) {
            let of = self.chunks.get(state, source);
            let fits = if self.mutant == Some(Mutant::CloneOfLost) {
                self.lost.is(of)
            } else {
                self.chunks.active.is(of) && !self.lost.is(of)
            };
            if fits {
                let after = self.log.pointer.set(chunk, self.log.pointer.get(of));
                let after = self.chunks.set(state, replica, self.lost.set(after, 0));
                step(act("CloneReplica", Who::Replica, replica, source), after);
            }
        }
    }
}

impl Model for Truncation {
    fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    #[inline(always)]
    fn steps(&self, state: State, step: &mut impl FnMut(Action, State)) {
        let length = self.log.length.get(state);
        let mut inserted = false;
        for r in 0..self.chunks.count {
            let chunk = self.chunks.get(state, r);
            let switched = |on| self.chunks.switched(state, r, on);
            let (active, lost) = (self.chunks.active.is(chunk), self.lost.is(chunk));
            match (active, lost) {
                (true, _) => step(alone("BecomeInactive", Who::Fault, r), switched(false)),
                (false, false) => step(alone("BecomeActive", Who::Fault, r), switched(true)),
                (false, true) => self.clone_steps(state, r, step),
            }
            if !active || lost {
                continue;
            }
            // The state after an insert does not depend on the inserting replica.
            if length < self.records && !inserted {
                inserted = true;
                step(
                    act("Insert", Who::Client, r, length),
                    self.log.length.set(state, length + 1),
                );
            }
            if let Some(entry) = self.log.next(state, chunk) {
                let after = self.chunks.set(state, r, self.log.advanced(chunk));
                step(act("ExecuteLog", Who::Replica, r, entry), after);
            }
        }
        if length > 0 {
            let action = alone("ClearOldLog", Who::Replica, NONE.into());
            step(action, self.cleared(state));
        }
    }

    fn claims(&self) -> &[Claim] {
        CLAIMS
    }

    #[inline(always)]
    fn judge(&self, state: State) -> Marks {
        let mut marks = Marks::default();
        let prefix = self.prefix.get(state);
        let (mut valid, mut marked) = (true, true);
        let mut any_active = false;
        for chunk in self.chunks.each(state) {
            let behind = self.log.pointer.get(chunk) < prefix;
            valid &= !(self.chunks.active.is(chunk) && behind);
            marked &= self.lost.is(chunk) == behind;
            any_active |= self.chunks.active.is(chunk);
        }
        marks.judge(0, valid);
        marks.judge(1, marked);
        let length = self.log.length.get(state);
        if length > 0 && any_active && self.at_rest(state) {
            marks.judge(2, prefix > 0);
            if self.chunks.all_active(state) {
                marks.judge(3, self.log.behind(&self.chunks, state) == 0);
            }
        }
        marks
    }

    fn work_left(&self, state: State) -> Option<u32> {
        let undeleted = self.log.length.get(state) - self.prefix.get(state);
        Some(self.log.behind(&self.chunks, state) + undeleted)
    }

    fn show_global(&self, state: State) -> Vec<(&'static str, String)> {
        vec![
            ("log", self.log.length.get(state).to_string()),
            ("deleted", self.prefix.get(state).to_string()),
        ]
    }

    fn show_chunk(&self, chunk: u128) -> String {
        let lost = if self.lost.is(chunk) { " lost" } else { "" };
        format!("at {}{lost}", self.log.pointer.get(chunk))
    }

    fn visible(&self, state: State, replica: u32) -> Vec<u32> {
        members((1 << self.log.pointer.get(self.chunks.get(state, replica))) - 1)
    }
}
