//! What is known before the search: the order of calls and returns, and who sits where.

use rustc_hash::FxHashMap;

use super::{Model, Op};
use crate::order::NEVER;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Index of the operation.
    Call(u32),
    Return(u32),
    /// A call that never returns: index of its kind.
    Lost(u32),
}

pub(super) struct Plan {
    pub events: Vec<Event>,
    /// By operation: its seat while it is in flight.
    pub seat: Vec<u32>,
    /// The most seats taken at a time.
    pub seats: usize,
    /// By operation: the place of its return among all returns.
    pub rank: Vec<u32>,
    /// The actions of calls that never return, each once.
    pub kinds: Vec<u32>,
    /// By event of a `Lost`: operations of each kind, in order of call.
    pub lost: Vec<Vec<u32>>,
}

impl Plan {
    /// Sorts the events; at equal times calls come first, for equal times are concurrent.
    /// O(n log n).
    pub fn new<M: Model>(model: &M, ops: &[Op]) -> Self {
        let mut keys: Vec<(i64, u32)> = Vec::with_capacity(2 * ops.len());
        for (i, op) in (0u32..).zip(ops) {
            if op.ret == NEVER && model.pure(op.action) {
                continue;
            }
            keys.push((op.call, 2 * i));
            if op.ret != NEVER {
                keys.push((op.ret, 2 * i + 1));
            }
        }
        keys.sort_unstable_by_key(|&(time, which)| (time, which & 1, which));
        let mut plan = Self {
            events: Vec::with_capacity(keys.len()),
            seat: vec![0; ops.len()],
            seats: 0,
            rank: vec![u32::MAX; ops.len()],
            kinds: Vec::new(),
            lost: Vec::new(),
        };
        plan.take_seats(ops, &keys);
        plan
    }

    fn take_seats(&mut self, ops: &[Op], keys: &[(i64, u32)]) {
        let mut vacant: Vec<u32> = Vec::new();
        let mut kind_of: FxHashMap<u32, u32> = FxHashMap::default();
        let mut returns = 0;
        for &(_, which) in keys {
            let i = which / 2;
            let op = &ops[i as usize];
            if which & 1 == 1 {
                vacant.push(self.seat[i as usize]);
                self.rank[i as usize] = returns;
                returns += 1;
                self.events.push(Event::Return(i));
            } else if op.ret == NEVER {
                let next = self.kinds.len() as u32;
                let kind = *kind_of.entry(op.action).or_insert(next);
                if kind == next {
                    self.kinds.push(op.action);
                    self.lost.push(Vec::new());
                }
                self.lost[kind as usize].push(i);
                self.events.push(Event::Lost(kind));
            } else {
                let seat = vacant.pop().unwrap_or_else(|| {
                    self.seats += 1;
                    self.seats as u32 - 1
                });
                self.seat[i as usize] = seat;
                self.events.push(Event::Call(i));
            }
        }
    }
}
