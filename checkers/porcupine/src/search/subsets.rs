//! The search for models of a few states with a few operations in flight: all configurations at once.
//!
//! Of up to six operations in flight, those that are placed are one of 64 subsets, so that all configurations
//! of a state are the bits of a word: bit b is set where exactly those operations are placed whose
//! seats are the ones of b. To place an operation wherever it may come next is to shift the words of its states.
//!
//! As in the general search nothing is placed before some operation returns, and a pure operation is
//! placed as soon as the state fits, for it can only be harder to place later. All other
//! orders are tried: nothing is free, nothing dominates. O(n) for the few states and seats that there may be.

use super::machine::{ones, Machine};
use super::plan::natures;
use super::{Ended, Model, Op};
use crate::budget::Limits;
use crate::order::NEVER;

/// The most operations in flight.
const SEATS: usize = 6;
/// The most states.
const STATES: usize = 8;
/// By state: the subsets of placed operations.
type Subsets = [u64; STATES];

/// By seat: the subsets that have it.
const HAVE: [u64; SEATS] = [
    0xAAAA_AAAA_AAAA_AAAA,
    0xCCCC_CCCC_CCCC_CCCC,
    0xF0F0_F0F0_F0F0_F0F0,
    0xFF00_FF00_FF00_FF00,
    0xFFFF_0000_FFFF_0000,
    0xFFFF_FFFF_0000_0000,
];
/// Returns from one look at the clock to the next.
const UNTIMED: u32 = 1024;

/// The decision, if operations are in order of call, every one that is not pure returned, and states and
/// operations in flight are few.
pub(super) fn decide<M: Model>(model: &mut M, ops: &[Op], limits: Limits) -> Option<Ended> {
    if !model.finite() || !ops.is_sorted_by_key(|op| op.call) {
        return None;
    }
    let machine = Machine::new(model, &natures(model, ops), STATES)?;
    let acts = (0..machine.acts.len() as u32).map(|action| Act::new(&machine, action));
    Walk::new(acts.collect::<Option<_>>()?).run(ops, limits)
}

/// What an action does.
struct Act {
    pure: bool,
    /// By state: all ones where it is possible.
    fits: Subsets,
    /// By byte: one where it is possible in the state of that number.
    fits_bytes: u64,
    /// The state that it leads to, if it is not pure.
    to: usize,
}

impl Act {
    /// None if it leads to several states.
    fn new(machine: &Machine, action: u32) -> Option<Self> {
        let act = machine.act(action);
        let after = |state: usize| machine.after(state as u64, action).expect("it fits");
        let to = ones(act.fits).next().map_or(0, after);
        if !act.pure && !ones(act.fits).all(|state| after(state) == to) {
            return None;
        }
        let mut fits = [0; STATES];
        ones(act.fits).for_each(|state| fits[state] = u64::MAX);
        Some(Self {
            pure: act.pure,
            fits,
            fits_bytes: ones(act.fits).map(|state| 1 << (8 * state)).sum(),
            to: to as usize,
        })
    }
}

/// The subsets of any state.
#[inline(always)]
fn any(subsets: &Subsets) -> u64 {
    subsets.iter().fold(0, |any, subsets| any | subsets)
}

/// An operation in flight.
#[derive(Clone, Copy, Default)]
struct Sitting {
    ret: i64,
    row: u32,
    seat: u32,
}

struct Walk {
    acts: Vec<Act>,
    /// What explains everything that returned so far.
    now: Subsets,
    /// Those in flight, the next to return last.
    flight: [Sitting; SEATS],
    seated: usize,
    /// By seat: the action.
    actions: [u32; SEATS],
    /// Seats that nobody has; those whose operations are not pure.
    vacant: u64,
    open: u64,
    /// By state, a byte each: the seats of pure operations that are possible in it.
    stays: u64,
    returned: u32,
}

