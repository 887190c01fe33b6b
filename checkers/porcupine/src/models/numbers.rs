//! Values as numbers.

use rustc_hash::FxHashMap;

use crate::rows::Datum;

/// Gives equal values equal numbers, counted from 0.
#[derive(Default)]
pub struct Numbers<'a> {
    of: FxHashMap<Datum<'a>, u32>,
}

impl<'a> Numbers<'a> {
    pub fn number(&mut self, value: Datum<'a>) -> u32 {
        let next = self.of.len() as u32;
        *self.of.entry(value).or_insert(next)
    }

    pub fn len(&self) -> usize {
        self.of.len()
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

/// Gives equal actions equal numbers, and keeps them by number.
pub struct Actions<A> {
    of: FxHashMap<A, u32>,
    pub all: Vec<A>,
}

impl<A> Default for Actions<A> {
    fn default() -> Self {
        Self {
            of: FxHashMap::default(),
            all: Vec::new(),
        }
    }
}

impl<A: Copy + Eq + std::hash::Hash> Actions<A> {
    pub fn number(&mut self, action: A) -> u32 {
        let next = self.all.len() as u32;
        let number = *self.of.entry(action).or_insert(next);
        if number == next {
            self.all.push(action);
        }
        number
    }
}
