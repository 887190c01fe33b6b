//! Which operation may come next, and what comes of it.

use super::{Exhausted, Search};
use crate::search::frontier::copy;
use crate::search::Model;

/// Counts are kept below this; what is used by all configurations is subtracted.
const COUNT_MAX: u64 = 120;

impl<M: Model> Search<'_, M> {
    /// Places each operation that may come next. The target's seat is the one that returns.
    ///
    /// After an idle placement no overwriting one is tried: instead of blind y and then w, place w at once, which
    /// leaves y free.
    pub(super) fn expand(
        &mut self,
        config: &[u64],
        trace: u32,
        target: u32,
        idle: bool,
    ) -> Result<(), Exhausted> {
        self.round += 2;
        let alone = self.only_blind(config, target);
        for o in 0..self.open.len() {
            let seat = self.open[o];
            let action = self.action(seat);
            let (used, used_bit) = self.layout.used(seat);
            if config[used] & used_bit != 0 {
                continue;
            }
            let (word, bit) = self.layout.pending(seat);
            let pending = u64::from(config[word] & bit != 0);
            let seen = &mut self.seen[action as usize];
            if *seen == self.round + 1 || (*seen == self.round && pending == 0) {
                continue; // an identical one returns no later and is no less pressing
            }
            *seen = self.round + pending;
            let aimed = seat == target && !(idle && self.model.overwrites(action));
            if !aimed && (alone || !self.worthwhile(action, idle)) {
                continue;
            }
            let op = self.sitting[seat as usize];
            self.place(config, trace, op, target, |config| {
                config[word] &= !bit;
                config[used] |= used_bit;
            });
        }
        let kinds = if alone { 0 } else { self.plan.kinds.len() };
        for kind in 0..kinds {
            let action = self.plan.kinds[kind];
            let (word, shift) = self.layout.count(kind);
            let count = config[word] >> shift & 0xff;
            let taken = if self.unlimited {
                0
            } else {
                self.spent[kind] + count
            };
            if taken == self.called[kind] || self.seen[action as usize] >= self.round {
                continue;
            }
            if !self.worthwhile(action, idle) {
                continue;
            }
            if count == COUNT_MAX {
                return Err(Exhausted(
                    "too many operations that never returned were used",
                ));
            }
            let op = self.plan.lost[kind][taken as usize];
            let price = self.prices.get(kind).copied();
            let counted = u64::from(!self.unlimited);
            self.place(config, trace, op, target, |config| {
                config[word] += counted << shift;
                if let (Some(price), Some(paid)) = (price, config.last_mut()) {
                    *paid += price;
                }
            });
        }
        Ok(())
    }

    /// Blind operations that commute are all that is pending, so that any but the target can wait.
    fn only_blind(&self, config: &[u64], target: u32) -> bool {
        let pending = &config[1..1 + self.layout.seats];
        let blind = |(pending, blind): (&u64, &u64)| pending & !blind == 0;
        self.model.commutes()
            && self.model.blind(self.action(target))
            && pending.iter().zip(&self.blind).all(blind)
    }

    fn worthwhile(&self, action: u32, idle: bool) -> bool {
        self.model.helps(action) && !(idle && self.model.overwrites(action))
    }

    /// Takes in the configurations after the operation.
    fn place(
        &mut self,
        config: &[u64],
        trace: u32,
        op: u32,
        target: u32,
        mark: impl Fn(&mut [u64]),
    ) {
        let action = self.ops[op as usize].action;
        let mut states = std::mem::take(&mut self.states);
        states.clear();
        self.model.steps(config[0], action, &mut states);
        let overwrites = self.model.overwrites(action);
        for &state in &states {
            let mut config = copy(&mut self.spare, config);
            let mut trace = trace;
            mark(&mut config);
            config[0] = state;
            if overwrites {
                trace = self.overwrite(&mut config, trace);
            }
            trace = self.traces.placed(trace, op);
            let before = self.pending(&config);
            trace = self.settle(&mut config, trace);
            let idle = self.model.blind(action) && self.pending(&config) == before;
            self.sort(&config, trace, target, idle);
            self.spare.push(config);
        }
        self.states = states;
    }

    /// How many operations are pending.
    fn pending(&self, config: &[u64]) -> u32 {
        let pending = &config[1..1 + self.layout.seats];
        pending.iter().map(|word| word.count_ones()).sum()
    }

    /// Every blind operation in flight could have been placed just before.
    fn overwrite(&mut self, config: &mut [u64], mut trace: u32) -> u32 {
        for w in 0..self.layout.seats {
            let mut bits = config[1 + w] & self.blind[w];
            config[1 + w] &= !bits;
            while bits != 0 {
                let seat = 64 * w + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                trace = self.traces.freed(trace, self.sitting[seat]);
            }
        }
        trace
    }

    /// Places whatever is pending and cannot be wrong now, until nothing more can.
    pub(super) fn settle(&mut self, config: &mut [u64], mut trace: u32) -> u32 {
        loop {
            let state = config[0];
            for w in 0..self.layout.seats {
                let mut bits = config[1 + w];
                while bits != 0 {
                    let seat = 64 * w as u32 + bits.trailing_zeros();
                    bits &= bits - 1;
                    trace = self.settle_one(config, trace, seat);
                }
            }
            if config[0] == state {
                return trace;
            }
        }
    }

    /// Places the pending operation of one seat if that cannot be wrong now.
    pub(super) fn settle_one(&mut self, config: &mut [u64], trace: u32, seat: u32) -> u32 {
        let op = self.sitting[seat as usize];
        let action = self.action(seat);
        let (word, bit) = self.layout.pending(seat);
        let Some(state) = self.model.step(config[0], action) else {
            return trace;
        };
        if self.model.eager(action) {
            let (used, used_bit) = self.layout.used(seat);
            config[0] = state;
            config[word] &= !bit;
            config[used] |= used_bit;
            return self.traces.placed(trace, op);
        }
        if state != config[0] {
            return trace;
        }
        config[word] &= !bit;
        if self.model.pure(action) {
            return self.traces.placed(trace, op);
        }
        self.traces.freed(trace, op)
    }

    pub(super) fn action(&self, seat: u32) -> u32 {
        self.ops[self.sitting[seat as usize] as usize].action
    }
}
