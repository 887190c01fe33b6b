//! Values as numbers.

use std::hash::{BuildHasher, Hash};

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::rows::Datum;

/// Gives equal values equal numbers, counted from 0.
///
/// Small ints are looked up by place. Most other values are ints or short texts: these are keys of 16
/// bytes in a table by hash, which are compared in a few instructions.
#[derive(Default)]
pub struct Numbers<'a> {
    /// By int: its number and one, or 0.
    ints: Vec<u32>,
    /// By hash, open addressing: where in `keys` and one, or 0.
    slots: Vec<u32>,
    /// Each key and its number.
    keys: Vec<(u128, u32)>,
    others: FxHashMap<Datum<'a>, u32>,
    count: u32,
}

/// Ints below this have a place of their own.
const PLACES: u128 = 256;
/// The keys of 0, None and False.
pub const INT: u128 = 255 << 120;
pub const NULL: u128 = 254 << 120;
const BOOL: u128 = 253 << 120;

impl<'a> Numbers<'a> {
    /// With room for so many values that are hashed.
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

    /// The number of the value of this key.
    #[inline]
    pub fn by_key(&mut self, key: u128) -> u32 {
        match key.wrapping_sub(INT) {
            int @ 0..PLACES => self.by_place(int as usize),
            _ => self.by_hash(key),
        }
    }

    #[inline]
    fn by_place(&mut self, int: usize) -> u32 {
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
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed = (key as u64 ^ ((key >> 64) as u64).wrapping_mul(ODD)).wrapping_mul(ODD);
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

/// Different for different values. The highest byte: the length of a text, or one of those above.
#[inline]
pub fn key(value: &Datum) -> Option<u128> {
    match value {
        Datum::Int(value) => Some(u128::from(*value as u64) | INT),
        Datum::Null => Some(NULL),
        Datum::Bool(bool) => Some(u128::from(*bool) | BOOL),
        Datum::Text(text) if text.len() <= 15 => {
            Some(packed(text.as_bytes()) | (text.len() as u128) << 120)
        }
        _ => None,
    }
}

/// Up to 15 bytes as a number, by loads that overlap: a copy of unknown length would be a call.
#[inline]
fn packed(bytes: &[u8]) -> u128 {
    let n = bytes.len();
    let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
    match n {
        8.. => u128::from(eight(0)) | u128::from(eight(n - 8)) << (8 * (n - 8)),
        4.. => u128::from(four(0)) | u128::from(four(n - 4)) << (8 * (n - 4)),
        1.. => [0, n / 2, n - 1]
            .into_iter()
            .fold(0, |sum, i| sum | u128::from(bytes[i]) << (8 * i)),
        0 => 0,
    }
}

/// Gives equal actions equal numbers, and keeps them by number.
pub struct Actions<A> {
    /// By hash, open addressing: where in `all` and one, or 0.
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
