//! Keeps a replica's queue in memory: the entries of the log that it has not executed yet.
//!
//! Source: ReplicatedMergeTreeQueue of 18.16.1.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::table::active_parts::ActivePartSet;
use crate::table::entries::{Entry, EntryKind};
use crate::table::parts::{Info, Ordered, HIGHEST};
use crate::world::{Ns, Promise, World};

/// An entry, with the attempts to execute it.
pub struct Attempts {
    pub entry: Rc<Entry>,
    pub tries: u64,
    pub executing: bool,
    pub failure: String,
    /// Distinguishes entries of the same name, because an entry that was given up may be queued
    /// again.
    number: u64,
}

/// An attempt in progress.
pub struct Attempt {
    pub name: Rc<str>,
    pub entry: Rc<Entry>,
    number: u64,
}

/// The queue of one replica of a table, which ZooKeeper stores as well.
pub struct Queue {
    world: Rc<World>,
    /// By the name of the node, in order of execution.
    pub entries: RefCell<Ordered<Rc<str>, Attempts>>,
    /// The parts that will exist when the queue is empty.
    pub virtual_parts: RefCell<ActivePartSet<()>>,
    /// The number of the first log entry that was not copied yet.
    pub pointer: Cell<i64>,
    added: Cell<u64>,
    wakes: RefCell<Vec<Promise<()>>>,
}

impl Queue {
    /// Return an empty queue.
    pub fn new(world: &Rc<World>) -> Queue {
        Queue {
            world: world.clone(),
            entries: RefCell::default(),
            virtual_parts: RefCell::default(),
            pointer: Cell::new(0),
            added: Cell::new(0),
            wakes: RefCell::default(),
        }
    }

    /// Add a new entry as the last one.
    pub fn add(&self, name: Rc<str>, entry: Rc<Entry>) {
        self.added.set(self.added.get() + 1);
        if entry.columns.is_none() {
            let mut virtual_parts = self.virtual_parts.borrow_mut();
            for part in entry.range().into_iter().chain(entry.made()) {
                virtual_parts.add(part, ());
            }
        }
        let attempts = Attempts {
            entry,
            tries: 0,
            executing: false,
            failure: String::new(),
            number: self.added.get(),
        };
        let mut entries = self.entries.borrow_mut();
        // A drop comes first, so that nothing is fetched in vain.
        let other = if attempts.entry.kind.removes_range() {
            entries.shift_insert(0, name, attempts)
        } else {
            entries.insert(name, attempts)
        };
        assert!(other.is_none(), "an entry is queued once");
    }

    /// Begin the first attempt for which `may` holds, given the parts that attempts in progress
    /// make, and the ranges that they remove.
    pub fn begin(&self, may: impl Fn(&Entry, &[&Info]) -> bool) -> Option<Attempt> {
        let mut entries = self.entries.borrow_mut();
        let at = {
            let executing = entries.values().filter(|other| other.executing);
            let made: Vec<&Info> = executing
                .flat_map(|other| other.entry.range().into_iter().chain(other.entry.made()))
                .collect();
            let alters = entries.values().filter_map(|one| one.entry.alter_version());
            let next_alter = alters.min();
            // ALTERs are executed one by one, in the order of their versions.
            let in_turn =
                |entry: &Entry| entry.columns.is_none() || entry.alter_version() == next_alter;
            let mut candidates = entries.values();
            candidates
                .position(|one| !one.executing && in_turn(&one.entry) && may(&one.entry, &made))?
        };
        // Move the entry to the end, so that others get their turn if it fails.
        let last = entries.len() - 1;
        entries.move_index(at, last);
        let (name, attempts) = entries.get_index_mut(last).expect("the entry is the last");
        assert!(!attempts.executing, "an entry is executed by one thread");
        attempts.executing = true;
        attempts.tries += 1;
        Some(Attempt {
            name: name.clone(),
            entry: attempts.entry.clone(),
            number: attempts.number,
        })
    }

    /// End an attempt, which failed unless `failure` is empty.
    pub fn end(&self, attempt: &Attempt, failure: String) {
        if let Some(attempts) = self.entries.borrow_mut().get_mut(&attempt.name) {
            if attempts.number == attempt.number {
                assert!(attempts.executing, "an entry is executed by one thread");
                attempts.failure = failure;
                attempts.executing = false;
            }
        }
    }

    /// Remove an entry that was executed, and wake the waiting threads.
    pub fn remove(&self, name: &str) {
        self.entries.borrow_mut().shift_remove(name);
        assert!(
            !self.entries.borrow().contains_key(name),
            "an entry is removed once"
        );
        self.wake();
    }

    /// Remove all entries. An attempt in progress goes on to its end.
    pub fn clear(&self) {
        self.entries.borrow_mut().clear();
        self.virtual_parts.take();
    }

    /// Remove the entry of a part that will never exist, and return its name.
    pub fn give_up(&self, part: &Info) -> Option<Rc<str>> {
        self.virtual_parts.borrow_mut().remove(part);
        let mut entries = self.entries.borrow_mut();
        let at = entries.values().position(|one| one.entry.new == *part)?;
        let (name, attempts) = entries.shift_remove_index(at)?;
        assert_eq!(attempts.entry.new, *part, "the entry is the part's");
        drop(entries);
        self.wake();
        Some(name)
    }

    /// Remove the entries that make parts of a range, but not the one that removes the range, and
    /// return their names.
    pub fn drop_range(&self, range: &Info, by: &Entry) -> Vec<Rc<str>> {
        let mut gone = Vec::new();
        self.entries.borrow_mut().retain(|name, one| {
            let entry = &*one.entry;
            let within = !entry.kind.removes_range() && entry.is_within(range) && entry != by;
            assert!(
                !within || !one.executing,
                "a drop waits for what makes its parts"
            );
            if within {
                gone.push(name.clone());
            }
            !within
        });
        gone
    }

