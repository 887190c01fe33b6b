//! Decides an unordered queue, in O(n log n).
//!
//! The values are then independent of each other. It is best to place each enqueue at its call and
//! each dequeue at its return: the history is linearizable if, in that order, no value is ever
//! dequeued more often than it was enqueued. (In any order, all operations that returned by the
//! return of a dequeue are placed by then, and no enqueue that was called later is.) An enqueue
//! that never returned may be taken to have happened at its call.

use super::emptied;
use super::general;
use super::lives::{never_empty, pairs, unexplained};
use super::queue::{Action, Order, Queue};
use super::takers::Values;
use crate::search::{Ended, Op};
use crate::verdict::{Request, Status, Verdict, Witness};

/// Returns the verdict under real-time order; `None` if only a search can tell.
///
/// What is impossible in an unordered queue is impossible in any other as well, so that a queue of
/// each kind can be INVALID.
pub fn decide(queue: &Queue, ops: &[Op], request: &Request) -> Option<Verdict> {
    let action = |op: &Op| queue.actions[op.action as usize];
    if let Some(stuck) = taken_too_often(queue, ops) {
        return Some(too_often(queue, ops, stuck, request));
    }
    let empties = || ops.iter().filter(|op| action(op) == Action::Empty);
    if ops.iter().any(|op| matches!(action(op), Action::Lost(_))) {
        let verdict = Values::new(queue, ops)?.never_empty(empties());
        let verdict = verdict.map(|verdict| within(queue, ops, verdict, request));
        return verdict.or_else(|| (queue.order == Order::Any).then(valid));
    }
    if empties().next().is_some() {
        if let Some(verdict) = never_empty(&pairs(queue, ops), empties()) {
            return Some(within(queue, ops, verdict, request));
        }
    }
    let is_explained = queue.order == Order::Any && emptied::is_explained(queue, ops);
    is_explained.then(valid)
}

fn valid() -> Verdict {
    Verdict::valid("each value was taken out no more often than it had been put in")
}

/// Returns the verdict on a queue that was never empty. If its values have an order, a part of the
/// witness may be impossible as well, and a search finds the smallest.
fn within(queue: &Queue, ops: &[Op], verdict: Verdict, request: &Request) -> Verdict {
    if queue.order == Order::Any {
        return verdict;
    }
    let is_in = |op: &&Op| verdict.witness.contains(&(op.row as usize));
    let part: Vec<Op> = ops.iter().filter(is_in).copied().collect();
    if !request.witness {
        let stuck = verdict.steps[0].from;
        let found = part.iter().find(|op| op.row as usize == stuck);
        return found.map_or(verdict, unexplained);
    }
    let rerun = Request {
        stuck: None,
        ..*request
    };
    let smaller = general::decide(&mut queue.emptied(), &part, &rerun, |_| 0);
    match smaller.status {
        Status::Invalid => smaller,
        _ => verdict,
    }
}

/// Returns the verdict on a queue from which a value was taken out too often, by `stuck`.
fn too_often(queue: &Queue, ops: &[Op], stuck: &Op, request: &Request) -> Verdict {
    if request.witness {
        let about = |op: &&Op| queue.value(op) == queue.value(stuck);
        let part: Vec<Op> = ops.iter().filter(about).copied().collect();
        let rerun = Request {
            stuck: None,
            ..*request
        };
        let verdict = general::decide(&mut queue.unordered(), &part, &rerun, |_| 0);
        if verdict.status == Status::Invalid {
            return verdict;
        }
    }
    Verdict::of_search(Ended::stuck(stuck.row), |at| match request.witness {
        true => Witness::Part {
            failing: at,
            rows: vec![at],
            supported: true,
            smallest: false,
        },
        false => Witness::Unasked,
    })
}

/// Returns the first dequeue, in order of return, for which no enqueue is left.
fn taken_too_often<'a>(queue: &Queue, ops: &'a [Op]) -> Option<&'a Op> {
    let mut events: Vec<(i64, bool, u32)> = Vec::with_capacity(ops.len());
    for (i, op) in (0u32..).zip(ops) {
        match queue.actions[op.action as usize] {
            Action::Enqueue(_, _) => events.push((op.call, false, i)),
            Action::Dequeue(_, _) => events.push((op.ret, true, i)),
            Action::Empty | Action::Lost(_) => {}
        }
    }
    events.sort_unstable();
    let mut left: Vec<u32> = Vec::new();
    for (_, taken, i) in events {
        let op = &ops[i as usize];
        let value = queue.value(op).expect("an operation on a value") as usize;
        if value >= left.len() {
            left.resize(value + 1, 0);
        }
        if !taken {
            left[value] += 1;
        } else if left[value] == 0 {
            return Some(op);
        } else {
            left[value] -= 1;
        }
    }
    None
}
