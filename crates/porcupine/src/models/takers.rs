//! Decides what the dequeues that never returned may have taken, if each value was enqueued once.
//!
//! Such a dequeue takes effect at any time after its call, or never. Then it takes one of the values
//! that no other dequeue returned. Values that nobody has to take can stay in the queue.
//!
//! - In a FIFO queue, a value is out before each value that was enqueued after it is dequeued. For
//!   each dequeued w, the values that were enqueued before w and that nobody returned are at most as
//!   many as the lost dequeues that were called by the return of w's dequeue. That suffices, because
//!   the deadlines of such values come in the order of their enqueues (Hall's theorem).
//! - A dequeue that found nothing needs a moment at which no returned value was in the queue for
//!   sure, and until which at most as many of the others were enqueued as lost dequeues were called.
//!   The moments of several dequeues do not depend on each other: the lost dequeues take the values
//!   in the order of enqueues as early as they can.
//!
//! Sort the enqueues of the values that nobody returned by their return and the lost dequeues by
//! their call: there are too many values at a moment exactly if, for some k, the k-th enqueue
//! returned before it and the k-th dequeue is called after it. So the k-th value and dequeue are a
//! [`Life`] as that of any other value.

use super::lives::{
    always_covered, bad, lasting, longest, never_empty, pairs, runs, Life, NEVER_EMPTY,
};
use super::queue::{Action, Queue};
use crate::order::NEVER;
use crate::search::Op;
use crate::verdict::Verdict;

/// The values of a queue, each of which was enqueued once.
#[derive(Default)]
pub(super) struct Values<'a> {
    /// The values that a dequeue returned.
    pub returned: Vec<Life<'a>>,
    /// The enqueues of the others, in order of return. Those that never returned did not happen.
    pub left: Vec<&'a Op>,
    /// The dequeues that never returned, in order of call.
    pub lost: Vec<&'a Op>,
}

impl<'a> Values<'a> {
    /// Returns `None` if a value was enqueued more than once. O(n log n).
    pub fn new(queue: &Queue, ops: &'a [Op]) -> Option<Self> {
        let mut lives: Vec<Option<Life>> = vec![None; queue.values()];
        for life in pairs(queue, ops) {
            if let Some(value) = queue.value(life.enqueue) {
                if lives[value as usize].replace(life).is_some() {
                    return None;
                }
            }
        }
        Some(Self::of(queue, ops, lives))
    }

    /// Takes the life of each value. O(n log n).
    pub fn of(queue: &Queue, ops: &'a [Op], lives: Vec<Option<Life<'a>>>) -> Self {
        let is_lost = |op: &&Op| matches!(queue.actions[op.action as usize], Action::Lost(_));
        let mut values = Self {
            lost: ops.iter().filter(is_lost).collect(),
            ..Self::default()
        };
        for life in lives.into_iter().flatten() {
            match life.dequeue {
                Some(_) => values.returned.push(life),
                None if life.enqueue.ret != NEVER => values.left.push(life.enqueue),
                None => {}
            }
        }
        values.returned.sort_by_key(|life| life.enqueue.ret);
        values.left.sort_by_key(|op| (op.ret, op.row));
        values.lost.sort_by_key(|op| (op.call, op.row));
        values
    }

    /// Finds a dequeue of a FIFO queue before which too many values had to be taken.
    pub fn too_many_overtaken(&self) -> Option<Verdict> {
        let excess = |life: &Life<'a>| {
            let dequeue = life.dequeue?;
            let takers = self.called_by(dequeue.ret);
            let before = |op: &&Op| op.ret < life.enqueue.call;
            let is_bad = self.left.partition_point(before) > takers;
            is_bad.then_some((takers, dequeue, life.enqueue))
        };
        let found = self.returned.iter().filter_map(excess);
        let (takers, dequeue, enqueue) = found.min_by_key(|&(takers, op, _)| (takers, op.row))?;
        let mut witness = vec![dequeue, enqueue];
        witness.extend(&self.left[..=takers]);
        witness.extend(&self.lost[..takers]);
        let text = match takers {
            0 => "a value was dequeued before one that was enqueued before it",
            _ => {
                "a value was dequeued before others that were enqueued before it, of which the \
                 dequeues that never returned can have taken all but one"
            }
        };
        Some(bad(text, &witness))
    }

    /// Finds a dequeue that found nothing although the queue always had a value.
    pub fn never_empty(&self, empties: impl Iterator<Item = &'a Op> + Clone) -> Option<Verdict> {
        let stays = |enqueue: &&'a Op| Life {
            enqueue,
            dequeue: None,
        };
        let mut sure = self.returned.clone();
        if self.lost.is_empty() {
            sure.extend(self.left.iter().map(stays));
        }
        if let Some(verdict) = never_empty(&sure, empties.clone()) {
            return Some(verdict);
        }
        let places = self.left.iter().enumerate();
        let crowded = places.map(|(k, enqueue)| Life {
            enqueue,
            dequeue: self.lost.get(k).copied(),
        });
        let crowded = lasting(&crowded.collect::<Vec<_>>());
        let all = lasting(&[sure.as_slice(), &crowded].concat());
        let (empty, _) = always_covered(&all, empties)?;
        Some(self.crowded_witness(empty, &lasting(&sure), &crowded))
    }

    /// Returns the verdict on a dequeue that found nothing. At each of its moments a returned value
    /// was there, or more of the others than lost dequeues had been called.
    ///
    /// Minimal: each chosen life alone covers a moment at which there are few others; of the others,
    /// there is exactly one too many at the last moment that no chosen life covers.
    fn crowded_witness(&self, empty: &Op, sure: &[Life], crowded: &[Life]) -> Verdict {
        let (crowds, longest) = (runs(crowded), longest(sure));
        let mut chosen: Vec<&Life> = Vec::new();
        let mut time = empty.call;
        loop {
            let before = crowds.partition_point(|run| run.start < time);
            let crowd = before.checked_sub(1).map(|at| &crowds[at]);
            if let Some(crowd) = crowd.filter(|run| run.end > time) {
                time = crowd.end;
                continue;
            }
            if time > empty.ret {
                break;
            }
            let begun = sure.partition_point(|life| life.enqueue.ret < time);
            let best = begun.checked_sub(1).map(|at| &sure[longest[at]]);
            let best = best.filter(|life| life.until() > time);
            chosen.push(best.expect("some value is there"));
            time = chosen[chosen.len() - 1].until();
        }
        let mut last = empty.ret;
        for life in chosen.iter().rev() {
            if life.enqueue.ret < last && last < life.until() {
                last = life.enqueue.ret;
            }
        }
        assert!(last >= empty.call, "the chosen lives do not suffice");
        let dequeues = chosen.iter().filter_map(|life| life.dequeue);
        let until = dequeues.map(|op| op.ret).fold(empty.ret, i64::max);
        let mut witness = vec![empty];
        for life in chosen {
            witness.push(life.enqueue);
            witness.extend(life.dequeue);
        }
        witness.extend(&self.left[..=self.called_by(last)]);
        witness.extend(&self.lost[..self.called_by(until)]);
        bad(NEVER_EMPTY, &witness)
    }

    /// Returns how many of the lost dequeues were called by the time.
    fn called_by(&self, time: i64) -> usize {
        self.lost.partition_point(|op| op.call <= time)
    }
}
