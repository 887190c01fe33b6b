//! Finds a dequeue that found nothing although its queue always had some value.

use std::collections::BTreeMap;
use std::ops::Range;

use super::queue::{Action, Queue};
use crate::order::NEVER;
use crate::search::{Ended, Op};
use crate::verdict::{Step, Verdict, Why, Witness};

/// An enqueue and the dequeue of its value.
#[derive(Clone, Copy)]
pub struct Life<'a> {
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
            Action::Enqueue(value, _) => values.entry(value).or_default().0.push(op),
            Action::Dequeue(value, _) => values.entry(value).or_default().1.push(op),
            Action::Empty | Action::Lost(_) => {}
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
    let there = lasting(lives);
    let (op, run) = always_covered(&there, empties)?;
    let mut witness = vec![op];
    let mut time = op.call;
    // Cover the dequeue greedily: of the lives that have begun, take the one that lasts longest.
    let mut rest = there[run].iter().filter(|l| l.until() > op.call).peekable();
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
    Some(bad(NEVER_EMPTY, &witness))
}

pub(super) const NEVER_EMPTY: &str = "a dequeue found nothing though some value was always there";

/// Returns the lives that cover some moment, in order of their start.
pub(super) fn lasting<'a>(lives: &[Life<'a>]) -> Vec<Life<'a>> {
    let lasts = |life: &&Life<'a>| life.enqueue.ret < life.until();
    let mut there: Vec<Life> = lives.iter().filter(lasts).copied().collect();
    there.sort_by_key(|life| life.enqueue.ret);
    there
}

/// Finds an operation at each moment of which some life lasts, and the range of the lives without a
/// gap among which these are. `there` is in order of start.
pub(super) fn always_covered<'a>(
    there: &[Life],
    ops: impl IntoIterator<Item = &'a Op>,
) -> Option<(&'a Op, Range<usize>)> {
    let runs = runs(there);
    ops.into_iter().find_map(|op| {
        let before = runs.partition_point(|run| run.start < op.call);
        let run = runs.get(before.checked_sub(1)?)?;
        (run.end > op.ret).then(|| (op, run.lives.clone()))
    })
}

/// By index: among the lives up to it, one that lasts longest.
pub(super) fn longest(lives: &[Life]) -> Vec<usize> {
    let mut longest: Vec<usize> = Vec::with_capacity(lives.len());
    for (i, life) in lives.iter().enumerate() {
        let best = longest.last().copied().unwrap_or(i);
        longest.push(if life.until() > lives[best].until() {
            i
        } else {
            best
        });
    }
    longest
}

/// Lives without a gap between them; they cover each moment after `start` and before `end`.
pub(super) struct Run {
    pub start: i64,
    pub end: i64,
    pub lives: Range<usize>,
}

/// Joins lives, which are in order of start.
pub(super) fn runs(there: &[Life]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (i, life) in there.iter().enumerate() {
        let (start, end) = (life.enqueue.ret, life.until());
        match runs.last_mut() {
            Some(run) if start < run.end => {
                run.end = run.end.max(end);
                run.lives.end = i + 1;
            }
            _ => runs.push(Run {
                start,
                end,
                lives: i..i + 1,
            }),
        }
    }
    runs
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

/// Builds the invalid verdict whose witness is not searched for yet.
pub(super) fn unexplained(op: &Op) -> Verdict {
    Verdict::of_search(Ended::stuck(op.row), |_| Witness::Unasked)
}
