//! Finds a dequeue that found nothing although its queue always had some value.

use std::collections::BTreeMap;

use super::queue::{Action, Queue};
use crate::order::NEVER;
use crate::search::Op;
use crate::verdict::{Step, Verdict, Why};

/// An enqueue and the dequeue of its value.
#[derive(Clone, Copy)]
pub(super) struct Life<'a> {
    pub enqueue: &'a Op,
    pub dequeue: Option<&'a Op>,
}

impl Life<'_> {
    /// The earliest time at which the value may have been dequeued.
    pub fn until(&self) -> i64 {
        self.dequeue.map_or(NEVER, |op| op.call)
    }
}

/// Pairs the enqueues of each value, in order of return, with its dequeues, in order of call. O(n
/// log n).
///
/// If k enqueues of a value returned before some moment and fewer than k dequeues of it were called
/// by then, the value is in the queue at that moment, whatever the order. That is so exactly while
/// the k-th pair lives, from its enqueue's return to its dequeue's call.
pub(super) fn pairs<'a>(queue: &Queue, ops: &'a [Op]) -> Vec<Life<'a>> {
    let mut values: BTreeMap<u32, (Vec<&Op>, Vec<&Op>)> = BTreeMap::new();
    for op in ops {
        match queue.actions[op.action as usize] {
            Action::Enqueue(value) => values.entry(value).or_default().0.push(op),
            Action::Dequeue(value) => values.entry(value).or_default().1.push(op),
            Action::Empty | Action::Lost => {}
        }
    }
    let mut lives = Vec::with_capacity(ops.len());
    for (mut enqueues, mut dequeues) in values.into_values() {
        enqueues.sort_by_key(|op| (op.ret, op.row));
        dequeues.sort_by_key(|op| (op.call, op.row));
        let mut dequeues = dequeues.into_iter();
        lives.extend(enqueues.into_iter().map(|enqueue| Life {
            enqueue,
            dequeue: dequeues.next(),
        }));
    }
    lives
}

/// Finds a dequeue that found nothing although the queue always had a value.
pub(super) fn never_empty<'a>(
    lives: &[Life],
    empties: impl Iterator<Item = &'a Op>,
) -> Option<Verdict> {
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
pub(super) fn bad(reason: &str, ops: &[&Op]) -> Verdict {
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
