//! Numbers values and actions.

use std::hash::{BuildHasher, Hash};

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::datum::{key, Datum, INT};

/// Gives equal values equal numbers, counted from 0.
///
/// Small integers are looked up in an array. Most other values are integers or short texts. These
/// have keys of 16 bytes, which are compared in a few instructions, in a hash table.
#[derive(Default)]
pub struct Numbers<'a> {
    /// By integer: its number plus one, or 0.
    ints: Vec<u32>,
    /// Open addressing by hash: the index in `keys` plus one, or 0.
    slots: Vec<u32>,
    /// Each key and its number.
    keys: Vec<(u128, u32)>,
    others: FxHashMap<Datum<'a>, u32>,
    count: u32,
}

/// Integers below this are looked up in an array.
const SMALL_INTS: u128 = 256;
impl<'a> Numbers<'a> {
    /// Creates a table with capacity for `values` hashed values.
    pub fn with_capacity(values: usize) -> Self {
        Self {
            slots: vec![0; (2 * values + 2).next_power_of_two().max(16)],
            keys: Vec::with_capacity(values),
            ..Self::default()
        }
    }

    #[inline]
    pub fn number(&mut self, value: Datum<'a>) -> u32 {
        match key(&value) {
            Some(key) => self.by_key(key),
            None => {
                let number = *self.others.entry(value).or_insert(self.count);
                self.counted(number)
            }
        }
    }

    /// Returns the number of the value with this key.
    #[inline]
    pub fn by_key(&mut self, key: u128) -> u32 {
        match key.wrapping_sub(INT) {
            int @ 0..SMALL_INTS => self.by_int(int as usize),
            _ => self.by_hash(key),
        }
    }

    #[inline]
    fn by_int(&mut self, int: usize) -> u32 {
        if int >= self.ints.len() {
            self.ints.resize(int + 1, 0);
        }
        if self.ints[int] == 0 {
            self.count += 1;
            self.ints[int] = self.count;
        }
        self.ints[int] - 1
    }

    #[inline]
    fn by_hash(&mut self, key: u128) -> u32 {
        if 2 * self.keys.len() >= self.slots.len() {
            self.grow();
        }
        let mut slot = self.slot(key);
        while let Some(at) = self.slots[slot].checked_sub(1) {
            let (known, number) = self.keys[at as usize];
            if known == key {
                return number;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.keys.push((key, self.count));
        self.slots[slot] = self.keys.len() as u32;
        self.counted(self.count)
    }

    #[inline]
    fn slot(&self, key: u128) -> usize {
        const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed =
            (key as u64 ^ ((key >> 64) as u64).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
        (mixed ^ (mixed >> 32)) as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        self.slots = vec![0; (2 * self.slots.len()).max(64)];
        for (place, &(key, _)) in (1u32..).zip(&self.keys) {
            let mut slot = self.slot(key);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = place;
        }
    }

    #[inline]
    fn counted(&mut self, number: u32) -> u32 {
        self.count = self.count.max(number + 1);
        number
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Gives equal actions equal numbers, and stores the actions by number.
pub struct Actions<A> {
    /// Open addressing by hash: the index in `all` plus one, or 0.
    slots: Vec<u32>,
    pub all: Vec<A>,
}

impl<A> Default for Actions<A> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            all: Vec::new(),
        }
    }
}

impl<A: Copy + Eq + Hash> Actions<A> {
    #[inline]
    pub fn number(&mut self, action: A) -> u32 {
        if 2 * self.all.len() >= self.slots.len() {
            self.grow();
        }
        let mut slot = self.slot(action);
        while let Some(at) = self.slots[slot].checked_sub(1) {
            if self.all[at as usize] == action {
                return at;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.all.push(action);
        self.slots[slot] = self.all.len() as u32;
        self.slots[slot] - 1
    }

    #[inline]
    fn slot(&self, action: A) -> usize {
        FxBuildHasher.hash_one(action) as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        self.slots = vec![0; (2 * self.slots.len()).max(64)];
        for (place, &action) in (1u32..).zip(&self.all) {
            let mut slot = self.slot(action);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = place;
        }
    }
}
