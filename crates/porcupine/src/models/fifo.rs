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
//! An enqueue that never returned happened if its value was dequeued.

use super::lives::{bad, never_empty, Life};
use super::queue::{Action, Queue};
use crate::order::NEVER;
use crate::search::Op;
use crate::verdict::Verdict;

/// Returns the verdict; `None` if a value is enqueued twice or a dequeue never returned. O(n log
/// n).
pub fn decide(queue: &Queue, ops: &[Op]) -> Option<Verdict> {
    let action = |op: &Op| queue.actions[op.action as usize];
    let values = queue.actions.iter().filter_map(|action| match action {
        Action::Enqueue(value) | Action::Dequeue(value) => Some(*value as usize + 1),
        _ => None,
    });
    let mut lives: Vec<Option<Life>> = vec![None; values.max().unwrap_or(0)];
    for op in ops {
        match action(op) {
            Action::Enqueue(value) => {
                let life = &mut lives[value as usize];
                if life.is_some() {
                    return None;
                }
                *life = Some(Life {
                    enqueue: op,
                    dequeue: None,
                });
            }
            Action::Lost => return None,
            _ => {}
        }
    }
    for op in ops {
        let Action::Dequeue(value) = action(op) else {
            continue;
        };
        match &mut lives[value as usize] {
            None => return Some(bad("a value was dequeued that was never enqueued", &[op])),
            Some(life) => match life.dequeue {
                Some(before) => {
                    let text = "a value was dequeued twice that was enqueued once";
                    return Some(bad(text, &[op, life.enqueue, before]));
                }
                None if op.ret < life.enqueue.call => {
                    let text = "a value was dequeued before it was enqueued";
                    return Some(bad(text, &[op, life.enqueue]));
                }
                None => life.dequeue = Some(op),
            },
        }
    }
    let mut lives: Vec<Life> = lives.into_iter().flatten().collect();
    lives.retain(|life| life.dequeue.is_some() || life.enqueue.ret != NEVER);
    lives.sort_by_key(|life| life.enqueue.ret);
    let empties = ops.iter().filter(|op| action(op) == Action::Empty);
    let verdict = overtaken(&lives).or_else(|| never_empty(&lives, empties));
    Some(verdict.unwrap_or_else(|| {
        Verdict::valid("values were dequeued in the order in which they were enqueued")
    }))
}

/// Finds a value that was dequeued before one that was enqueued before it. `lives` are in order of
/// the enqueues' returns.
fn overtaken(lives: &[Life]) -> Option<Verdict> {
    // By index: among the lives up to here, one that lasts longest.
    let mut longest: Vec<usize> = Vec::with_capacity(lives.len());
    for (i, life) in lives.iter().enumerate() {
        let best = longest.last().copied().unwrap_or(i);
        longest.push(if life.until() > lives[best].until() {
            i
        } else {
            best
        });
    }
    lives.iter().find_map(|b| {
        let dequeue = b.dequeue?;
        let before = lives.partition_point(|a| a.enqueue.ret < b.enqueue.call);
        let a = &lives[*longest.get(before.checked_sub(1)?)?];
        (a.until() > dequeue.ret).then(|| {
            let text = "a value was dequeued before one that was enqueued before it";
            bad(text, &[dequeue, a.enqueue, b.enqueue])
        })
    })
}
