//! Prepares a search: the order of calls and returns, the slot of each operation, and the
//! properties of each action.

use rustc_hash::FxHashMap;

use super::{Model, Op};
use crate::order::{sort_nearly, NEVER};

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The index of the operation.
    Call(u32),
    Return(u32),
    /// A call that never returns: the index of its kind.
    Lost(u32),
}

/// What the model says about an action.
#[derive(Clone, Copy, Debug)]
pub(super) struct Properties {
    pub pure: bool,
    pub blind: bool,
    pub overwrites: bool,
    pub eager: bool,
    pub helps: bool,
}

/// Returns the properties of each action.
pub(super) fn action_properties<M: Model>(model: &M, ops: &[Op]) -> Vec<Properties> {
    let actions = ops.iter().map(|op| op.action + 1).max().unwrap_or(0);
    let properties = |action: u32| Properties {
        pure: model.pure(action),
        blind: model.blind(action),
        overwrites: model.overwrites(action),
        eager: model.eager(action),
        helps: model.helps(action),
    };
    (0..actions).map(properties).collect()
}

pub(super) struct Plan {
    pub events: Vec<Event>,
    /// By operation: its slot while it is in flight.
    pub slot: Vec<u32>,
    /// Maximum number of slots in use at a time.
    pub slots: usize,
    /// By operation: the rank of its return among all returns.
    pub rank: Vec<u32>,
    /// By action.
    pub properties: Vec<Properties>,
    /// The actions of calls that never return, without duplicates.
    pub kinds: Vec<u32>,
    /// By kind of calls that never return: the operations, in order of call.
    pub lost: Vec<Vec<u32>>,
}

impl Plan {
    /// Plans a search. At equal times calls come first, because equal times are concurrent. O(n) if
    /// operations are in order of call and few are in flight at a time, otherwise O(n log n).
    pub fn new<M: Model>(model: &M, ops: &[Op]) -> Self {
        let mut plan = Self {
            events: Vec::with_capacity(2 * ops.len()),
            slot: vec![0; ops.len()],
            slots: 0,
            rank: vec![u32::MAX; ops.len()],
            properties: action_properties(model, ops),
            kinds: Vec::new(),
            lost: Vec::new(),
        };
        plan.assign_slots(ops);
        plan
    }

    fn assign_slots(&mut self, ops: &[Op]) {
        let mut calls: Vec<u32> = (0..ops.len() as u32).collect();
        if !ops.is_sorted_by_key(|op| op.call) {
            calls.sort_by_key(|&i| ops[i as usize].call);
        }
        let returned = (0u32..).zip(ops).filter(|(_, op)| op.ret != NEVER);
        let mut returns: Vec<(i64, u32)> = Vec::with_capacity(ops.len());
        returns.extend(returned.map(|(i, op)| (op.ret, i)));
        sort_nearly(&mut returns);
        let mut free: Vec<u32> = Vec::new();
        let mut kind_of: FxHashMap<u32, u32> = FxHashMap::default();
        let mut rank = 0;
        for i in calls {
            let op = &ops[i as usize];
            while let Some(&(_, done)) = returns.get(rank).filter(|&&(ret, _)| ret < op.call) {
                self.free_slot(done, rank, &mut free);
                rank += 1;
            }
            if op.ret == NEVER {
                self.plan_lost(i, op.action, &mut kind_of);
                continue;
            }
            self.slot[i as usize] = free.pop().unwrap_or_else(|| {
                self.slots += 1;
                self.slots as u32 - 1
            });
            self.events.push(Event::Call(i));
        }
        for (rank, &(_, done)) in returns.iter().enumerate().skip(rank) {
            self.free_slot(done, rank, &mut free);
        }
    }

    fn free_slot(&mut self, op: u32, rank: usize, free: &mut Vec<u32>) {
        free.push(self.slot[op as usize]);
        self.rank[op as usize] = rank as u32;
        self.events.push(Event::Return(op));
    }

    /// Plans a call that never returns, unless it would change nothing even if it took effect.
    fn plan_lost(&mut self, op: u32, action: u32, kind_of: &mut FxHashMap<u32, u32>) {
        if self.properties[action as usize].pure {
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
