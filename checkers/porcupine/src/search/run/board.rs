//! Who is in flight, and what of them can be placed without a choice.

use crate::search::frontier::{Config, Layout};
use crate::search::plan::{Nature, Plan};
use crate::search::trace::Traces;
use crate::search::{Model, Op};

pub(super) struct Board<'a, M, C> {
    pub model: &'a mut M,
    pub ops: &'a [Op],
    plan: &'a Plan,
    pub layout: Layout<C>,
    pub traces: Traces,
    pub seated: Seated,
}

/// Who sits where.
#[derive(Clone)]
pub(super) struct Seated {
    /// By seat: the operation in it, and its action.
    sitting: Vec<u32>,
    actions: Vec<u32>,
    /// By word: the seats whose operations are blind.
    blind: Vec<u64>,
}

impl<'a, M: Model, C: Config> Board<'a, M, C> {
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
            seated: Seated {
                sitting: vec![0; plan.seats],
                actions: vec![0; plan.seats],
                blind: vec![0; layout.seats()],
            },
        }
    }

    /// Seats the operation of a call.
    pub fn seat(&mut self, seat: u32, op: u32) -> Nature {
        let action = self.ops[op as usize].action;
        self.seated.sitting[seat as usize] = op;
        self.seated.actions[seat as usize] = action;
        let nature = self.nature(action);
        if nature.blind {
            self.seated.blind[seat as usize / 64] |= 1 << (seat % 64);
        }
        nature
    }

    /// The operation of the seat returned.
    pub fn leave(&mut self, seat: u32) {
        self.seated.blind[seat as usize / 64] &= !(1 << (seat % 64));
    }

    #[inline(always)]
    pub fn operation(&self, seat: u32) -> u32 {
        self.seated.sitting[seat as usize]
    }

    #[inline(always)]
    pub fn action(&self, seat: u32) -> u32 {
        self.seated.actions[seat as usize]
    }

    #[inline(always)]
    pub fn nature(&self, action: u32) -> Nature {
        self.plan.natures[action as usize]
    }

    /// The place of the return of the seat's operation among all returns.
    pub fn rank(&self, seat: u32) -> u32 {
        self.plan.rank[self.operation(seat) as usize]
    }

    /// How many operations are pending.
    #[inline(always)]
    pub fn pending(&self, config: &C) -> u32 {
        let pending = &config.words()[1..1 + self.layout.seats()];
        pending.iter().map(|word| word.count_ones()).sum()
    }

    /// All that is pending is blind.
    pub fn only_blind(&self, config: &C) -> bool {
        let pending = &config.words()[1..1 + self.layout.seats()];
        let blind = |(pending, blind): (&u64, &u64)| pending & !blind == 0;
        pending.iter().zip(&self.seated.blind).all(blind)
    }

    /// Every blind operation in flight could have been placed just before.
    #[inline(always)]
    pub fn overwrite(&mut self, config: &mut C, mut trace: u32) -> u32 {
        for w in 0..self.layout.seats() {
            let mut bits = config.words()[1 + w] & self.seated.blind[w];
            config.words_mut()[1 + w] &= !bits;
            while bits != 0 && self.traces.is_on() {
                let seat = 64 * w + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                trace = self.traces.freed(trace, self.seated.sitting[seat]);
            }
        }
        trace
    }

    /// Places whatever is pending and cannot be wrong now, until nothing more can.
    #[inline]
    pub fn settle(&mut self, config: &mut C, mut trace: u32) -> u32 {
        loop {
            let state = config.words()[0];
            for w in 0..self.layout.seats() {
                let mut bits = config.words()[1 + w];
                while bits != 0 {
                    let seat = 64 * w as u32 + bits.trailing_zeros();
                    bits &= bits - 1;
                    trace = self.settle_one(config, trace, seat);
                }
            }
            if config.words()[0] == state {
                return trace;
            }
        }
    }

    /// Places the pending operation of one seat if that cannot be wrong now.
    #[inline(always)]
    pub fn settle_one(&mut self, config: &mut C, trace: u32, seat: u32) -> u32 {
        let action = self.action(seat);
        let before = config.words()[0];
        let Some(state) = self.model.step(before, action) else {
            return trace;
        };
        let nature = self.nature(action);
        let (word, bit) = self.layout.pending(seat);
        if nature.eager {
            let (used, used_bit) = self.layout.used(seat);
            let words = config.words_mut();
            words[0] = state;
            words[word] &= !bit;
            words[used] |= used_bit;
            return self.traces.placed(trace, self.operation(seat));
        }
        if state != before {
            return trace;
        }
        config.words_mut()[word] &= !bit;
        if nature.pure {
            return self.traces.placed(trace, self.operation(seat));
        }
        self.traces.freed(trace, self.operation(seat))
    }
}
