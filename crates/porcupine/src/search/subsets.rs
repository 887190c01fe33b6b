//! Searches models of a few states with a few operations in flight, all configurations at once.
//!
//! The placed ones of at most six operations in flight are one of 64 subsets. All configurations of
//! a state are therefore the bits of a word: bit b is set if exactly those operations are placed
//! whose slots are the ones of b. To place an operation wherever it may come next is to shift the
//! words of its states.
//!
//! As in the general search, nothing is placed before some operation returns, and a pure operation
//! is placed as soon as the state fits, because it can only be harder to place later. All other
//! orders are tried: nothing is free, nothing dominates. O(n), because states and slots are
//! bounded.

use super::machine::{ones, Machine};
use super::plan::action_properties;
use super::{Ended, Model, Op};
use crate::budget::Limits;
use crate::order::NEVER;

/// Maximum number of operations in flight.
const SLOTS: usize = 6;
/// Maximum number of states.
const STATES: usize = 8;
/// By state: the subsets of placed operations.
type Subsets = [u64; STATES];

/// By slot: the subsets that contain it.
const SUBSETS_WITH: [u64; SLOTS] = [
    0xAAAA_AAAA_AAAA_AAAA,
    0xCCCC_CCCC_CCCC_CCCC,
    0xF0F0_F0F0_F0F0_F0F0,
    0xFF00_FF00_FF00_FF00,
    0xFFFF_0000_FFFF_0000,
    0xFFFF_FFFF_0000_0000,
];
/// Number of returns between two looks at the clock.
const RETURNS_PER_CLOCK_CHECK: u32 = 1024;

/// Decides, if operations are in order of call, every operation that is not pure returned, and
/// states and operations in flight are few.
pub(super) fn decide<M: Model>(model: &mut M, ops: &[Op], limits: Limits) -> Option<Ended> {
    if !model.finite() || !ops.is_sorted_by_key(|op| op.call) {
        return None;
    }
    let machine = Machine::new(model, &action_properties(model, ops), STATES)?;
    let effects = (0..machine.effects.len() as u32).map(|action| Effect::new(&machine, action));
    Walk::new(effects.collect::<Option<_>>()?).run(ops, limits)
}

/// The effect of an action.
struct Effect {
    pure: bool,
    /// By state: all ones if the action is possible.
    fits: Subsets,
    /// By byte: one if the action is possible in the state of that number.
    fits_bytes: u64,
    /// The next state, if the action is not pure.
    to: usize,
}

impl Effect {
    /// Returns `None` if the action leads to several states.
    fn new(machine: &Machine, action: u32) -> Option<Self> {
        let effect = machine.effect(action);
        let after = |state: usize| machine.after(state as u64, action).expect("it fits");
        let to = ones(effect.fits).next().map_or(0, after);
        if !effect.pure && !ones(effect.fits).all(|state| after(state) == to) {
            return None;
        }
        let mut fits = [0; STATES];
        ones(effect.fits).for_each(|state| fits[state] = u64::MAX);
        Some(Self {
            pure: effect.pure,
            fits,
            fits_bytes: ones(effect.fits).map(|state| 1 << (8 * state)).sum(),
            to: to as usize,
        })
    }
}

/// Returns the subsets of all states together.
#[inline(always)]
fn union(subsets: &Subsets) -> u64 {
    subsets.iter().fold(0, |any, subsets| any | subsets)
}

/// An operation in flight.
#[derive(Clone, Copy, Default)]
struct InFlight {
    ret: i64,
    row: u32,
    slot: u32,
}

struct Walk {
    effects: Vec<Effect>,
    /// The configurations that explain everything that returned so far.
    now: Subsets,
    /// The operations in flight; the next to return comes last.
    flight: [InFlight; SLOTS],
    seated: usize,
    /// By slot: the action.
    actions: [u32; SLOTS],
    /// Bit sets of the free slots, and of the slots whose operations are not pure.
    free: u64,
    open: u64,
    /// By state, a byte each: the slots of pure operations that are possible in it.
    stays: u64,
    returned: u32,
}

impl Walk {
    fn new(effects: Vec<Effect>) -> Self {
        let mut now = [0; STATES];
        now[0] = 1;
        Self {
            effects,
            now,
            flight: [InFlight::default(); SLOTS],
            seated: 0,
            actions: [0; SLOTS],
            free: (1 << SLOTS) - 1,
            open: 0,
            stays: 0,
            returned: 0,
        }
    }

