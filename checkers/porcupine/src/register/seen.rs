//! Which actions there are, where values are few: what holds of an action need not be asked of each operation.

use super::{Action, RegisterOp, Value};

/// By place of an action: whether it is there.
pub struct Seen {
    values: usize,
    seen: Vec<bool>,
}

/// With more values a table would be larger than most histories.
const MOST: usize = 63;

impl Seen {
    /// None where there are many values. O(n).
    pub fn new(ops: &[RegisterOp], values: usize) -> Option<Self> {
        if values > MOST {
            return None;
        }
        let mut all = Self {
            values,
            seen: vec![false; (values + 3) * values],
        };
        for op in ops {
            let place = all.place(op.action);
            all.seen[place] = true;
        }
        Some(all)
    }

    /// Each action has one of its own.
    #[inline(always)]
    pub fn place(&self, action: Action) -> usize {
        let (row, value) = match action {
            Action::Read(v) => (0, v),
            Action::Write(v) => (1, v),
            Action::CasFailed(v) => (2, v),
            Action::Cas(from, to) => (3 + to as usize, from),
        };
        row * self.values + value as usize
    }

    fn at(&self, place: usize) -> Action {
        let value = (place % self.values) as Value;
        match place / self.values {
            0 => Action::Read(value),
            1 => Action::Write(value),
            2 => Action::CasFailed(value),
            row => Action::Cas(value, row as Value - 3),
        }
    }

    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.seen.len()).filter(|&place| self.seen[place])
    }

    /// Each action that there is.
    pub fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        self.places().map(|place| self.at(place))
    }

    /// By place: what is made of each action that there is.
    pub fn table(&self, mut number: impl FnMut(Action) -> u32) -> Vec<u32> {
        let mut table = vec![0; self.seen.len()];
        self.places()
            .for_each(|place| table[place] = number(self.at(place)));
        table
    }
}
