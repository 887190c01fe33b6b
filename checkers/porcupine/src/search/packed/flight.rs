//! The operations in flight that have a bit.

use super::config::{as_pending, Config, BITS};
use crate::search::machine::{ones, Act};

/// An operation's bit is that of its seat.
pub(super) struct Flight {
    /// By bit: the action; the place of the return among all returns.
    pub action: [u32; BITS],
    rank: [u32; BITS],
    /// By bit: those of the same action that return earlier.
    pub twins: [u64; BITS],
    /// Those that are not pure.
    pub open: u64,
    /// What is blind, where it is pending.
    pub blind: Config,
    /// By state: what leaves it as it is, where it is pending.
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

    /// An operation was called.
    #[inline(always)]
    pub fn board(&mut self, bit: usize, action: u32, rank: u32, act: Act) {
        self.action[bit] = action;
        self.rank[bit] = rank;
        for state in ones(act.stays) {
            self.stays[state] |= as_pending(1 << bit);
        }
        if act.blind {
            self.blind |= as_pending(1 << bit);
        }
        if !act.pure {
            self.pair(bit);
            self.open |= 1 << bit;
        }
    }

    /// Finds those of the same action.
    #[inline(always)]
    fn pair(&mut self, bit: usize) {
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

    /// The operation returned.
    #[inline(always)]
    pub fn leave(&mut self, bit: usize, act: Act) {
        for state in ones(act.stays) {
            self.stays[state] &= !as_pending(1 << bit);
        }
        self.blind &= !as_pending(1 << bit);
        if !act.pure {
            self.open &= !(1 << bit);
            ones(self.open).for_each(|other| self.twins[other] &= !(1 << bit));
        }
    }
}
