//! A register: read, write, compare-and-set.

use crate::search::Model;

/// A value's number; equal values have equal numbers.
pub type Value = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Read(Value),
    Write(Value),
    /// Found the first value and put the second in its place.
    Cas(Value, Value),
    /// Did not find the value.
    CasFailed(Value),
}

impl Action {
    /// The value that the action puts there.
    pub fn sets(self) -> Option<Value> {
        match self {
            Action::Write(v) | Action::Cas(_, v) => Some(v),
            Action::Read(_) | Action::CasFailed(_) => None,
        }
    }

    /// The value that the action must find.
    pub fn needs(self) -> Option<Value> {
        match self {
            Action::Read(v) | Action::Cas(v, _) => Some(v),
            Action::Write(_) | Action::CasFailed(_) => None,
        }
    }
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
}
