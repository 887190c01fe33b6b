//! Which operation may come next, and what comes of it.

use super::{Exhausted, Search, Target};
use crate::search::frontier::Config;
use crate::search::plan::Nature;
use crate::search::Model;

/// Counts are kept below this; what is used by all configurations is subtracted.
const COUNT_MAX: u64 = 120;

impl<M: Model, C: Config> Search<'_, M, C> {
    /// Places each operation that may come next.
    ///
    /// After an idle placement no overwriting one is tried: instead of blind y and then w, place w at once, which
    /// leaves y free.
    pub(super) fn expand(
        &mut self,
        config: &C,
        trace: u32,
        target: Target,
        idle: bool,
    ) -> Result<(), Exhausted> {
        self.round += 2;
        let alone = self.only_blind(config, target);
        let layout = self.board.layout;
        for o in 0..self.open.len() {
            let seat = self.open[o];
            let (used, used_bit) = layout.used(seat);
            if config.words()[used] & used_bit != 0 {
                continue;
            }
            let action = self.board.action(seat);
            let (word, bit) = layout.pending(seat);
            let pending = u64::from(config.words()[word] & bit != 0);
            let seen = &mut self.seen[action as usize];
            if *seen == self.round + 1 || (*seen == self.round && pending == 0) {
                continue; // an identical one returns no later and is no less pressing
            }
            *seen = self.round + pending;
            let nature = self.board.nature(action);
            let aimed = seat == target.seat && !(idle && nature.overwrites);
            if !aimed && (alone || !worthwhile(nature, idle)) {
                continue;
            }
            let op = self.board.operation(seat);
            let due = seat == target.seat && pending == 1;
            self.place(config, trace, (op, due), target, |words| {
                words[word] &= !bit;
                words[used] |= used_bit;
            });
        }
        if alone || self.plan.kinds.is_empty() {
            return Ok(());
        }
        self.expand_lost(config, trace, target, idle)
    }

    /// Places a call of each kind that never returned.
    fn expand_lost(
        &mut self,
        config: &C,
        trace: u32,
        target: Target,
        idle: bool,
    ) -> Result<(), Exhausted> {
        for kind in 0..self.plan.kinds.len() {
            let action = self.plan.kinds[kind];
            let (word, shift) = self.board.layout.count(kind);
            let count = config.words()[word] >> shift & 0xff;
            let taken = self.spent[kind] + count;
            if taken == self.called[kind] || self.seen[action as usize] >= self.round {
                continue;
            }
            if !worthwhile(self.board.nature(action), idle) {
                continue;
            }
            if count == COUNT_MAX {
                return Err(Exhausted(
                    "too many operations that never returned were used",
                ));
            }
            let op = self.plan.lost[kind][taken as usize];
            let price = self.prices.get(kind).copied();
            self.place(config, trace, (op, false), target, |words| {
                words[word] += 1 << shift;
                if let (Some(price), Some(paid)) = (price, words.last_mut()) {
                    *paid += price;
                }
            });
        }
        Ok(())
    }

    /// Blind operations that commute are all that is pending, so that any but the target can wait.
    fn only_blind(&self, config: &C, target: Target) -> bool {
        self.board.model.commutes()
            && self.board.nature(self.board.action(target.seat)).blind
            && self.board.only_blind(config)
    }

    /// Takes in the configurations after the operation.
    ///
    /// Only the operation that must be placed now (`due`) is placed where it leads to a blank state.
    /// Another one may as well wait: up to the operation that overwrites all, which frees it, nothing
    /// would come of it; and where it is due before that, it is placed then.
    #[inline]
    fn place(
        &mut self,
        config: &C,
        trace: u32,
        (op, due): (u32, bool),
        target: Target,
        mark: impl Fn(&mut [u64]),
    ) {
        let action = self.board.ops[op as usize].action;
        let nature = self.board.nature(action);
        self.states.clear();
        self.board
            .model
            .steps(config.words()[0], action, &mut self.states);
        for &state in &self.states {
            if !due && self.board.model.blank(state) {
                continue;
            }
            let (mut config, mut trace) = (config.clone(), trace);
            mark(config.words_mut());
            config.words_mut()[0] = state;
            if nature.overwrites {
                trace = self.board.overwrite(&mut config, trace);
            }
            trace = self.board.traces.placed(trace, op);
            let before = self.board.pending(&config);
            trace = self.board.settle(&mut config, trace);
            let idle = nature.blind && self.board.pending(&config) == before;
            self.reached
                .sort(self.board.layout, config, trace, target, idle);
        }
    }
}

fn worthwhile(nature: Nature, idle: bool) -> bool {
    nature.helps && !(idle && nature.overwrites)
}
