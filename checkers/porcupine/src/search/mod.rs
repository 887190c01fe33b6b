//! The general decision: Wing & Gong's search with Lowe's memoization, breadth first.
//!
//! Wing & Gong (1993) try the operations in every order that real time allows; Lowe ("Testing for
//! linearizability", 2017) remembers the configurations that were seen, and linearizes just in
//! time. Here the search walks through the calls and returns in order and keeps, at each, all
//! configurations that explain what has returned so far ([`frontier`]). A configuration is the state
//! and what became of each operation that is in flight: nothing in it grows with the
//! history, and configurations of the past are dropped.
//!
//! An operation in flight is
//! - *pending*: not yet placed, and must be by its return;
//! - *used*: placed, with its effect;
//! - *free*: it could have been placed somewhere without an effect on anything after, so it need not be
//!   placed any more, but it still may be until it returns.
//!
//! An operation becomes free when it would leave the state as it is, or when the
//! operation that is placed next overwrites all that it would have done. An operation that never
//! returns is free from its call on. A pure operation (a read) is placed as soon as the state fits,
//! for it can only be harder to place later.
//!
//! Nothing is placed before some operation returns: until then it can wait. At a return, the
//! operation is placed, possibly after others; one that is free is either dropped or placed, for it is the last moment.
//!
//! Of two configurations with the same state, one *dominates* the other when it has no more pending and no
//! more used: whatever explains the rest of the history from the other explains it from this one. Only
//! configurations that no other dominates need to be kept. Of identical operations, one that returns
//! no later and is no less pressing is used first, for the same reason.
//!
//! Of few states with few operations in flight a configuration is one word ([`packed`]); with up to six all
//! configurations of a state are one ([`subsets`]).

mod frontier;
mod machine;
mod packed;
mod plan;
mod run;
mod sequential;
mod subsets;
mod trace;

pub use run::{search, search_widening, Ended};
pub use sequential::{interleave, Turn};

use crate::budget::Limits;

/// What the search needs of a model. States and actions are numbers; equal numbers mean equal
/// things, and different numbers different ones (else the search only gets slower).
pub trait Model {
    fn initial(&mut self) -> u64;

    /// The state after the action; none if the action is not possible in the state.
    fn step(&mut self, state: u64, action: u32) -> Option<u64>;

    /// All states that there may be after the action, where its outcome is not known.
    fn steps(&mut self, state: u64, action: u32, out: &mut Vec<u64>) {
        out.extend(self.step(state, action));
    }

    /// Never changes a state.
    fn pure(&self, action: u32) -> bool;

    /// Possible in every state, and what it does is undone by any overwriting action after it.
    fn blind(&self, _action: u32) -> bool {
        false
    }

    /// The state after it does not depend on the state before it.
    fn overwrites(&self, _action: u32) -> bool {
        false
    }

    /// Can be placed as soon as it is possible, for that never makes anything else harder.
    fn eager(&self, _action: u32) -> bool {
        false
    }

    /// Placing the action may make another possible that was not, or free it.
    fn helps(&self, _action: u32) -> bool {
        true
    }

    /// The order of blind operations among themselves does not matter.
    fn commutes(&self) -> bool {
        false
    }

    /// Nothing is possible in the state but blind actions, and it stays as it is until one overwrites it.
    fn blank(&self, _state: u64) -> bool {
        false
    }

    /// However often the actions are repeated, there are few states.
    fn finite(&self) -> bool {
        false
    }

    /// Why the model answers no more, where it is slow and keeps to limits of its own: from then on no
    /// action is possible, which says nothing.
    fn halted(&self) -> Option<&'static str> {
        None
    }

    /// What is kept to tell states apart, and could be forgotten.
    fn bytes(&self) -> usize {
        0
    }

    /// What of that is not allocated by this library.
    fn bytes_elsewhere(&self) -> usize {
        0
    }

    /// Forgets all states but these, and gives these new numbers.
    fn renew(&mut self, _states: &mut [u64]) {}

    /// A smallest failing part of these is looked for from now on.
    fn suspect(&mut self, _ops: &[Op]) {}

    /// Drops what the others could not bring about in any order, until there is nothing such left: a
    /// read of what nobody wrote fails for another reason than the history did. It may drop too little, and
    /// what only the dropped would have taken away again.
    fn close(&self, _part: &mut Vec<Op>) {}
}

/// An operation on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Position in the history that was given.
    pub row: u32,
    pub action: u32,
    pub call: i64,
    /// [`crate::order::NEVER`]: may take effect at any time after its call, or never.
    pub ret: i64,
}

/// Decides the operations of one object where only each process's own order counts.
pub fn lanes<M: Model>(
    model: &mut M,
    ops: &[Op],
    limits: Limits,
    process: impl Fn(u32) -> i64,
) -> Ended {
    let mut sorted: Vec<(i64, &Op)> = ops.iter().map(|op| (process(op.row), op)).collect();
    sorted.sort_by_key(|&(process, op)| (process, op.call, op.ret, op.row));
    let lanes: Vec<Vec<Turn>> = sorted
        .chunk_by(|a, b| a.0 == b.0)
        .map(|lane| lane.iter().map(|(_, op)| Turn::new(op)).collect())
        .collect();
    interleave(model, &lanes, limits)
}
