//! Decides a stack or a priority queue whose values are all different.
//!
//! A value lives at least from the end of its enqueue to the start of its dequeue; if that is no
//! time, enqueue and dequeue can be placed next to each other, and the value disturbs nothing.
//! [`super::stack`] and [`super::priority`] decide whether all of them can live, in O(n log² n) and
//! O(n log n); Lee & Mathur, "Efficient decrease-and-conquer linearizability monitoring" (OOPSLA
//! 2025), have the idea to take one value after the other away.
//!
//! That is for dequeues that all returned. A lost one takes no value or one that nobody returned.
//! So the history is linearizable if it is without the lost dequeues, and it is not if it is not
//! without all values that nobody returned. What is in between is searched.

use super::lives::{bad, unexplained, Life};
use super::queue::{Action, Queue};
use super::takers::Values;
use crate::search::Op;
use crate::shrink;
use crate::verdict::{Request, Verdict};

/// A value, or a dequeue that found nothing.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    /// With the number of the value; smaller values have smaller numbers.
    Value(u32, Life<'a>),
    Empty(&'a Op),
}

impl<'a> Part<'a> {
    /// Returns the operation that takes a value or found none, if there is one.
    fn op(self) -> &'a Op {
        match self {
            Part::Value(_, life) => life.dequeue.unwrap_or(life.enqueue),
            Part::Empty(op) => op,
        }
    }
}

/// Returns parts that have no order by themselves; `None` if all have one.
pub type Flaw = for<'a> fn(&[Part<'a>]) -> Option<Vec<Part<'a>>>;

/// Returns the verdict; `None` if values are enqueued twice, or if it takes a search to tell what
/// lost dequeues took. Every dequeue has an enqueue that was called by its return.
pub fn decide(queue: &Queue, ops: &[Op], request: &Request, flaw: Flaw) -> Option<Verdict> {
    let values = Values::new(queue, ops)?;
    let value = |life: Life| queue.value(life.enqueue).expect("an enqueue has a value");
    let is_empty = |op: &&Op| queue.actions[op.action as usize] == Action::Empty;
    let returned = values
        .returned
        .iter()
        .map(|&life| Part::Value(value(life), life));
    let mut parts: Vec<Part> = returned
        .chain(ops.iter().filter(is_empty).map(Part::Empty))
        .collect();
    let sure = parts.len();
    parts.extend(values.left.iter().map(|&enqueue| {
        let life = Life {
            enqueue,
            dequeue: None,
        };
        Part::Value(value(life), life)
    }));
    let Some(mut found) = flaw(&parts) else {
        return Some(Verdict::valid(
            "the values have an order that explains what was taken out",
        ));
    };
    if !values.lost.is_empty() && sure < parts.len() {
        found = flaw(&parts[..sure])?;
    }
    if !request.witness {
        return Some(unexplained(found[0].op()));
    }
    let mut reason = "the values have no order that explains what was taken out".to_owned();
    let fails = |parts: &[Part]| flaw(parts).is_some();
    let (found, smallest) = shrink::smallest(&found, request.limits, |_| (), fails);
    if !smallest {
        reason += "; the witness may not be the smallest (out of time)";
    }
    let mut witness: Vec<&Op> = Vec::new();
    for part in found {
        match part {
            Part::Value(_, life) => witness.extend(life.dequeue.into_iter().chain([life.enqueue])),
            Part::Empty(op) => witness.insert(0, op),
        }
    }
    Some(bad(&reason, &witness))
}
