//! Searches models of few states with few operations in flight.
//!
//! This is the general search (Wing & Gong 1993, Lowe 2017) with the same configurations, but each
//! is one word. Bit masks of the operations in flight say which are blind, which are alike and
//! which leave a state unchanged, so that placing an operation takes a table lookup and a few
//! masks. Each return takes O(c·(k + c)) with k operations in flight and c configurations. The
//! search gives up beyond 1024 configurations at a time, or 64 per return on average, so the total
//! is O(n·k).
//!
//! *Loose* operations need no bit: they may take effect any number of times from their call to
//! their return. With them, the search explores all possible configurations and more. If even these
//! do not explain the history, nothing does; if they do, this proves nothing. That is how the
//! search refutes histories with calls that never returned, or with more operations in flight than
//! bits. A loose operation must only have been possible in one of the states between its call and
//! its return.

mod config;
mod flight;
mod loose;
#[cfg(test)]
mod tests;

use super::machine::{ones, Machine};
use super::plan::{Event, Plan};
use super::{Ended, Model, Op};
use crate::budget::Limits;
use config::{as_pending, as_used, pending, state, used, with_state};
use config::{Config, Frontier, BITS, STATES};
use flight::Flight;
use loose::Loose;

/// Maximum number of configurations at a time.
const CONFIGURATIONS_MAX: usize = 1024;
/// Number of configurations that may be explored, and how many more for each return.
const EXPLORED_MIN: u64 = 1 << 16;
const EXPLORED_PER_RETURN: u64 = 64;
/// Numbers of bits that refutations use, in order; with few bits there are never too many
/// configurations.
const REFUTATION_BITS: [usize; 3] = [BITS, 12, 6];

/// Decides, if every call returned and states, operations in flight and configurations are few.
pub(super) fn decide<M: Model>(
    model: &mut M,
    ops: &[Op],
    plan: &Plan,
    limits: Limits,
) -> Option<Ended> {
    if !plan.kinds.is_empty() || plan.slots > BITS {
        return None;
    }
    let machine = machine(model, plan)?;
    Walk::new(&machine, ops, plan, plan.slots).run(limits)
}

/// Tries to refute the history, with calls that never returned and operations without a bit being
/// loose.
pub(super) fn refute<M: Model>(
    model: &mut M,
    ops: &[Op],
    plan: &Plan,
    limits: Limits,
) -> Option<Ended> {
    let machine = machine(model, plan)?;
    let with = |bits: usize| Walk::new(&machine, ops, plan, bits.min(plan.slots)).run(limits);
    let ended = REFUTATION_BITS.into_iter().find_map(with);
    ended.filter(|ended| matches!(ended, Ended::Stuck { .. }))
}

fn machine<M: Model>(model: &mut M, plan: &Plan) -> Option<Machine> {
    if !model.finite() {
        return None;
    }
    Machine::new(model, &plan.properties, STATES)
}

struct Walk<'a> {
    machine: &'a Machine,
    ops: &'a [Op],
    plan: &'a Plan,
    /// Slots below this have a bit.
    bits: usize,
    /// The configurations that explain everything that returned so far.
    now: Frontier,
    reached: Reached,
    flight: Flight,
    loose: Loose,
    explored: u64,
}

/// The configurations that a return leads to.
#[derive(Default)]
struct Reached {
    /// The configurations that explain the return as well.
    next: Frontier,
    /// Configurations in which the returning operation is still to be placed.
    waiting: Frontier,
    /// By waiting configuration: whether the last placement was blind and idle, that is, it changed
    /// nothing else.
    idle: Vec<bool>,
}

/// The returning operation, as the bits of a configuration in which it is pending or used.
#[derive(Clone, Copy)]
struct Target {
    pending: Config,
    used: Config,
    pure: bool,
}

/// Number of returns between two looks at the clock.
const RETURNS_PER_CLOCK_CHECK: u32 = 64;

impl<'a> Walk<'a> {
    fn new(machine: &'a Machine, ops: &'a [Op], plan: &'a Plan, bits: usize) -> Self {
        let mut now = Frontier::default();
        now.insert(0);
        Self {
            machine,
            ops,
            plan,
            bits,
            now,
            reached: Reached::default(),
            flight: Flight::new(machine.states),
            loose: Loose::new(machine, plan.slots),
            explored: 0,
        }
    }

    /// Returns `None` if there are too many configurations.
    fn run(mut self, limits: Limits) -> Option<Ended> {
        let mut returned = 0;
        for &event in &self.plan.events {
            match event {
                Event::Lost(kind) => {
                    let action = self.plan.kinds[kind as usize];
                    self.loose.lose(self.machine, action);
                }
                Event::Call(op) => self.call(op, returned),
                Event::Return(op) => {
                    let row = self.ops[op as usize].row;
                    if !self.ret(op, returned)? {
                        return Some(Ended::stuck(row));
                    }
                    returned += 1;
                    if self.explored > EXPLORED_MIN + EXPLORED_PER_RETURN * u64::from(returned) {
                        return None;
                    }
                    let out_of_time = (returned % RETURNS_PER_CLOCK_CHECK == 0)
                        .then(|| limits.out_of_time())
                        .flatten();
                    if let Some(why) = out_of_time {
                        return Some(Ended::GaveUp {
                            why,
                            at: row,
                            explored: self.explored,
                        });
                    }
                }
            }
        }
        Some(Ended::Explained { order: Vec::new() })
    }

