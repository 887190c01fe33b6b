//! Events to come, by time, and of one time in the order in which they were made.
//!
//! Most come within milliseconds, and are few at a time: a sorted list has them, which timers of
//! seconds wait beside in a heap. What is sorted are their times alone; they themselves stay where
//! they are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

use crate::world::{Ns, MS};

/// How far the list reaches.
const SOON_NS: Ns = 16 * MS;
/// The slot that there is not.
const NONE: u32 = u32::MAX;

/// When an event comes, and in which slot it is.
#[derive(Clone, Copy)]
struct Soon {
    ns: Ns,
    slot: u32,
}

/// The same of one that comes later.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Later {
    /// Its time, and what tells it from the others of its time: one number is compared at once.
    key: u128,
    slot: u32,
}

impl Later {
    fn ns(&self) -> Ns {
        (self.key >> 64) as Ns
    }
}

enum Slot<T> {
    Taken(T),
    /// The next free one.
    Free(u32),
}

pub struct Events<T> {
    /// How many came into the heap.
    pushed: u64,
    /// Those until `end_ns`, the next one last.
    soon: Vec<Soon>,
    end_ns: Ns,
    later: BinaryHeap<Reverse<Later>>,
    slots: Vec<Slot<T>>,
    free: u32,
}

impl<T> Default for Events<T> {
    fn default() -> Events<T> {
        Events {
            pushed: 0,
            soon: Vec::new(),
            end_ns: 0,
            later: BinaryHeap::new(),
            slots: Vec::new(),
            free: NONE,
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
            return self.push_later(ns, slot);
        }
        // It is among the next ones, mostly.
        let mut at = self.soon.len();
        self.soon.push(Soon { ns, slot });
        while at > 0 && self.soon[at - 1].ns <= ns {
            self.soon[at] = self.soon[at - 1];
            at -= 1;
        }
        self.soon[at] = Soon { ns, slot };
    }

    #[inline(never)]
    fn push_later(&mut self, ns: Ns, slot: u32) {
        self.pushed += 1;
        let key = (ns as u128) << 64 | u128::from(self.pushed);
        self.later.push(Reverse(Later { key, slot }));
    }

    fn put(&mut self, what: T) -> u32 {
        let slot = self.free;
        match self.slots.get_mut(slot as usize) {
            Some(place) => {
                if let Slot::Free(next) = mem::replace(place, Slot::Taken(what)) {
                    self.free = next;
                }
                slot
            }
            None => {
                self.slots.push(Slot::Taken(what));
                self.slots.len() as u32 - 1
            }
        }
    }

    fn free(&mut self, slot: u32) -> Option<T> {
        let next = mem::replace(&mut self.free, slot);
        match mem::replace(&mut self.slots[slot as usize], Slot::Free(next)) {
            Slot::Taken(what) => Some(what),
            Slot::Free(_) => None,
        }
    }

    /// The next, and its time, if that is not later.
    pub fn pop(&mut self, until_ns: Ns) -> Option<(Ns, T)> {
        if self.soon.is_empty() {
            self.refill();
        }
        let Soon { ns, slot } = *self.soon.last()?;
        if ns > until_ns {
            return None;
        }
        self.soon.pop();
        Some((ns, self.free(slot)?))
    }

    /// The list, from the heap.
    #[inline(never)]
    fn refill(&mut self) {
        let Some(Reverse(first)) = self.later.peek() else {
            return;
        };
        let end_ns = first.ns() + SOON_NS;
        let is_soon = |next: &Reverse<Later>| next.0.ns() <= end_ns;
        while self.later.peek().is_some_and(is_soon) {
            let next = self.later.pop().map(|Reverse(next)| Soon {
                ns: next.ns(),
                slot: next.slot,
            });
            self.soon.extend(next);
        }
        self.soon.reverse();
        self.end_ns = end_ns;
    }

    /// Without those that are not to be kept.
    pub fn retain(&mut self, keeps: impl Fn(&T) -> bool) {
        let (slots, free) = (&mut self.slots, &mut self.free);
        let mut keeps = |slot: u32| {
            let place = &mut slots[slot as usize];
            let kept = matches!(place, Slot::Taken(what) if keeps(what));
            if !kept {
                *place = Slot::Free(mem::replace(free, slot));
            }
            kept
        };
        self.soon.retain(|next| keeps(next.slot));
        self.later.retain(|Reverse(next)| keeps(next.slot));
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
