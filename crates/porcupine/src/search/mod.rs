//! Decides by search: Wing & Gong's search with Lowe's memoization, breadth first.
//!
//! Wing & Gong (1993) try the operations in every order that real time allows. Lowe ("Testing for
//! linearizability", 2017) remembers the visited configurations and linearizes just in time. Here
//! the search walks through the calls and returns in order. At each it keeps all configurations
//! that explain what has returned so far ([`frontier`]). A configuration is the state and the
//! status of each operation in flight: nothing in it grows with the history, and past
//! configurations are dropped.
//!
//! An operation in flight is
//! - *pending*: not yet placed, and must be placed by its return;
//! - *used*: placed, with its effect;
//! - *free*: it could have been placed somewhere without an effect on anything later, so it need
//!   not be placed any more, but may still be until it returns.
//!
//! An operation becomes free when it would leave the state unchanged, or when the operation that is
//! placed next overwrites all its effects. An operation that never returns is free from its call
//! on. A pure operation (a read) is placed as soon as the state fits, because it can only be harder
//! to place later.
//!
//! Nothing is placed before some operation returns: until then it can wait. At its return, an
//! operation is placed, possibly after others; a free one is either dropped or placed, because this
//! is the last moment.
//!
//! One of two configurations with the same state *dominates* the other if its pending and its used
//! operations are subsets of the other's: whatever explains the rest of the history from the other
//! one explains it from this one. Only configurations that no other dominates need to be kept.
//! Among identical operations, one that returns no later and is pending if the other is, is used
//! first, for the same reason.
//!
//! If states and operations in flight are few, a configuration is one word ([`packed`]). With at
//! most six operations in flight, all configurations of a state are one word ([`subsets`]).

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

/// What the search requires of a model. States and actions are numbers. Equal numbers mean equal
/// things; different numbers should mean different things, otherwise the search only gets slower.
pub trait Model {
    fn initial(&mut self) -> u64;

    /// Returns the state after the action; `None` if the action is not possible in the state.
    fn step(&mut self, state: u64, action: u32) -> Option<u64>;

    /// Appends all possible states after an action of unknown outcome.
    fn steps(&mut self, state: u64, action: u32, out: &mut Vec<u64>) {
        out.extend(self.step(state, action));
    }

    /// Whether the action never changes a state.
    fn pure(&self, action: u32) -> bool;

    /// Whether the action is possible in every state, and any later overwriting action undoes its
    /// effect.
    fn blind(&self, _action: u32) -> bool {
        false
    }

    /// Whether the state after the action does not depend on the state before it.
    fn overwrites(&self, _action: u32) -> bool {
        false
    }

    /// Whether the action can be placed as soon as it is possible, because that never makes
    /// anything else harder.
    fn eager(&self, _action: u32) -> bool {
        false
    }

    /// Whether placing the action may enable or free another one.
    fn helps(&self, _action: u32) -> bool {
        true
    }

    /// Whether the order of blind operations among themselves does not matter.
    fn commutes(&self) -> bool {
        false
    }

    /// Whether only blind actions are possible in the state, and it stays the same until one
    /// overwrites it.
    fn blank(&self, _state: u64) -> bool {
        false
    }

    /// Whether there are few states, however often the actions are repeated.
    fn finite(&self) -> bool {
        false
    }

    /// Returns the reason if the model reached a limit of its own. No action is possible from then
    /// on, which proves nothing.
    fn halted(&self) -> Option<&'static str> {
        None
    }

    /// Returns the bytes that serve to distinguish states and could be freed.
    fn bytes(&self) -> usize {
        0
    }

    /// Returns how many of those bytes this library did not allocate.
    fn bytes_elsewhere(&self) -> usize {
        0
    }

    /// Forgets all states except these, and gives them new numbers.
    fn renew(&mut self, _states: &mut [u64]) {}

    /// Announces that a smallest failing part of these operations is searched for from now on.
    fn suspect(&mut self, _ops: &[Op]) {}

    /// Drops operations that the others could not enable in any order, until there are none left: a
    /// read of a value that nobody wrote fails for another reason than the history did. It may drop
    /// too few operations, and may drop ones whose effect only dropped operations would have
    /// undone.
    fn close(&self, _part: &mut Vec<Op>) {}

    /// Whether the part undoes what the suspect operations undid.
    fn is_fair(&self, _part: &[Op]) -> bool {
        true
    }
}

/// An operation on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Position in the given history.
    pub row: u32,
    pub action: u32,
    pub call: i64,
    /// [`crate::order::NEVER`] if it never returned: it may take effect at any time after its call,
    /// or never.
    pub ret: i64,
}

/// Splits the operations of one object by process and decides whether these orders can be
/// interleaved.
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
