//! Events to come, by time, and of one time in the order in which they were made.
//!
//! Most come within milliseconds, and are few at a time: a sorted list has them, which timers of
//! seconds wait beside in a heap.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::world::{Ns, MS};

/// How far the list reaches.
const SOON_NS: Ns = 16 * MS;

struct Event<T> {
    time_ns: Ns,
    /// Tells it from the others of its time.
    sequence: u64,
    what: T,
}

impl<T> Ord for Event<T> {
    /// The greatest is the next.
    fn cmp(&self, other: &Event<T>) -> Ordering {
        (other.time_ns, other.sequence).cmp(&(self.time_ns, self.sequence))
    }
}

impl<T> PartialOrd for Event<T> {
    fn partial_cmp(&self, other: &Event<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Event<T> {
    fn eq(&self, other: &Event<T>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Event<T> {}

pub struct Events<T> {
    pushed: u64,
    /// Those until `end_ns`, the next one last.
    soon: Vec<Event<T>>,
    end_ns: Ns,
    later: BinaryHeap<Event<T>>,
}

impl<T> Default for Events<T> {
    fn default() -> Events<T> {
        Events {
            pushed: 0,
            soon: Vec::new(),
            end_ns: 0,
            later: BinaryHeap::new(),
        }
    }
}

impl<T> Events<T> {
    pub fn len(&self) -> usize {
        self.soon.len() + self.later.len()
    }

    pub fn push(&mut self, time_ns: Ns, what: T) {
        self.pushed += 1;
        let event = Event {
            time_ns,
            sequence: self.pushed,
            what,
        };
        if time_ns > self.end_ns {
            self.later.push(event);
        } else {
            let after = |other: &Event<T>| other.time_ns > time_ns;
            let at = self.soon.partition_point(after);
            self.soon.insert(at, event);
        }
    }

    /// The next, and its time, if that is not later.
    pub fn pop(&mut self, until_ns: Ns) -> Option<(Ns, T)> {
        if self.soon.is_empty() {
            self.end_ns = self.later.peek()?.time_ns + SOON_NS;
            while self
                .later
                .peek()
                .is_some_and(|next| next.time_ns <= self.end_ns)
            {
                self.soon.extend(self.later.pop());
            }
            self.soon.reverse();
        }
        if self.soon.last()?.time_ns > until_ns {
            return None;
        }
        let next = self.soon.pop()?;
        Some((next.time_ns, next.what))
    }

    /// Without those that are not to be kept.
    pub fn retain(&mut self, keeps: impl Fn(&T) -> bool) {
        self.soon.retain(|event| keeps(&event.what));
        self.later.retain(|event| keeps(&event.what));
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
