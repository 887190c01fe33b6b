//! Stores the names of a node's children in ascending order, shared with whoever has read them.

use std::ops::Deref;
use std::rc::Rc;

/// `None` if there are no children.
#[derive(Debug, Clone, Default)]
pub struct Names(Option<Rc<Vec<Rc<str>>>>);

impl Deref for Names {
    type Target = [Rc<str>];

    fn deref(&self) -> &[Rc<str>] {
        self.0.as_ref().map_or(&[], |names| names.as_slice())
    }
}

impl Names {
    pub fn contains(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// Returns the names from this one on.
    pub fn from(&self, name: &str) -> &[Rc<str>] {
        &self[self.first_from(name)..]
    }

    /// Returns the last name before this one.
    pub fn before(&self, name: &str) -> Option<&Rc<str>> {
        self[..self.first_from(name)].last()
    }

    /// Returns the names that the other list lacks.
    pub fn difference<'a>(&'a self, other: &'a Names) -> impl Iterator<Item = &'a Rc<str>> {
        self.iter().filter(|name| !other.contains(name))
    }

    /// Inserts a new name, which is mostly the last.
    pub(super) fn insert(&mut self, name: Rc<str>) {
        let at = match self.last() {
            Some(last) if name <= *last => self.first_from(&name),
            _ => self.len(),
        };
        assert!(
            self.get(at).is_none_or(|other| *other != name),
            "names are unique"
        );
        Rc::make_mut(self.0.get_or_insert_default()).insert(at, name);
    }

    /// Removes a name, which is often the first.
    pub(super) fn remove(&mut self, name: &str) {
        let is_first = self.first().is_some_and(|first| **first == *name);
        let at = if is_first { Ok(0) } else { self.place(name) };
        assert!(at.is_ok(), "a removed name is listed");
        if let (Ok(at), Some(names)) = (at, &mut self.0) {
            Rc::make_mut(names).remove(at);
        }
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.binary_search_by(|other| (**other).cmp(name))
    }

    fn first_from(&self, name: &str) -> usize {
        self.partition_point(|other| **other < *name)
    }
}
