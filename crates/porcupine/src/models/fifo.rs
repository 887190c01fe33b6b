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

use super::queue::{Action, Queue};
use crate::order::NEVER;
use crate::search::Op;
use crate::verdict::{Step, Verdict, Why};

/// The enqueue and the dequeue of one value.
#[derive(Clone, Copy)]
struct Life<'a> {
    enqueue: &'a Op,
    dequeue: Option<&'a Op>,
}

impl Life<'_> {
    /// The earliest time at which the value may have been dequeued.
    fn until(&self) -> i64 {
        self.dequeue.map_or(NEVER, |op| op.call)
    }
}

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

/// Finds a dequeue that found nothing although the queue always had a value.
fn never_empty<'a>(lives: &[Life], empties: impl Iterator<Item = &'a Op>) -> Option<Verdict> {
    let mut there: Vec<&Life> = lives.iter().filter(|l| l.enqueue.ret < l.until()).collect();
    there.sort_by_key(|life| life.enqueue.ret);
    // Runs of lives without a gap between them: (start, end, from, to).
    let mut runs: Vec<(i64, i64, usize, usize)> = Vec::new();
    for (i, life) in there.iter().enumerate() {
        let (start, end) = (life.enqueue.ret, life.until());
        match runs.last_mut() {
            Some(run) if start < run.1 => {
                run.1 = run.1.max(end);
                run.3 = i + 1;
            }
            _ => runs.push((start, end, i, i + 1)),
        }
    }
    for op in empties {
        let before = runs.partition_point(|run| run.0 < op.call);
        let Some(&(_, end, from, to)) = before.checked_sub(1).and_then(|r| runs.get(r)) else {
            continue;
        };
        if end <= op.ret {
            continue;
        }
        let mut witness = vec![op];
        let mut time = op.call;
        // Cover the dequeue greedily: of the lives that have begun, take the one that lasts
        // longest.
        let mut rest = there[from..to]
            .iter()
            .filter(|l| l.until() > op.call)
            .peekable();
        while time <= op.ret {
            let mut best: Option<&Life> = None;
            while let Some(life) = rest.next_if(|l| l.enqueue.ret < time) {
                if best.is_none_or(|b| life.until() > b.until()) {
                    best = Some(life);
                }
            }
            let best = best.expect("the run has no gap");
            witness.push(best.enqueue);
            witness.extend(best.dequeue);
            time = best.until();
        }
        return Some(bad(
            "a dequeue found nothing though some value was always there",
            &witness,
        ));
    }
    None
}

/// Builds the invalid verdict; the first operation is the impossible one.
fn bad(reason: &str, ops: &[&Op]) -> Verdict {
    let row = ops[0].row as usize;
    let step = Step {
        from: row,
        to: row,
        why: Why::CannotPlace,
        value: None,
    };
    let mut verdict = Verdict::invalid(reason, vec![step]);
    verdict.witness = ops.iter().map(|op| op.row as usize).collect();
    verdict.witness.sort_unstable();
    verdict
}
