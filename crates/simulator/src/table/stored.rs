//! Stores the parts on a replica's disk.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::table::parts::Part;

/// The parts by name.
#[derive(Default)]
pub struct Stored {
    parts: FxHashMap<Rc<str>, (u64, Rc<Part>)>,
    /// Number of names that were ever stored.
    names: u64,
}

impl Stored {
    pub fn get(&self, name: &str) -> Option<&Rc<Part>> {
        self.parts.get(name).map(|(_, part)| part)
    }

    /// Stores a part; returns whether it replaces one of the same name.
    pub fn insert(&mut self, part: Rc<Part>) -> bool {
        if let Some((_, other)) = self.parts.get_mut(&part.name) {
            assert_eq!(other.info, part.info, "a name identifies one part");
            *other = part;
            return true;
        }
        self.parts.insert(part.name.clone(), (self.names, part));
        self.names += 1;
        false
    }

    pub fn remove(&mut self, name: &str) -> Option<Rc<Part>> {
        self.parts.remove(name).map(|(_, part)| part)
    }

    pub fn retain(&mut self, keeps: impl Fn(&Part) -> bool) {
        self.parts.retain(|_, (_, part)| keeps(part));
    }

    /// Returns the parts that satisfy the predicate, in the order in which they were stored.
    pub fn some(&self, wanted: impl Fn(&Part) -> bool) -> Vec<Rc<Part>> {
        let some = self.parts.values().filter(|(_, part)| wanted(part));
        let mut some: Vec<_> = some.collect();
        some.sort_unstable_by_key(|(place, _)| *place);
        some.into_iter().map(|(_, part)| part.clone()).collect()
    }
}
