//! Tracks the operations in flight that have a bit.

use super::config::{as_pending, Config, BITS};
use crate::search::machine::{ones, Effect};

/// The operations in flight. An operation's bit is its slot.
pub(super) struct Flight {
    /// By bit: the action, and the rank of the return among all returns.
    pub action: [u32; BITS],
    rank: [u32; BITS],
    /// By bit: the operations with the same action that return earlier.
    pub twins: [u64; BITS],
    /// The operations that are not pure.
    pub open: u64,
    /// The blind operations, as pending.
    pub blind: Config,
    /// By state: the operations that leave it unchanged, as pending.
    pub stays: Vec<Config>,
}

impl Flight {
    pub fn new(states: usize) -> Self {
        Self {
            action: [0; BITS],
            rank: [0; BITS],
            twins: [0; BITS],
            open: 0,
            blind: 0,
            stays: vec![0; states],
        }
    }

    /// Adds an operation that was called.
    #[inline(always)]
    pub fn call(&mut self, bit: usize, action: u32, rank: u32, effect: Effect) {
        self.action[bit] = action;
        self.rank[bit] = rank;
        for state in ones(effect.stays) {
            self.stays[state] |= as_pending(1 << bit);
        }
        if effect.blind {
            self.blind |= as_pending(1 << bit);
        }
        if !effect.pure {
            self.find_twins(bit);
            self.open |= 1 << bit;
        }
    }

    /// Finds the operations with the same action.
    #[inline(always)]
    fn find_twins(&mut self, bit: usize) {
        self.twins[bit] = 0;
        for other in ones(self.open) {
            if self.action[other] != self.action[bit] {
                continue;
            }
            if self.rank[other] < self.rank[bit] {
                self.twins[bit] |= 1 << other;
            } else {
                self.twins[other] |= 1 << bit;
            }
        }
    }

    /// Removes an operation that returned.
    #[inline(always)]
    pub fn ret(&mut self, bit: usize, effect: Effect) {
        for state in ones(effect.stays) {
            self.stays[state] &= !as_pending(1 << bit);
        }
        self.blind &= !as_pending(1 << bit);
        if !effect.pure {
            self.open &= !(1 << bit);
            ones(self.open).for_each(|other| self.twins[other] &= !(1 << bit));
        }
    }
}
