//! Decides whether the values of a priority queue can live, each dequeue taking the least.
//!
//! While a value lives, no greater one is dequeued and no dequeue finds nothing. So the least value
//! comes first: it lives as short as it can, from the end of its enqueue to the start of its
//! dequeue. Each following one is dequeued as early as it can be, at a moment at which none of the
//! smaller ones lives, and lives from the end of its enqueue until then. No order has fewer moments
//! at which some value lives. O(n log n).

use std::collections::BTreeMap;

use super::ordered::Part;
use crate::order::NEVER;

/// Returns the parts up to the first that has no place; `None` if all have one.
pub fn flaw<'a>(parts: &[Part<'a>]) -> Option<Vec<Part<'a>>> {
    let mut sorted = parts.to_vec();
    sorted.sort_by_key(|part| match part {
        Part::Value(value, _) => (*value, 0),
        Part::Empty(op) => (u32::MAX, op.row),
    });
    let mut taken = Taken::default();
    let failing = sorted.iter().position(|part| match part {
        Part::Value(_, life) => {
            let from = life.enqueue.ret;
            let Some(dequeue) = life.dequeue else {
                taken.add(from, NEVER);
                return false;
            };
            let time = taken.next_free(dequeue.call.max(life.enqueue.call));
            taken.add(from, time);
            time > dequeue.ret
        }
        Part::Empty(op) => taken.next_free(op.call) > op.ret,
    })?;
    sorted.truncate(failing + 1);
    Some(sorted)
}

/// Disjoint spans of time, without their ends.
#[derive(Default)]
struct Taken {
    /// By start: the end.
    spans: BTreeMap<i64, i64>,
}

impl Taken {
    /// Returns the first moment from this one on that lies in no span.
    fn next_free(&self, time: i64) -> i64 {
        match self.spans.range(..time).next_back() {
            Some((_, &end)) if end > time => end,
            _ => time,
        }
    }

    /// Adds a span, if it has any moment. Amortized O(log n).
    fn add(&mut self, mut from: i64, mut to: i64) {
        if from >= to {
            return;
        }
        while let Some((&start, &end)) = self.spans.range(..to).next_back() {
            if end <= from {
                break;
            }
            (from, to) = (from.min(start), to.max(end));
            self.spans.remove(&start);
        }
        self.spans.insert(from, to);
    }
}
