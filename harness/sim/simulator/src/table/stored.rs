//! The parts on a replica's disk.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::table::parts::Part;

/// By name.
#[derive(Default)]
pub struct Stored {
    parts: FxHashMap<Rc<str>, (u64, Rc<Part>)>,
    /// How many names there were.
    names: u64,
}

impl Stored {
    pub fn get(&self, name: &str) -> Option<&Rc<Part>> {
        self.parts.get(name).map(|(_, part)| part)
    }

    /// Whether another of its name was there, whose place it takes.
    pub fn insert(&mut self, part: Rc<Part>) -> bool {
        if let Some((_, other)) = self.parts.get_mut(&part.name) {
            *other = part;
            return true;
        }
        self.parts.insert(part.name.clone(), (self.names, part));
        self.names += 1;
        false
    }

    pub fn remove(&mut self, name: &str) {
        self.parts.remove(name);
    }

    pub fn retain(&mut self, keeps: impl Fn(&Part) -> bool) {
        self.parts.retain(|_, (_, part)| keeps(part));
    }

    /// Of those that are wanted, in the order in which they came.
    pub fn some(&self, wanted: impl Fn(&Part) -> bool) -> Vec<Rc<Part>> {
        let some = self.parts.values().filter(|(_, part)| wanted(part));
        let mut some: Vec<_> = some.collect();
        some.sort_unstable_by_key(|(place, _)| *place);
        some.into_iter().map(|(_, part)| part.clone()).collect()
    }
}
