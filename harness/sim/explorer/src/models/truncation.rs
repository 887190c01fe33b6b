//! Cleaning the log: what every active replica has executed is deleted, and a replica that slept
//! through entries which are gone is lost until it has cloned another.
//!
//! The parts of a replica are the records before its pointer, so the pointer stands for both.

use super::{act, in_range};
use crate::fields::{Bits, Chunks, Field, State};
use crate::model::{members, Claim, Marks, Model, Who, NONE};

/// One wrong line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Deletes up to the most advanced active replica in place of the least advanced.
    MaxForMin,
    /// Replicas that slept through deleted entries are not marked lost.
    LostUnmarked,
    /// A lost replica clones another lost one.
    CloneOfLost,
}

pub const MUTANTS: &[(&str, Mutant)] = &[
    ("max-for-min", Mutant::MaxForMin),
    ("lost-unmarked", Mutant::LostUnmarked),
    ("clone-of-lost", Mutant::CloneOfLost),
];

#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub replicas: u32,
    pub records: u32,
    pub mutant: Option<Mutant>,
}

pub struct Truncation {
    scope: Scope,
    chunks: Chunks,
    length: Field,
    /// Entries that are deleted.
    prefix: Field,
    active: Field,
    lost: Field,
    /// Entries that the replica has executed: the server's log_pointer.
    pointer: Field,
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
    pub fn new(scope: Scope) -> Result<Self, String> {
        in_range("replicas", scope.replicas, 1, 12)?;
        in_range("records", scope.records, 1, 30)?;
        let mut global = Bits::default();
        let length = global.number(scope.records);
        let prefix = global.number(scope.records);
        let mut chunk = Bits::default();
        Ok(Self {
            scope,
            length,
            prefix,
            active: chunk.flag(),
            lost: chunk.flag(),
            pointer: chunk.number(scope.records),
            chunks: Chunks::new(global.used(), chunk.used(), scope.replicas)?,
        })
    }

    /// `ClearOldLog`; the same state when there is nothing to delete.
    #[inline(always)]
    fn cleared(&self, state: State) -> State {
        let pointers = (self.chunks.each(state))
            .filter(|c| self.active.is(*c))
            .map(|c| self.pointer.get(c));
        let bound = match self.scope.mutant {
            Some(Mutant::MaxForMin) => pointers.max(),
            _ => pointers.min(),
        };
        let Some(bound) = bound else { return state };
        let prefix = bound.max(self.prefix.get(state));
        let after = self.prefix.set(state, prefix);
        if self.scope.mutant == Some(Mutant::LostUnmarked) {
            return after;
        }
        (0..self.chunks.count).fold(after, |after, r| {
            let chunk = self.chunks.get(after, r);
            let lost = u32::from(self.pointer.get(chunk) < prefix);
            self.chunks.set(after, r, self.lost.set(chunk, lost))
        })
    }

    #[inline(always)]
    fn clone_steps(
        &self,
        state: State,
        replica: u32,
        step: &mut impl FnMut(crate::model::Action, State),
    ) {
        let chunk = self.chunks.get(state, replica);
        for source in (0..self.chunks.count).filter(|s| *s != replica) {
            let of = self.chunks.get(state, source);
            let fits = if self.scope.mutant == Some(Mutant::CloneOfLost) {
                self.lost.is(of)
            } else {
                self.active.is(of) && !self.lost.is(of)
            };
            if fits {
                let after = self.pointer.set(chunk, self.pointer.get(of));
                let after = self.chunks.set(state, replica, self.lost.set(after, 0));
                step(act("CloneReplica", Who::Replica, replica, source), after);
            }
        }
    }

    #[inline(always)]
    fn at_rest(&self, state: State) -> bool {
        let mut busy = false;
        self.steps(state, &mut |action, after| {
            busy |= action.who == Who::Replica && after != state;
        });
        !busy
    }
}

impl Model for Truncation {
    fn initial(&self) -> State {
        let chunk = self.active.set(0, 1);
        (0..self.chunks.count).fold(0, |state, r| self.chunks.set(state, r, chunk))
    }

    fn bits(&self) -> u32 {
        self.chunks.bits()
    }

    fn replicas(&self) -> u32 {
        self.chunks.count
    }

    #[inline(always)]
    fn steps(&self, state: State, step: &mut impl FnMut(crate::model::Action, State)) {
        let length = self.length.get(state);
        let mut inserted = false;
        for r in 0..self.chunks.count {
            let chunk = self.chunks.get(state, r);
            let toggled = |on| self.chunks.set(state, r, self.active.set(chunk, on));
            let (active, lost) = (self.active.is(chunk), self.lost.is(chunk));
            match (active, lost) {
                (true, _) => step(
                    act("BecomeInactive", Who::Fault, r, NONE.into()),
                    toggled(0),
                ),
                (false, false) => step(act("BecomeActive", Who::Fault, r, NONE.into()), toggled(1)),
                (false, true) => self.clone_steps(state, r, step),
            }
            if !active || lost {
                continue;
            }
            // Whoever inserts, the state after it is one.
            if length < self.scope.records && !inserted {
                inserted = true;
                step(
                    act("Insert", Who::Client, r, length),
                    self.length.set(state, length + 1),
                );
            }
            let pointer = self.pointer.get(chunk);
            if pointer < length {
                let after = self.pointer.set(chunk, pointer + 1);
                let after = self.chunks.set(state, r, after);
                step(act("ExecuteLog", Who::Replica, r, pointer), after);
            }
        }
        if length > 0 {
            let after = self.cleared(state);
            step(
                act("ClearOldLog", Who::Replica, NONE.into(), NONE.into()),
                after,
            );
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
        let (mut any_active, mut all_active) = (false, true);
        for chunk in self.chunks.each(state) {
            let behind = self.pointer.get(chunk) < prefix;
            valid &= !(self.active.is(chunk) && behind);
            marked &= self.lost.is(chunk) == behind;
            any_active |= self.active.is(chunk);
            all_active &= self.active.is(chunk);
        }
        marks.judge(0, valid);
        marks.judge(1, marked);
        let length = self.length.get(state);
        if length > 0 && any_active && self.at_rest(state) {
            marks.judge(2, prefix > 0);
            if all_active {
                marks.judge(
                    3,
                    self.chunks
                        .each(state)
                        .all(|c| self.pointer.get(c) == length),
                );
            }
        }
        marks
    }

    fn work_left(&self, state: State) -> Option<u32> {
        let length = self.length.get(state);
        let behind: u32 = self
            .chunks
            .each(state)
            .map(|c| length - self.pointer.get(c))
            .sum();
        Some(behind + length - self.prefix.get(state))
    }

    fn canonical(&self, state: State) -> State {
        self.chunks.sorted(state)
    }

    fn show(&self, state: State) -> Vec<(String, String)> {
        let mut out = vec![
            ("log".into(), self.length.get(state).to_string()),
            ("deleted".into(), self.prefix.get(state).to_string()),
        ];
        for (i, chunk) in self.chunks.each(state).enumerate() {
            let text = format!(
                "at {}{}{}",
                self.pointer.get(chunk),
                if self.lost.is(chunk) { " lost" } else { "" },
                if self.active.is(chunk) {
                    ""
                } else {
                    " inactive"
                },
            );
            out.push((format!("ch{}", i + 1), text));
        }
        out
    }

    fn visible(&self, state: State, replica: u32) -> Vec<u32> {
        members((1 << self.pointer.get(self.chunks.get(state, replica))) - 1)
    }
}
