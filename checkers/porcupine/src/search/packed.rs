//! The search for models of few states with few operations in flight.
//!
//! It is the general search (Wing & Gong 1993, Lowe 2017) with the same configurations, but each is
//! one word: what a state leaves as it is, what is blind and which operations are alike are masks
//! of the operations in flight, so that to place one is a look into a table and a few such masks.
//! O(c·(k + c)) for each return, with k operations in flight and c configurations; of these it gives
//! up beyond 1024 at a time, or 64 a return on average, so that all of it is O(n·k).
//!
//! *Loose* operations need no bit: they may take effect any number of times from their call to
//! their return. With them there are all configurations that can be, and more: what cannot be
//! explained even so has no explanation, and what can be says nothing. So are refuted calls that
//! never returned, and operations in flight for which there is no bit. What a loose operation must
//! meet is that it was possible in one of the states between its call and its return.

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

/// The most configurations at a time.
const MOST: usize = 1024;
/// How many may be explored, and how many more for each return.
const EFFORT: u64 = 1 << 16;
const EACH: u64 = 64;
/// How many bits are tried to refute with; with few there are never too many configurations.
const REFUTING: [usize; 3] = [BITS, 12, 6];

/// The decision, if every call returned, and states, operations in flight and configurations are few.
pub(super) fn decide<M: Model>(
    model: &mut M,
    ops: &[Op],
    plan: &Plan,
    limits: Limits,
) -> Option<Ended> {
    if !plan.kinds.is_empty() || plan.seats > BITS {
        return None;
    }
    let machine = machine(model, plan)?;
    Walk::new(&machine, ops, plan, plan.seats).run(limits)
}

/// A refutation, if there is one even where calls that never returned, and operations beyond the
/// first few in flight, are loose.
pub(super) fn refute<M: Model>(
    model: &mut M,
    ops: &[Op],
    plan: &Plan,
    limits: Limits,
) -> Option<Ended> {
    let machine = machine(model, plan)?;
    let with = |bits: usize| Walk::new(&machine, ops, plan, bits.min(plan.seats)).run(limits);
    let ended = REFUTING.into_iter().find_map(with);
    ended.filter(|ended| matches!(ended, Ended::Stuck { .. }))
}

fn machine<M: Model>(model: &mut M, plan: &Plan) -> Option<Machine> {
    if !model.finite() {
        return None;
    }
    Machine::new(model, &plan.natures, STATES)
}

struct Walk<'a> {
    machine: &'a Machine,
    ops: &'a [Op],
    plan: &'a Plan,
    /// Seats below this have a bit.
    bits: usize,
    /// What explains everything that returned so far.
    now: Frontier,
    reached: Reached,
    flight: Flight,
    loose: Loose,
    explored: u64,
}

/// What a return leads to.
#[derive(Default)]
struct Reached {
    /// What explains it as well.
    next: Frontier,
    /// Configurations from which the operation that returns is still to be placed.
    waiting: Frontier,
    /// By waiting configuration: the operation placed last was blind and nothing came of it.
    idle: Vec<bool>,
}

/// The operation that returns: what of a configuration says so if it is pending, if it is used.
#[derive(Clone, Copy)]
struct Target {
    pending: Config,
    used: Config,
    pure: bool,
}

/// Returns from one look at the clock to the next.
const UNTIMED: u32 = 64;

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
            loose: Loose::new(machine, plan.seats),
            explored: 0,
        }
    }

    /// None where there are too many configurations.
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
                    if self.explored > EFFORT + EACH * u64::from(returned) {
                        return None;
                    }
                    let late = (returned % UNTIMED == 0).then(|| limits.late()).flatten();
                    if let Some(why) = late {
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
        let bit = self.plan.seat[op as usize] as usize;
        let action = self.ops[op as usize].action;
        if bit >= self.bits {
            return self.loose.call(self.machine, bit, action, returned);
        }
        let act = self.machine.act(action);
        let rank = self.plan.rank[op as usize];
        self.flight.board(bit, action, rank, act);
        for config in &mut self.now.all {
            let stays = act.stays >> state(*config) & 1;
            *config |= as_pending((stays ^ 1) << bit);
        }
    }

    /// Keeps what explains the operation as well. False: nothing does.
    fn ret(&mut self, op: u32, returned: u32) -> Option<bool> {
        let bit = self.plan.seat[op as usize] as usize;
        let action = self.ops[op as usize].action;
        if self.bits < self.plan.seats {
            self.look(returned)?;
        }
        if bit >= self.bits {
            // Its last moment.
            self.now.all.clear();
            self.now.all.extend(self.reached.waiting.live());
            return Some(self.loose.ret(self.machine, bit, action));
        }
        let act = self.machine.act(action);
        let pending = as_pending(1 << bit);
        if !act.pure || self.now.all.iter().any(|config| config & pending != 0) {
            self.extend(Target {
                pending,
                used: as_used(1 << bit),
                pure: act.pure,
            })?;
            self.now.all.clear();
            self.now.all.extend(self.reached.next.live());
        }
        self.flight.leave(bit, act);
        Some(!self.now.all.is_empty())
    }

    /// Notes which states are possible now.
    fn look(&mut self, returned: u32) -> Option<()> {
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

    /// Places what must be placed before the target can be, and the target. None: there are too many.
    fn extend(&mut self, target: Target) -> Option<()> {
        self.reached.clear();
        for config in self.now.live() {
            self.reached.sort(config, target, false);
        }
        let mut i = 0;
        while i < self.reached.waiting.all.len() {
            if let Some(config) = self.reached.waiting.get(i) {
                self.expand(config, self.reached.idle[i], target);
                self.explored += 1;
            }
            i += 1;
            if self.reached.waiting.all.len() > MOST {
                return None;
            }
        }
        Some(())
    }

    /// Places each operation that may come next.
    ///
    /// After an idle placement no overwriting one is tried: instead of blind y and then w, place w
    /// at once, which leaves y free.
    #[inline(always)]
    fn expand(&mut self, config: Config, idle: bool, target: Target) {
        let (pending, used) = (pending(config), used(config));
        for bit in ones(self.flight.open & !used) {
            let twins = self.flight.twins[bit] & !used;
            if twins & pending != 0 || twins != 0 && pending & 1 << bit == 0 {
                continue; // an identical one returns no later and is no less pressing
            }
            let action = self.flight.action[bit];
            let act = self.machine.act(action);
            if idle && act.overwrites {
                continue;
            }
            if let Some(after) = self.machine.after(state(config), action) {
                let placed = config & !as_pending(1 << bit) | as_used(1 << bit);
                self.place(with_state(placed, after), act.blind, act.overwrites, target);
            }
        }
        for (after, overwrites) in self.loose.after(state(config)) {
            if !(idle && overwrites) {
                self.place(with_state(config, after), overwrites, overwrites, target);
            }
        }
    }

    /// Takes in the configuration after an action.
    #[inline(always)]
    fn place(&mut self, mut config: Config, blind: bool, overwrites: bool, target: Target) {
        if overwrites {
            config &= !self.flight.blind;
        }
        let settled = config & !self.flight.stays[state(config) as usize];
        self.reached
            .sort(settled, target, blind && settled == config);
    }
}

impl Reached {
    fn clear(&mut self) {
        self.next.all.clear();
        self.waiting.all.clear();
        self.idle.clear();
    }

    /// Where the target is not pending, the configuration is kept; where it is not used, it waits
    /// for the target to be used. `idle`: the last placed was blind and nothing came of it.
    #[inline(always)]
    fn sort(&mut self, config: Config, target: Target, idle: bool) {
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
