//! Places the operations of an unordered queue that was found empty.
//!
//! Whether some order explains such a history is NP-complete if values are enqueued more than once.
//! In NP: an order is checked in linear time. Hard: it decides whether a graph has a colouring with
//! three colours. Let each vertex be a dequeue that found nothing, one after the other, and divide
//! its interval into three short moments, its colours; between them another value, enqueued before
//! and dequeued after, keeps the queue from being empty. Then the queue was empty at a moment of
//! each vertex. For each edge and colour, with its moment r at one vertex and its later moment s at
//! the other, a value of its own forbids both, and nothing else:
//!
//! - one enqueue and one dequeue last from the beginning to the end;
//! - an enqueue returns right before r, a dequeue is called right after r and returns soon;
//! - an enqueue is called soon before s and returns right before it; a dequeue is called right
//!   after s and lasts to the end.
//!
//! If the queue is empty at r, the long dequeue takes the first enqueue, so that the second dequeue
//! takes the long enqueue, and nothing can take the third enqueue before s. If it is not, the second
//! dequeue takes the first enqueue and the long dequeue the third: the queue can be empty at s. At
//! any other moment between two operations nothing is left in either case.
//!
//! So this places the operations in one way, which explains most histories: each as late as it can
//! be, so that the queue holds as little as possible, and the queue is emptied at the first moment
//! at which a dequeue that found nothing is in flight and all that is in the queue can be taken by
//! dequeues in flight. If that leads nowhere, nothing is known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::queue::{Action, Queue};
use crate::order::NEVER;
use crate::search::Op;

/// Whether placing the operations in this way explains them all. None of them is a dequeue of
/// unknown value. O(n log n).
pub(super) fn is_explained(queue: &Queue, ops: &[Op]) -> bool {
    let mut events: Vec<(i64, bool, u32)> = Vec::with_capacity(2 * ops.len());
    for (i, op) in (0u32..).zip(ops) {
        events.push((op.call, false, i));
        if op.ret != NEVER {
            events.push((op.ret, true, i));
        }
    }
    events.sort_unstable();
    let mut placing = Placing::new(queue, ops);
    events.into_iter().all(|(_, returned, i)| {
        let is_possible = !returned || placing.place_by_return(i);
        if !returned {
            placing.call(i);
        }
        placing.empty_if_possible();
        is_possible
    })
}

/// The operations of one value.
#[derive(Default)]
struct Content {
    /// How often the queue holds the value.
    held: usize,
    /// The number of dequeues in flight that are not placed.
    takers: usize,
    enqueues: Flight,
    dequeues: Flight,
}

impl Content {
    /// Whether the dequeues in flight cannot take all that the queue holds.
    fn is_too_much(&self) -> bool {
        self.held > self.takers
    }
}

/// Called operations by time of return; some of them are placed already.
type Flight = BinaryHeap<Reverse<(i64, u32)>>;

struct Placing<'a> {
    queue: &'a Queue,
    ops: &'a [Op],
    is_placed: Vec<bool>,
    contents: Vec<Content>,
    /// The values that the queue holds, some of them perhaps no more.
    held: Vec<u32>,
    /// The number of values of which the queue holds too much to be emptied.
    too_much: usize,
    /// The dequeues in flight that found nothing and are not placed.
    waiting: Vec<u32>,
}

impl<'a> Placing<'a> {
    fn new(queue: &'a Queue, ops: &'a [Op]) -> Self {
        let mut contents = Vec::new();
        contents.resize_with(queue.values(), Content::default);
        Self {
            queue,
            ops,
            is_placed: vec![false; ops.len()],
            contents,
            held: Vec::new(),
            too_much: 0,
            waiting: Vec::new(),
        }
    }

    fn action(&self, i: u32) -> Action {
        self.queue.actions[self.ops[i as usize].action as usize]
    }

    fn call(&mut self, i: u32) {
        let by_return = Reverse((self.ops[i as usize].ret, i));
        match self.action(i) {
            Action::Enqueue(value, _) => self.contents[value as usize].enqueues.push(by_return),
            Action::Dequeue(value, _) => self.change(value, |content| {
                content.dequeues.push(by_return);
                content.takers += 1;
            }),
            Action::Empty => self.waiting.push(i),
            Action::Lost(_) => unreachable!("the value of each dequeue is known"),
        }
    }

    /// Places an operation that returns now; false if that is impossible.
    fn place_by_return(&mut self, i: u32) -> bool {
        if self.is_placed[i as usize] {
            return true;
        }
        match self.action(i) {
            Action::Enqueue(value, _) => self.enqueue(value, i),
            Action::Dequeue(value, _) => {
                let content = &mut self.contents[value as usize];
                if content.held == 0 {
                    let Some(other) = next(&mut content.enqueues, &self.is_placed) else {
                        return false;
                    };
                    self.enqueue(value, other);
                }
                self.dequeue(value, i);
            }
            Action::Empty | Action::Lost(_) => return false,
        }
        true
    }

    fn empty_if_possible(&mut self) {
        if self.waiting.is_empty() || self.too_much > 0 {
            return;
        }
        while let Some(value) = self.held.pop() {
            while self.contents[value as usize].held > 0 {
                let dequeues = &mut self.contents[value as usize].dequeues;
                let i = next(dequeues, &self.is_placed).expect("there are enough dequeues");
                self.dequeue(value, i);
            }
        }
        for i in self.waiting.drain(..) {
            self.is_placed[i as usize] = true;
        }
    }

    fn enqueue(&mut self, value: u32, i: u32) {
        self.is_placed[i as usize] = true;
        if self.contents[value as usize].held == 0 {
            self.held.push(value);
        }
        self.change(value, |content| content.held += 1);
    }

    fn dequeue(&mut self, value: u32, i: u32) {
        self.is_placed[i as usize] = true;
        self.change(value, |content| {
            content.held -= 1;
            content.takers -= 1;
        });
    }

    fn change(&mut self, value: u32, change: impl FnOnce(&mut Content)) {
        let content = &mut self.contents[value as usize];
        self.too_much -= usize::from(content.is_too_much());
        change(content);
        self.too_much += usize::from(content.is_too_much());
    }
}

/// Takes the operation that returns first of those that are not placed.
fn next(flight: &mut Flight, is_placed: &[bool]) -> Option<u32> {
    while let Some(Reverse((_, i))) = flight.pop() {
        if !is_placed[i as usize] {
            return Some(i);
        }
    }
    None
}