    fn call(&mut self, op: u32, returned: u32) {
        let bit = self.plan.slot[op as usize] as usize;
        let action = self.ops[op as usize].action;
        if bit >= self.bits {
            return self.loose.call(self.machine, bit, action, returned);
        }
        let effect = self.machine.effect(action);
        let rank = self.plan.rank[op as usize];
        self.flight.call(bit, action, rank, effect);
        for config in &mut self.now.all {
            let stays = effect.stays >> state(*config) & 1;
            *config |= as_pending((stays ^ 1) << bit);
        }
    }

    /// Keeps what explains the return as well; returns false if nothing does.
    fn ret(&mut self, op: u32, returned: u32) -> Option<bool> {
        let bit = self.plan.slot[op as usize] as usize;
        let action = self.ops[op as usize].action;
        if self.bits < self.plan.slots {
            self.record_states(returned)?;
        }
        if bit >= self.bits {
            // A loose operation returns: this is its last moment.
            self.now.all.clear();
            self.now.all.extend(self.reached.waiting.live());
            return Some(self.loose.ret(self.machine, bit, action));
        }
        let effect = self.machine.effect(action);
        let pending = as_pending(1 << bit);
        if !effect.pure || self.now.all.iter().any(|config| config & pending != 0) {
            self.extend(Target {
                pending,
                used: as_used(1 << bit),
                pure: effect.pure,
            })?;
            self.now.all.clear();
            self.now.all.extend(self.reached.next.live());
        }
        self.flight.ret(bit, effect);
        Some(!self.now.all.is_empty())
    }

    /// Records which states are possible now.
    fn record_states(&mut self, returned: u32) -> Option<()> {
        self.extend(Target {
            pending: 0,
            used: 0,
            pure: false,
        })?;
        for config in self.reached.waiting.live() {
            self.loose.seen(state(config), returned);
        }
        Some(())
    }

    /// Places what must be placed before the target, and the target. Returns `None` if there are
    /// too many configurations.
    fn extend(&mut self, target: Target) -> Option<()> {
        self.reached.clear();
        for config in self.now.live() {
            self.reached.add(config, target, false);
        }
        let mut i = 0;
        while i < self.reached.waiting.all.len() {
            if let Some(config) = self.reached.waiting.get(i) {
                self.expand(config, self.reached.idle[i], target);
                self.explored += 1;
            }
            i += 1;
            if self.reached.waiting.all.len() > CONFIGURATIONS_MAX {
                return None;
            }
        }
        Some(())
    }

    /// Places each operation that may come next.
    ///
    /// After an idle placement, no overwriting one is tried: instead of blind y and then w, the
    /// search places w at once, which frees y.
    #[inline(always)]
    fn expand(&mut self, config: Config, idle: bool, target: Target) {
        let (pending, used) = (pending(config), used(config));
        for bit in ones(self.flight.open & !used) {
            let twins = self.flight.twins[bit] & !used;
            if twins & pending != 0 || twins != 0 && pending & 1 << bit == 0 {
                continue; // an identical one returns no later and is no less pressing
            }
            let action = self.flight.action[bit];
            let effect = self.machine.effect(action);
            if idle && effect.overwrites {
                continue;
            }
            if let Some(after) = self.machine.after(state(config), action) {
                let placed = config & !as_pending(1 << bit) | as_used(1 << bit);
                self.place(
                    with_state(placed, after),
                    effect.blind,
                    effect.overwrites,
                    target,
                );
            }
        }
        for (after, overwrites) in self.loose.after(state(config)) {
            if !(idle && overwrites) {
                self.place(with_state(config, after), overwrites, overwrites, target);
            }
        }
    }

    /// Adds the configuration after an action.
    #[inline(always)]
    fn place(&mut self, mut config: Config, blind: bool, overwrites: bool, target: Target) {
        if overwrites {
            config &= !self.flight.blind;
        }
        let settled = config & !self.flight.stays[state(config) as usize];
        self.reached
            .add(settled, target, blind && settled == config);
    }
}

impl Reached {
    fn clear(&mut self) {
        self.next.all.clear();
        self.waiting.all.clear();
        self.idle.clear();
    }

    /// Keeps the configuration if the target is not pending. Lets it wait for the target if the
    /// target is not used. `idle` says that the last placement was blind and changed nothing else.
    #[inline(always)]
    fn add(&mut self, config: Config, target: Target, idle: bool) {
        if config & target.used != 0 {
            self.next.insert(config & !target.used);
            return;
        }
        let pending = config & target.pending != 0;
        if !pending {
            self.next.insert(config);
        }
        if (pending || !target.pure) && self.waiting.insert(config) {
            self.idle.push(idle);
        }
    }
}
