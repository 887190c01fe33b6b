//! Values as numbers.

use rustc_hash::FxHashMap;

use crate::rows::Datum;

/// Gives equal values equal numbers, counted from 0.
///
/// Most values are ints or short texts: these are keys of 16 bytes, which are hashed and compared
/// in a few instructions.
#[derive(Default)]
pub struct Numbers<'a> {
    small: FxHashMap<u128, u32>,
    of: FxHashMap<Datum<'a>, u32>,
}

impl<'a> Numbers<'a> {
    /// With room for so many values.
    pub fn with_capacity(values: usize) -> Self {
        let mut numbers = Self::default();
        numbers.small.reserve(values);
        numbers
    }

    #[inline]
    pub fn number(&mut self, value: Datum<'a>) -> u32 {
        let next = self.len() as u32;
        match small(&value) {
            Some(key) => *self.small.entry(key).or_insert(next),
            None => *self.of.entry(value).or_insert(next),
        }
    }

    pub fn len(&self) -> usize {
        self.small.len() + self.of.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Different for different values. The highest byte: the length of a text, or 255 of an int.
#[inline]
fn small(value: &Datum) -> Option<u128> {
    match value {
        Datum::Int(value) => Some(u128::from(*value as u64) | 255 << 120),
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
        _ => (0..n).fold(0, |sum, i| sum | u128::from(bytes[i]) << (8 * i)),
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
