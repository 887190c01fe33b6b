//! Places the operations that may come next.

use super::{Search, Target};
use crate::search::frontier::Config;
use crate::search::plan::Properties;
use crate::search::Model;

impl<M: Model, C: Config> Search<'_, M, C> {
    /// Places each operation that may come next.
    ///
    /// After an idle placement, no overwriting one is tried: instead of blind y and then w, the
    /// search places w at once, which frees y.
    pub(super) fn expand(&mut self, config: &C, trace: u32, target: Target, idle: bool) {
        self.round += 2;
        let alone = self.only_blind(config, target);
        let layout = self.state.layout;
        for o in 0..self.open.len() {
            let slot = self.open[o];
            let (used, used_bit) = layout.used(slot);
            if config.words()[used] & used_bit != 0 {
                continue;
            }
            let action = self.state.action(slot);
            let (word, bit) = layout.pending(slot);
            let pending = u64::from(config.words()[word] & bit != 0);
            let seen = &mut self.seen[action as usize];
            if *seen == self.round + 1 || (*seen == self.round && pending == 0) {
                continue; // an identical one returns no later and is no less pressing
            }
            *seen = self.round + pending;
            let properties = self.state.properties(action);
            let is_target = slot == target.slot && !(idle && properties.overwrites);
            if !is_target && (alone || !worthwhile(properties, idle)) {
                continue;
            }
            let op = self.state.operation(slot);
            let due = slot == target.slot && pending == 1;
            self.place(config, trace, (op, due), target, |words| {
                words[word] &= !bit;
                words[used] |= used_bit;
            });
        }
        if !alone {
            self.expand_lost(config, trace, target, idle);
        }
    }

    /// Places one call of each kind that never returned.
    fn expand_lost(&mut self, config: &C, trace: u32, target: Target, idle: bool) {
        for kind in 0..self.plan.kinds.len() {
            let action = self.plan.kinds[kind];
            let count = self.state.layout.count(kind);
            let taken = self.spent[kind] + count.of(config.words());
            if taken == self.called[kind] || self.seen[action as usize] >= self.round {
                continue;
            }
            if !worthwhile(self.state.properties(action), idle) {
                continue;
            }
            let op = self.plan.lost[kind][taken as usize];
            let price = self.prices.get(kind).copied();
            self.place(config, trace, (op, false), target, |words| {
                words[count.word] += 1 << count.shift;
                if let (Some(price), Some(paid)) = (price, words.last_mut()) {
                    *paid += price;
                }
            });
        }
    }

    /// Whether everything pending is blind and commutes, so that any operation except the target
    /// can wait.
    fn only_blind(&self, config: &C, target: Target) -> bool {
        self.state.model.commutes()
            && self.state.properties(self.state.action(target.slot)).blind
            && self.state.only_blind(config)
    }

    /// Adds the configurations after the operation.
    ///
    /// Only an operation that must be placed now (`due`) is placed if it leads to a blank state.
    /// Any other may as well wait: until the operation that overwrites everything, and thereby
    /// frees it, it would change nothing; and if it is due before that, it is placed then.
    #[inline]
    fn place(
        &mut self,
        config: &C,
        trace: u32,
        (op, due): (u32, bool),
        target: Target,
        mark: impl Fn(&mut [u64]),
    ) {
        let action = self.state.ops[op as usize].action;
        let properties = self.state.properties(action);
        self.states.clear();
        self.state
            .model
            .steps(config.words()[0], action, &mut self.states);
        for &state in &self.states {
            if !due && self.state.model.blank(state) {
                continue;
            }
            let (mut config, mut trace) = (config.clone(), trace);
            mark(config.words_mut());
            config.words_mut()[0] = state;
            if properties.overwrites {
                trace = self.state.overwrite(&mut config, trace);
            }
            trace = self.state.traces.placed(trace, op);
            let before = self.state.pending(&config);
            trace = self.state.settle(&mut config, trace);
            let idle = properties.blind && self.state.pending(&config) == before;
            self.reached
                .add(self.state.layout, config, trace, target, idle);
        }
    }
}

fn worthwhile(properties: Properties, idle: bool) -> bool {
    properties.helps && !(idle && properties.overwrites)
}