    fn run(mut self, ops: &[Op], limits: Limits) -> Option<Ended> {
        for op in ops {
            if let Some(ended) = self.until(op.call, limits) {
                return Some(ended);
            }
            if op.ret != NEVER {
                if self.seated == SLOTS {
                    return None;
                }
                self.call(op);
            } else if !self.effects[op.action as usize].pure {
                return None;
            }
        }
        let ended = self.until(NEVER, limits);
        Some(ended.unwrap_or(Ended::Explained { order: Vec::new() }))
    }

    /// Processes the returns before a time; returns the result if the search ended.
    #[inline(always)]
    fn until(&mut self, time: i64, limits: Limits) -> Option<Ended> {
        while self.seated > 0 && self.flight[self.seated - 1].ret < time {
            self.seated -= 1;
            let InFlight { row, slot, .. } = self.flight[self.seated];
            self.ret(slot as usize);
            if union(&self.now) == 0 {
                return Some(Ended::stuck(row));
            }
            self.returned += 1;
            let out_of_time = (self.returned % RETURNS_PER_CLOCK_CHECK == 0)
                .then(|| limits.out_of_time())
                .flatten();
            if let Some(why) = out_of_time {
                return Some(Ended::GaveUp {
                    why,
                    at: row,
                    explored: self.returned.into(),
                });
            }
        }
        None
    }

    /// Assigns a slot to an operation and, if it is pure, places it where the state fits.
    #[inline(always)]
    fn call(&mut self, op: &Op) {
        let slot = self.free.trailing_zeros();
        self.free &= self.free - 1;
        let mut to = self.seated;
        while to > 0 && self.flight[to - 1].ret <= op.ret {
            self.flight[to] = self.flight[to - 1];
            to -= 1;
        }
        self.flight[to] = InFlight {
            ret: op.ret,
            row: op.row,
            slot,
        };
        self.seated += 1;
        self.actions[slot as usize] = op.action;
        let effect = &self.effects[op.action as usize];
        if !effect.pure {
            self.open |= 1 << slot;
            return;
        }
        self.stays |= effect.fits_bytes << slot;
        for (subsets, fits) in self.now.iter_mut().zip(effect.fits) {
            *subsets = *subsets & !fits | (*subsets & fits) << (1 << slot);
        }
    }

    /// Keeps the configurations in which the slot's operation is placed, and removes it from them.
    #[inline(always)]
    fn ret(&mut self, slot: usize) {
        let mut lacks = self.now.map(|subsets| subsets & !SUBSETS_WITH[slot]);
        if union(&lacks) != 0 {
            self.close(&mut lacks, self.open & !(1 << slot));
            if self.open >> slot & 1 == 1 {
                self.place(&mut lacks, slot);
            }
        }
        for (subsets, lacks) in self.now.iter_mut().zip(lacks) {
            *subsets = ((*subsets | lacks) & SUBSETS_WITH[slot]) >> (1 << slot);
        }
        self.free |= 1 << slot;
        self.open &= !(1 << slot);
        self.stays &= !(0x0101_0101_0101_0101 << slot);
    }

    /// Places the operations of the slots in every possible order.
    #[inline(always)]
    fn close(&self, subsets: &mut Subsets, slots: u64) {
        for _ in 0..slots.count_ones() {
            let mut grew = false;
            for slot in ones(slots) {
                grew |= self.place(subsets, slot);
            }
            if !grew {
                break;
            }
        }
    }

    /// Places an operation that is not pure wherever it may come next, and then the pure ones that
    /// fit. Returns false if there is no new configuration.
    #[inline(always)]
    fn place(&self, subsets: &mut Subsets, slot: usize) -> bool {
        let effect = &self.effects[self.actions[slot] as usize];
        let from = subsets.iter().zip(effect.fits);
        let from = from.fold(0, |from, (subsets, fits)| from | subsets & fits);
        let mut placed = (from & !SUBSETS_WITH[slot]) << (1 << slot);
        for pure in ones(self.stays >> (8 * effect.to) & 0xff) {
            placed = placed & SUBSETS_WITH[pure] | (placed & !SUBSETS_WITH[pure]) << (1 << pure);
        }
        let before = subsets[effect.to];
        subsets[effect.to] = before | placed;
        placed & !before != 0
    }
}