impl Walk {
    fn new(acts: Vec<Act>) -> Self {
        let mut now = [0; STATES];
        now[0] = 1;
        Self {
            acts,
            now,
            flight: [Sitting::default(); SEATS],
            seated: 0,
            actions: [0; SEATS],
            vacant: (1 << SEATS) - 1,
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
                if self.seated == SEATS {
                    return None;
                }
                self.call(op);
            } else if !self.acts[op.action as usize].pure {
                return None;
            }
        }
        let ended = self.until(NEVER, limits);
        Some(ended.unwrap_or(Ended::Explained { order: Vec::new() }))
    }

    /// Goes through the returns before a time. How the search ended, if it did.
    #[inline(always)]
    fn until(&mut self, time: i64, limits: Limits) -> Option<Ended> {
        while self.seated > 0 && self.flight[self.seated - 1].ret < time {
            self.seated -= 1;
            let Sitting { row, seat, .. } = self.flight[self.seated];
            self.ret(seat as usize);
            if any(&self.now) == 0 {
                return Some(Ended::stuck(row));
            }
            self.returned += 1;
            let late = (self.returned % UNTIMED == 0)
                .then(|| limits.late())
                .flatten();
            if let Some(why) = late {
                return Some(Ended::GaveUp {
                    why,
                    at: row,
                    explored: self.returned.into(),
                });
            }
        }
        None
    }

    /// Seats an operation; if it is pure, places it where the state fits.
    #[inline(always)]
    fn call(&mut self, op: &Op) {
        let seat = self.vacant.trailing_zeros();
        self.vacant &= self.vacant - 1;
        let mut to = self.seated;
        while to > 0 && self.flight[to - 1].ret <= op.ret {
            self.flight[to] = self.flight[to - 1];
            to -= 1;
        }
        self.flight[to] = Sitting {
            ret: op.ret,
            row: op.row,
            seat,
        };
        self.seated += 1;
        self.actions[seat as usize] = op.action;
        let act = &self.acts[op.action as usize];
        if !act.pure {
            self.open |= 1 << seat;
            return;
        }
        self.stays |= act.fits_bytes << seat;
        for (subsets, fits) in self.now.iter_mut().zip(act.fits) {
            *subsets = *subsets & !fits | (*subsets & fits) << (1 << seat);
        }
    }

    /// Keeps the configurations in which the operation of the seat is placed, and forgets it.
    #[inline(always)]
    fn ret(&mut self, seat: usize) {
        let mut lacks = self.now.map(|subsets| subsets & !HAVE[seat]);
        if any(&lacks) != 0 {
            self.close(&mut lacks, self.open & !(1 << seat));
            if self.open >> seat & 1 == 1 {
                self.place(&mut lacks, seat);
            }
        }
        for (subsets, lacks) in self.now.iter_mut().zip(lacks) {
            *subsets = ((*subsets | lacks) & HAVE[seat]) >> (1 << seat);
        }
        self.vacant |= 1 << seat;
        self.open &= !(1 << seat);
        self.stays &= !(0x0101_0101_0101_0101 << seat);
    }

    /// Places the operations of the seats in every order, as far as that is possible.
    #[inline(always)]
    fn close(&self, subsets: &mut Subsets, seats: u64) {
        for _ in 0..seats.count_ones() {
            let mut grew = false;
            for seat in ones(seats) {
                grew |= self.place(subsets, seat);
            }
            if !grew {
                break;
            }
        }
    }

    /// Places an operation that is not pure wherever it may come next, and then pure ones that fit. False:
    /// nothing new came of it.
    #[inline(always)]
    fn place(&self, subsets: &mut Subsets, seat: usize) -> bool {
        let act = &self.acts[self.actions[seat] as usize];
        let from = subsets.iter().zip(act.fits);
        let from = from.fold(0, |from, (subsets, fits)| from | subsets & fits);
        let mut placed = (from & !HAVE[seat]) << (1 << seat);
        for pure in ones(self.stays >> (8 * act.to) & 0xff) {
            placed = placed & HAVE[pure] | (placed & !HAVE[pure]) << (1 << pure);
        }
        let before = subsets[act.to];
        subsets[act.to] = before | placed;
        placed & !before != 0
    }
}
