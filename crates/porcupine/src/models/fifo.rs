//! Decides a FIFO queue whose enqueued values are all different, in polynomial time.
//!
//! Henzinger, Sezgin & Vafeiadis, "Aspect-oriented linearizability proofs" (CONCUR 2013): such a
//! history is linearizable unless
//! - a value is dequeued that was never enqueued, or was enqueued only later;
//! - a value is dequeued twice;
//! - a was enqueued before b, and b was dequeued before a, or b was dequeued and a never;
//! - a dequeue finds nothing although the queue always had some value meanwhile: the intervals from
//!   the end of a value's enqueue to the start of its dequeue cover the whole dequeue.
//!
//! An enqueue that never returned happened if its value was dequeued. With dequeues that never
//! returned, a value that nobody returned may have been taken: see [`super::takers`].

use super::lives::{bad, longest, Life};
use super::queue::{Action, Queue};
use super::takers::Values;
use crate::search::Op;
use crate::verdict::Verdict;

/// Returns the verdict; `None` if a value is enqueued twice. O(n log n).
pub fn decide(queue: &Queue, ops: &[Op]) -> Option<Verdict> {
    let action = |op: &Op| queue.actions[op.action as usize];
    let mut lives: Vec<Option<Life>> = vec![None; queue.values()];
    for op in ops {
        if let Action::Enqueue(value, _) = action(op) {
            let life = Life {
                enqueue: op,
                dequeue: None,
            };
            if lives[value as usize].replace(life).is_some() {
                return None;
            }
        }
    }
    for op in ops {
        let Action::Dequeue(value, _) = action(op) else {
            continue;
        };
        match &mut lives[value as usize] {
            None => return Some(bad("a value was dequeued that was never enqueued", &[op])),
            Some(life) if op.ret < life.enqueue.call => {
                let text = "a value was dequeued before it was enqueued";
                return Some(bad(text, &[op, life.enqueue]));
            }
            Some(life) => {
                if let Some(before) = life.dequeue.replace(op) {
                    let text = "a value was dequeued twice that was enqueued once";
                    return Some(bad(text, &[op, life.enqueue, before]));
                }
            }
        }
    }
    let values = Values::of(queue, ops, lives);
    let empties = ops.iter().filter(|op| action(op) == Action::Empty);
    let verdict = overtaken(&values)
        .or_else(|| values.too_many_overtaken())
        .or_else(|| values.never_empty(empties));
    Some(verdict.unwrap_or_else(|| {
        Verdict::valid("values were dequeued in the order in which they were enqueued")
    }))
}

/// Finds a value that was dequeued before one that was enqueued before it. The dequeue of that one
/// matters only if a lost dequeue could have taken it.
fn overtaken(values: &Values) -> Option<Verdict> {
    let lives = &values.returned;
    let longest = longest(lives);
    lives.iter().find_map(|b| {
        let dequeue = b.dequeue?;
        let before = lives.partition_point(|a| a.enqueue.ret < b.enqueue.call);
        let a = &lives[*longest.get(before.checked_sub(1)?)?];
        (a.until() > dequeue.ret).then(|| {
            let text = "a value was dequeued before one that was enqueued before it";
            let mut witness = vec![dequeue, a.enqueue, b.enqueue];
            witness.extend(a.dequeue.filter(|_| !values.lost.is_empty()));
            bad(text, &witness)
        })
    })
}
