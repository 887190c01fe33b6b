//! Tracks the operations in flight and places those that leave no choice.

use crate::search::frontier::{Config, Layout};
use crate::search::plan::{Plan, Properties};
use crate::search::trace::Traces;
use crate::search::{Model, Op};

pub(super) struct SearchState<'a, M, C> {
    pub model: &'a mut M,
    pub ops: &'a [Op],
    plan: &'a Plan,
    pub layout: Layout<C>,
    pub traces: Traces,
    pub slots: Slots,
}

/// The slots and their operations.
#[derive(Clone)]
pub(super) struct Slots {
    /// By slot: its operation and that operation's action.
    operations: Vec<u32>,
    actions: Vec<u32>,
    /// Bitmap of the slots whose operations are blind.
    blind: Vec<u64>,
}

impl<'a, M: Model, C: Config> SearchState<'a, M, C> {
    pub fn new(
        model: &'a mut M,
        ops: &'a [Op],
        plan: &'a Plan,
        layout: Layout<C>,
        traces: Traces,
    ) -> Self {
        Self {
            model,
            ops,
            plan,
            layout,
            traces,
            slots: Slots {
                operations: vec![0; plan.slots],
                actions: vec![0; plan.slots],
                blind: vec![0; layout.slot_words()],
            },
        }
    }

    /// Assigns a slot to the operation of a call.
    pub fn assign(&mut self, slot: u32, op: u32) -> Properties {
        let action = self.ops[op as usize].action;
        self.slots.operations[slot as usize] = op;
        self.slots.actions[slot as usize] = action;
        let properties = self.properties(action);
        if properties.blind {
            self.slots.blind[slot as usize / 64] |= 1 << (slot % 64);
        }
        properties
    }

    /// Releases the slot of an operation that returned.
    pub fn release(&mut self, slot: u32) {
        self.slots.blind[slot as usize / 64] &= !(1 << (slot % 64));
    }

    #[inline(always)]
    pub fn operation(&self, slot: u32) -> u32 {
        self.slots.operations[slot as usize]
    }

    #[inline(always)]
    pub fn action(&self, slot: u32) -> u32 {
        self.slots.actions[slot as usize]
    }

    #[inline(always)]
    pub fn properties(&self, action: u32) -> Properties {
        self.plan.properties[action as usize]
    }

    /// Returns the rank of the slot's return among all returns.
    pub fn rank(&self, slot: u32) -> u32 {
        self.plan.rank[self.operation(slot) as usize]
    }

    /// Returns the number of pending operations.
    #[inline(always)]
    pub fn pending(&self, config: &C) -> u32 {
        let pending = &config.words()[1..1 + self.layout.slot_words()];
        pending.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether all pending operations are blind.
    pub fn only_blind(&self, config: &C) -> bool {
        let pending = &config.words()[1..1 + self.layout.slot_words()];
        let blind = |(pending, blind): (&u64, &u64)| pending & !blind == 0;
        pending.iter().zip(&self.slots.blind).all(blind)
    }

    /// Frees every blind operation in flight, which could have been placed just before.
    #[inline(always)]
    pub fn overwrite(&mut self, config: &mut C, mut trace: u32) -> u32 {
        for w in 0..self.layout.slot_words() {
            let mut bits = config.words()[1 + w] & self.slots.blind[w];
            config.words_mut()[1 + w] &= !bits;
            while bits != 0 && self.traces.is_on() {
                let slot = 64 * w + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                trace = self.traces.freed(trace, self.slots.operations[slot]);
            }
        }
        trace
    }

    /// Places every pending operation that cannot be wrong now, until there is none left.
    #[inline]
    pub fn settle(&mut self, config: &mut C, mut trace: u32) -> u32 {
        loop {
            let state = config.words()[0];
            for w in 0..self.layout.slot_words() {
                let mut bits = config.words()[1 + w];
                while bits != 0 {
                    let slot = 64 * w as u32 + bits.trailing_zeros();
                    bits &= bits - 1;
                    trace = self.settle_one(config, trace, slot);
                }
            }
            if config.words()[0] == state {
                return trace;
            }
        }
    }

    /// Places the pending operation of one slot if that cannot be wrong now.
    #[inline(always)]
    pub fn settle_one(&mut self, config: &mut C, trace: u32, slot: u32) -> u32 {
        let action = self.action(slot);
        let before = config.words()[0];
        let Some(state) = self.model.step(before, action) else {
            return trace;
        };
        let properties = self.properties(action);
        let (word, bit) = self.layout.pending(slot);
        if properties.eager {
            let (used, used_bit) = self.layout.used(slot);
            let words = config.words_mut();
            words[0] = state;
            words[word] &= !bit;
            words[used] |= used_bit;
            return self.traces.placed(trace, self.operation(slot));
        }
        if state != before {
            return trace;
        }
        config.words_mut()[word] &= !bit;
        if properties.pure {
            return self.traces.placed(trace, self.operation(slot));
        }
        self.traces.freed(trace, self.operation(slot))
    }
}
