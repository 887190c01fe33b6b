//! Decides an unordered queue in which every dequeue found something, in O(n log n).
//!
//! The values are then independent of each other. It is best to place each enqueue at its call and
//! each dequeue at its return: the history is linearizable if, in that order, no value is ever
//! dequeued more often than it was enqueued. (In any order, all operations that returned by the
//! return of a dequeue are placed by then, and no enqueue that was called later is.) An enqueue
//! that never returned may be taken to have happened at its call.

use super::general;
use super::queue::{Action, Queue};
use crate::search::{Ended, Op};
use crate::verdict::{Request, Status, Verdict, Witness};

/// Returns the verdict under real-time order; `None` if a dequeue found nothing or its value is
/// unknown.
pub fn decide(queue: &mut Queue, ops: &[Op], request: &Request) -> Option<Verdict> {
    let apart = |op: &Op| {
        !matches!(
            queue.actions[op.action as usize],
            Action::Empty | Action::Lost
        )
    };
    if !ops.iter().all(apart) {
        return None;
    }
    let Some(stuck) = taken_too_often(queue, ops) else {
        let reason = "each value was taken out no more often than it had been put in";
        return Some(Verdict::valid(reason));
    };
    if request.witness {
        let about = |op: &&Op| value(queue, op) == value(queue, stuck);
        let part: Vec<Op> = ops.iter().filter(about).copied().collect();
        let rerun = Request {
            stuck: None,
            ..*request
        };
        let verdict = general::decide(queue, &part, &rerun, |_| 0);
        if verdict.status == Status::Invalid {
            return Some(verdict);
        }
    }
    Some(Verdict::of_search(
        Ended::stuck(stuck.row),
        |at| match request.witness {
            true => Witness::Part {
                failing: at,
                rows: vec![at],
                supported: true,
                smallest: false,
            },
            false => Witness::Unasked,
        },
    ))
}

/// Returns the first dequeue, in order of return, for which no enqueue is left.
fn taken_too_often<'a>(queue: &Queue, ops: &'a [Op]) -> Option<&'a Op> {
    let mut events: Vec<(i64, bool, u32)> = Vec::with_capacity(ops.len());
    for (i, op) in (0u32..).zip(ops) {
        events.push(match queue.actions[op.action as usize] {
            Action::Dequeue(_) => (op.ret, true, i),
            _ => (op.call, false, i),
        });
    }
    events.sort_unstable();
    let mut left: Vec<u32> = Vec::new();
    for (_, taken, i) in events {
        let op = &ops[i as usize];
        let value = value(queue, op) as usize;
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

fn value(queue: &Queue, op: &Op) -> u32 {
    match queue.actions[op.action as usize] {
        Action::Enqueue(value) | Action::Dequeue(value) => value,
        Action::Empty | Action::Lost => unreachable!("the operation has a value"),
    }
}
