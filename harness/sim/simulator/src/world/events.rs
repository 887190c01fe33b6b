//! Events to come, by time, and of one time in the order in which they were made.
//!
//! Most come within milliseconds, and are few at a time: a sorted list has them, which timers of
//! seconds wait beside in a heap. What is sorted are their times alone; they themselves stay where
//! they are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::world::{Ns, MS};

/// How far the list reaches.
const SOON_NS: Ns = 16 * MS;

/// When an event comes, and in which slot it is.
struct Soon {
    ns: Ns,
    slot: usize,
}

/// The same of one that comes later.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Later {
    ns: Ns,
    /// Tells it from the others of its time.
    sequence: u64,
    slot: usize,
}

pub struct Events<T> {
    /// How many came into the heap.
    pushed: u64,
    /// Those until `end_ns`, the next one last.
    soon: Vec<Soon>,
    end_ns: Ns,
    later: BinaryHeap<Reverse<Later>>,
    slots: Vec<Option<T>>,
    /// Slots without an event.
    free: Vec<usize>,
}

impl<T> Default for Events<T> {
    fn default() -> Events<T> {
        Events {
            pushed: 0,
            soon: Vec::new(),
            end_ns: 0,
            later: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Events<T> {
    pub fn len(&self) -> usize {
        self.soon.len() + self.later.len()
    }

    pub fn push(&mut self, ns: Ns, what: T) {
        let slot = self.put(what);
        if ns > self.end_ns {
            self.pushed += 1;
            let sequence = self.pushed;
            self.later.push(Reverse(Later { ns, sequence, slot }));
        } else {
            // It is among the next ones, mostly.
            let after = self.soon.iter().rposition(|other| other.ns > ns);
            let at = after.map_or(0, |at| at + 1);
            self.soon.insert(at, Soon { ns, slot });
        }
    }

    fn put(&mut self, what: T) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(what);
                slot
            }
            None => {
                self.slots.push(Some(what));
                self.slots.len() - 1
            }
        }
    }

    /// The next, and its time, if that is not later.
    pub fn pop(&mut self, until_ns: Ns) -> Option<(Ns, T)> {
        if self.soon.is_empty() {
            self.refill()?;
        }
        if self.soon.last()?.ns > until_ns {
            return None;
        }
        let next = self.soon.pop()?;
        self.free.push(next.slot);
        Some((next.ns, self.slots[next.slot].take()?))
    }

    /// The list, from the heap.
    fn refill(&mut self) -> Option<()> {
        self.end_ns = self.later.peek()?.0.ns + SOON_NS;
        let end_ns = self.end_ns;
        let is_soon = |next: &Reverse<Later>| next.0.ns <= end_ns;
        while self.later.peek().is_some_and(is_soon) {
            let next = self.later.pop().map(|next| next.0);
            self.soon
                .extend(next.map(|Later { ns, slot, .. }| Soon { ns, slot }));
        }
        self.soon.reverse();
        Some(())
    }

    /// Without those that are not to be kept.
    pub fn retain(&mut self, keeps: impl Fn(&T) -> bool) {
        let (slots, free) = (&mut self.slots, &mut self.free);
        let mut keeps = |slot: usize| {
            let kept = slots[slot].as_ref().is_some_and(&keeps);
            if !kept {
                slots[slot] = None;
                free.push(slot);
            }
            kept
        };
        self.soon.retain(|next| keeps(next.slot));
        self.later.retain(|next| keeps(next.0.slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn they_come_in_order() {
        for seed in 0..100 {
            let (seed, mut events, mut naive) = (Seed(seed), Events::default(), Vec::new());
            let mut now_ns = 0;
            for sequence in 0..500 {
                let draw = seed.below(sequence, 100) as Ns;
                if draw < 60 {
                    let time_ns = now_ns + draw % 20 * draw % 7 * MS;
                    events.push(time_ns, sequence);
                    naive.push((time_ns, sequence));
                } else if draw < 98 {
                    naive.sort_unstable();
                    let until_ns = now_ns + draw % 15 * MS;
                    let next = naive.first().copied();
                    let due = next.filter(|(time_ns, _)| *time_ns <= until_ns);
                    assert_eq!(events.pop(until_ns), due);
                    if let Some((time_ns, _)) = due {
                        now_ns = time_ns;
                        naive.remove(0);
                    }
                } else {
                    events.retain(|event| event % 3 > 0);
                    naive.retain(|(_, event)| event % 3 > 0);
                }
                assert_eq!(events.len(), naive.len());
            }
        }
    }
}
