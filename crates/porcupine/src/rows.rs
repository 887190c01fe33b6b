//! Defines the rows of a history, independent of their source.

use std::ops::Range;

use crate::clock::Clock;
use crate::datum::{key, Datum};
use crate::order::Timing;

/// A field of an operation that holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Value,
    Output,
    /// The value that a compare-and-set compares with, if it is a field of its own.
    Expected,
}

/// Number of rows that are processed together, field by field, so that the data stays in the cache.
pub const BLOCK: usize = 128;

/// Integers below this power of two take a byte.
pub const SMALL: u64 = 32;

/// Splits the rows up to `count` into blocks.
pub fn blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count)
        .step_by(BLOCK)
        .map(move |from| from..count.min(from + BLOCK))
}

/// The times of the rows of a block, by index in the block.
pub struct Times {
    pub process: [i64; BLOCK],
    pub call: [i64; BLOCK],
    /// [`crate::order::NEVER`] if the operation never returned.
    pub ret: [i64; BLOCK],
}

impl Default for Times {
    fn default() -> Self {
        Self {
            process: [0; BLOCK],
            call: [0; BLOCK],
            ret: [0; BLOCK],
        }
    }
}

impl Times {
    pub fn put(&mut self, at: usize, timing: Timing) {
        self.process[at] = timing.process;
        self.call[at] = timing.call;
        self.ret[at] = timing.ret;
    }

    #[inline]
    pub fn timing(&self, at: usize, row: usize) -> Timing {
        Timing {
            row,
            process: self.process[at],
            call: self.call[at],
            ret: self.ret[at],
        }
    }
}

/// The rows of a history, which several threads read.
pub trait Rows: Sync {
    fn timing(&self, row: usize) -> Timing;
    /// Returns what the times are.
    fn clock(&self) -> Clock {
        Clock::Ints
    }
    /// Returns the operation's name, such as "read" or "write".
    fn f(&self, row: usize) -> &str;
    fn datum(&self, row: usize, field: Field) -> Datum<'_>;

    /// Returns the name of the row's process; `None` if processes are numbers.
    fn process_name(&self, _row: usize) -> Option<&str> {
        None
    }

    fn value(&self, row: usize) -> Datum<'_> {
        self.datum(row, Field::Value)
    }

    fn output(&self, row: usize) -> Datum<'_> {
        self.datum(row, Field::Output)
    }

    /// Reads the times of a block.
    fn times(&self, rows: Range<usize>, out: &mut Times) {
        for (at, row) in rows.enumerate() {
            out.put(at, self.timing(row));
        }
    }

    /// Reads the keys ([`key`]) of a block's values in a field, or of the operations' names
    /// (`None`); returns false if a value has no key.
    fn keys(&self, rows: Range<usize>, field: Option<Field>, out: &mut [u128; BLOCK]) -> bool {
        out.iter_mut().zip(rows).all(|(out, row)| {
            let value = match field {
                Some(field) => self.datum(row, field),
                None => Datum::Text(self.f(row)),
            };
            key(&value).map(|key| *out = key).is_some()
        })
    }

    /// Reads a block's values in a field if they are nulls and integers from 0 and below [`SMALL`]:
    /// the integer plus one, 0 for null. Returns false if they are not, or if this would take as
    /// long as reading their keys.
    fn small_ints(&self, _rows: Range<usize>, _field: Field, _out: &mut [u8; BLOCK]) -> bool {
        false
    }

    /// Announces that the row will be read soon. The rows of one object lie far apart in columns;
    /// without prefetching, cache misses would take most of the time of a large history.
    fn prefetch(&self, _row: usize) {}

    /// Announces the same for the bytes of the row's texts, after `prefetch`.
    fn prefetch_texts(&self, _row: usize) {}
}

/// Announces that memory will be read soon.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn prefetch(address: *const u8) {
    use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
    // SAFETY: prefetching never faults, whatever the address.
    unsafe { _mm_prefetch(address.cast(), _MM_HINT_T0) }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn prefetch(_address: *const u8) {}

/// Distance in rows between the current row and the prefetched one.
const AHEAD: usize = 24;

/// Iterates over the rows of an object and prefetches rows that are not adjacent.
pub fn each<'a>(rows: &'a dyn Rows, object: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
    let ends = object.first().zip(object.last());
    let apart = ends.is_some_and(|(first, last)| (last - first) as usize > 2 * object.len());
    object.iter().enumerate().map(move |(place, &row)| {
        if apart {
            if let Some(&soon) = object.get(place + AHEAD) {
                rows.prefetch(soon as usize);
            }
            if let Some(&sooner) = object.get(place + AHEAD / 2) {
                rows.prefetch_texts(sooner as usize);
            }
        }
        row as usize
    })
}

/// A row that breaks the rules of histories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    pub row: usize,
    /// Names the field, its content and what was expected.
    pub text: String,
}

impl BadRow {
    pub fn field(row: usize, field: &str, found: &Datum, expected: &str) -> Self {
        let found = found.text();
        Self {
            row,
            text: format!("{field} is {found}, expected {expected}"),
        }
    }

    pub fn f(row: usize, f: &str, expected: &str) -> Self {
        Self {
            row,
            text: format!("f is {f:?}, expected {expected}"),
        }
    }
}
