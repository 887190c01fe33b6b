//! What is known before the search: the order of calls and returns, who sits where, and what the
//! model says of each action.

use rustc_hash::FxHashMap;

use super::{Model, Op};
use crate::order::{sort_nearly, NEVER};

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Index of the operation.
    Call(u32),
    Return(u32),
    /// A call that never returns: index of its kind.
    Lost(u32),
}

/// What the model says of an action.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nature {
    pub pure: bool,
    pub blind: bool,
    pub overwrites: bool,
    pub eager: bool,
    pub helps: bool,
}

/// By action.
pub(super) fn natures<M: Model>(model: &M, ops: &[Op]) -> Vec<Nature> {
    let actions = ops.iter().map(|op| op.action + 1).max().unwrap_or(0);
    let nature = |action: u32| Nature {
        pure: model.pure(action),
        blind: model.blind(action),
        overwrites: model.overwrites(action),
        eager: model.eager(action),
        helps: model.helps(action),
    };
    (0..actions).map(nature).collect()
}

pub(super) struct Plan {
    pub events: Vec<Event>,
    /// By operation: its seat while it is in flight.
    pub seat: Vec<u32>,
    /// The most seats taken at a time.
    pub seats: usize,
    /// By operation: the place of its return among all returns.
    pub rank: Vec<u32>,
    /// By action.
    pub natures: Vec<Nature>,
    /// The actions of calls that never return, each once.
    pub kinds: Vec<u32>,
    /// By event of a `Lost`: operations of each kind, in order of call.
    pub lost: Vec<Vec<u32>>,
}

impl Plan {
    /// At equal times calls come first, for equal times are concurrent. O(n) where operations are in
    /// order of call and few are in flight at a time, else O(n log n).
    pub fn new<M: Model>(model: &M, ops: &[Op]) -> Self {
        let mut plan = Self {
            events: Vec::with_capacity(2 * ops.len()),
            seat: vec![0; ops.len()],
            seats: 0,
            rank: vec![u32::MAX; ops.len()],
            natures: natures(model, ops),
            kinds: Vec::new(),
            lost: Vec::new(),
        };
        plan.take_seats(ops);
        plan
    }

    fn take_seats(&mut self, ops: &[Op]) {
        let mut calls: Vec<u32> = (0..ops.len() as u32).collect();
        if !ops.is_sorted_by_key(|op| op.call) {
            calls.sort_by_key(|&i| ops[i as usize].call);
        }
        let returned = (0u32..).zip(ops).filter(|(_, op)| op.ret != NEVER);
        let mut returns: Vec<(i64, u32)> = Vec::with_capacity(ops.len());
        returns.extend(returned.map(|(i, op)| (op.ret, i)));
        sort_nearly(&mut returns);
        let mut vacant: Vec<u32> = Vec::new();
        let mut kind_of: FxHashMap<u32, u32> = FxHashMap::default();
        let mut rank = 0;
        for i in calls {
            let op = &ops[i as usize];
            while let Some(&(_, done)) = returns.get(rank).filter(|&&(ret, _)| ret < op.call) {
                self.vacate(done, rank, &mut vacant);
                rank += 1;
            }
            if op.ret == NEVER {
                self.lose(i, op.action, &mut kind_of);
                continue;
            }
            self.seat[i as usize] = vacant.pop().unwrap_or_else(|| {
                self.seats += 1;
                self.seats as u32 - 1
            });
            self.events.push(Event::Call(i));
        }
        for (rank, &(_, done)) in returns.iter().enumerate().skip(rank) {
            self.vacate(done, rank, &mut vacant);
        }
    }

    fn vacate(&mut self, op: u32, rank: usize, vacant: &mut Vec<u32>) {
        vacant.push(self.seat[op as usize]);
        self.rank[op as usize] = rank as u32;
        self.events.push(Event::Return(op));
    }

    /// One that would change nothing even if it took effect is forgotten.
    fn lose(&mut self, op: u32, action: u32, kind_of: &mut FxHashMap<u32, u32>) {
        if self.natures[action as usize].pure {
            return;
        }
        let next = self.kinds.len() as u32;
        let kind = *kind_of.entry(action).or_insert(next);
        if kind == next {
            self.kinds.push(action);
            self.lost.push(Vec::new());
        }
        self.lost[kind as usize].push(op);
        self.events.push(Event::Lost(kind));
    }
}
