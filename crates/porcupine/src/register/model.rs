//! Models a register: read, write, compare-and-set.

use rustc_hash::FxHashSet;

use crate::search::{Model, Op};

/// The number of a value; equal values have equal numbers.
pub type Value = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Read(Value),
    Write(Value),
    /// Found the first value and replaced it with the second.
    Cas(Value, Value),
    /// Found another value than this one.
    CasFailed(Value),
}

impl Action {
    /// Returns the value that the action stores, if any.
    pub fn sets(self) -> Option<Value> {
        match self {
            Action::Write(v) | Action::Cas(_, v) => Some(v),
            Action::Read(_) | Action::CasFailed(_) => None,
        }
    }

    /// Returns the value that the action must find, if any.
    pub fn needs(self) -> Option<Value> {
        match self {
            Action::Read(v) | Action::Cas(v, _) => Some(v),
            Action::Write(_) | Action::CasFailed(_) => None,
        }
    }
}

/// An operation on one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterOp {
    /// Position in the given history.
    pub row: u32,
    pub action: Action,
    pub call: i64,
    /// [`crate::order::NEVER`] if it never returned: it may take effect at any time after its call, or never.
    pub ret: i64,
}

/// The state is the value's number.
pub struct Register {
    pub initial: Value,
    /// By number of the action.
    pub actions: Vec<Action>,
}

impl Model for Register {
    fn initial(&mut self) -> u64 {
        u64::from(self.initial)
    }

    #[inline]
    fn step(&mut self, state: u64, action: u32) -> Option<u64> {
        match self.actions[action as usize] {
            Action::Read(v) => (state == u64::from(v)).then_some(state),
            Action::Write(v) => Some(u64::from(v)),
            Action::Cas(from, to) => (state == u64::from(from)).then_some(u64::from(to)),
            Action::CasFailed(from) => (state != u64::from(from)).then_some(state),
        }
    }

    #[inline]
    fn pure(&self, action: u32) -> bool {
        match self.actions[action as usize] {
            Action::Read(_) | Action::CasFailed(_) => true,
            Action::Cas(from, to) => from == to,
            Action::Write(_) => false,
        }
    }

    fn finite(&self) -> bool {
        true
    }

    #[inline]
    fn blind(&self, action: u32) -> bool {
        matches!(self.actions[action as usize], Action::Write(_))
    }

    #[inline]
    fn overwrites(&self, action: u32) -> bool {
        matches!(self.actions[action as usize], Action::Write(_))
    }

    fn close(&self, part: &mut Vec<Op>) {
        close(part, |op| self.actions[op.action as usize], self.initial);
    }
}

/// Drops operations that need a value which nothing sets, until all that are left have their
/// values.
pub fn close<T>(part: &mut Vec<T>, action: impl Fn(&T) -> Action, initial: Value) {
    loop {
        let mut set: FxHashSet<Value> = part.iter().filter_map(|op| action(op).sets()).collect();
        set.insert(initial);
        let before = part.len();
        part.retain(|op| action(op).needs().is_none_or(|value| set.contains(&value)));
        if part.len() == before {
            return;
        }
    }
}