    /// Return whether some entry makes or removes parts of a range, or of one that reaches into it.
    pub fn concerns(&self, range: &Info) -> bool {
        let near = |part: &Info| part.partition == range.partition && part.min <= range.max;
        let entries = self.entries.borrow();
        let mut parts = entries
            .values()
            .flat_map(|one| one.entry.range().into_iter().chain(one.entry.made()));
        parts.any(near)
    }

    /// Return whether some entry removes this part.
    pub fn drops(&self, part: &Info) -> bool {
        let entries = self.entries.borrow();
        let mut ranges = entries.values().filter_map(|one| one.entry.range());
        ranges.any(|range| range.contains(part))
    }

    /// Move the entries of the parts that are merged with this one to the end, if there is such a
    /// merge, and return whether there is. So the merged part comes first: without it, each of its
    /// source parts would cost an attempt (moveSiblingPartsForMergeToEndOfQueue).
    pub fn postpone_siblings(&self, part: &Info) -> bool {
        let mut entries = self.entries.borrow_mut();
        let Some(merge) = entries
            .values()
            .position(|one| one.entry.parts.contains(part))
        else {
            return false;
        };
        let sources = entries[merge].entry.parts.clone();
        let before = entries.iter().take(merge);
        let siblings = before.filter(|(_, one)| sources.contains(&one.entry.new));
        let siblings: Vec<Rc<str>> = siblings.map(|(name, _)| name.clone()).collect();
        let last = entries.len() - 1;
        for name in siblings {
            let at = entries.get_index_of(&name).expect("it is queued");
            entries.move_index(at, last);
        }
        true
    }

    /// Return the name of the entry that makes this part.
    pub fn entry_of(&self, part: &Info) -> Option<Rc<str>> {
        let entries = self.entries.borrow();
        let mut entries = entries.iter();
        let entry = entries.find(|(_, one)| one.entry.new == *part);
        entry.map(|(name, _)| name.clone())
    }

    /// Return whether a drop that is queued, or has been executed, removes this part.
    pub fn has_dropped(&self, part: &Info) -> bool {
        let virtual_parts = self.virtual_parts.borrow();
        let covering = virtual_parts.containing(part);
        covering.is_some_and(|covering| covering.level == HIGHEST)
    }

    /// Return whether some entry makes exactly this part, or merges or mutates it.
    pub fn needs(&self, part: &Info) -> bool {
        let entries = self.entries.borrow();
        let entries = entries.values().map(|one| &one.entry);
        let mut entries = entries.filter(|entry| !entry.kind.removes_range());
        entries.any(|entry| entry.made().any(|made| made == part) || entry.parts.contains(part))
    }

    /// Return whether some entry copies another table's part to this one.
    pub fn copies(&self, part: &Info) -> bool {
        let entries = self.entries.borrow();
        let mut entries = entries.values().map(|one| &one.entry);
        entries.any(|entry| entry.copies.is_some() && entry.made().any(|made| made == part))
    }

    /// Return the parts that the merge or the mutation into this part needs; none if no such entry
    /// is queued.
    pub fn sources_of(&self, part: &Info) -> Vec<Info> {
        let entries = self.entries.borrow();
        let entry = entries.values().find(|one| one.entry.new == *part);
        entry.map_or_else(Vec::new, |one| one.entry.parts.clone())
    }

    /// Return whether some entry other than that of `besides` makes this part or one that covers it.
    pub fn makes(&self, part: &Info, besides: &Info) -> bool {
        let entries = self.entries.borrow();
        let mut entries = entries.values().filter(|one| one.entry.new != *besides);
        entries.any(|one| one.entry.kind != EntryKind::Alter && one.entry.makes(part))
    }

    /// Wake the waiting threads, because some entry may be executable now.
    pub fn wake(&self) {
        for wake in self.wakes.take() {
            wake.set(&self.world, ());
        }
    }

    /// Wait until some entry may be executable, or for the given time.
    pub async fn sleep(&self, ns: Option<Ns>) {
        let wake = Promise::new();
        self.wakes.borrow_mut().push(wake.clone());
        match ns {
            None => self.world.wait(&wake).await,
            Some(ns) => {
                if self.world.wait_for(&wake, ns).await.is_err() {
                    self.wakes.borrow_mut().retain(|other| !other.is(&wake));
                }
            }
        }
        assert!(
            !self.wakes.borrow().iter().any(|other| other.is(&wake)),
            "a thread waits once"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seed::Seed;

    #[test]
    fn a_part_that_cannot_be_fetched_leaves_the_turn_to_the_merge_that_uses_it() {
        let queue = Queue::new(&World::new(Seed(1)));
        let get = |name: &str| Entry::get(Info::named(name));
        let merged = Entry {
            kind: EntryKind::Merge,
            parts: vec![Info::named("0_1_1_0"), Info::named("0_2_2_0")],
            ..get("0_1_2_1")
        };
        let later = get("0_1_1_0");
        let entries = [
            get("0_1_1_0"),
            get("0_2_2_0"),
            get("0_3_3_0"),
            merged,
            later,
        ];
        for (name, entry) in ["a", "b", "c", "merge", "later"].iter().zip(entries) {
            queue.add((*name).into(), Rc::new(entry));
        }
        let order = || {
            queue
                .entries
                .borrow()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert!(!queue.postpone_siblings(&Info::named("0_3_3_0")));
        assert_eq!(order(), "a b c merge later");
        assert!(queue.postpone_siblings(&Info::named("0_2_2_0")));
        assert_eq!(order(), "c merge later a b");
    }
}
