//! Records which actions occur if values are few, so that a property of an action is computed once
//! and not per operation.

use super::{Action, RegisterOp, Value};

/// By index of an action: whether it occurs.
pub struct Seen {
    values: usize,
    seen: Vec<bool>,
}

/// With more values the table would be larger than most histories.
const VALUES_MAX: usize = 63;

impl Seen {
    /// Returns `None` if there are too many values. O(n).
    pub fn new(ops: &[RegisterOp], values: usize) -> Option<Self> {
        if values > VALUES_MAX {
            return None;
        }
        let mut all = Self {
            values,
            seen: vec![false; (values + 3) * values],
        };
        for op in ops {
            let index = all.index(op.action);
            all.seen[index] = true;
        }
        Some(all)
    }

    /// Returns the index of an action.
    #[inline(always)]
    pub fn index(&self, action: Action) -> usize {
        let (row, value) = match action {
            Action::Read(v) => (0, v),
            Action::Write(v) => (1, v),
            Action::CasFailed(v) => (2, v),
            Action::Cas(from, to) => (3 + to as usize, from),
        };
        row * self.values + value as usize
    }

    fn at(&self, index: usize) -> Action {
        let value = (index % self.values) as Value;
        match index / self.values {
            0 => Action::Read(value),
            1 => Action::Write(value),
            2 => Action::CasFailed(value),
            row => Action::Cas(value, row as Value - 3),
        }
    }

    fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.seen.len()).filter(|&index| self.seen[index])
    }

    /// Iterates over the actions that occur.
    pub fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        self.indices().map(|index| self.at(index))
    }

    /// Returns by index the number that `number` gives to each action that occurs.
    pub fn table(&self, mut number: impl FnMut(Action) -> u32) -> Vec<u32> {
        let mut table = vec![0; self.seen.len()];
        self.indices()
            .for_each(|index| table[index] = number(self.at(index)));
        table
    }
}
