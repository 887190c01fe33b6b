//! A history as rows, wherever it came from.

use std::borrow::Cow;
use std::ops::Range;

use crate::models::numbers::key;
use crate::order::Timing;

/// A value in a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Datum<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Text(&'a str),
    Ints(&'a [i64]),
    List(Box<[Datum<'a>]>),
}

impl Datum<'_> {
    /// The numbers of a list that holds nothing else.
    pub fn ints(&self) -> Option<Cow<'_, [i64]>> {
        match self {
            Datum::Ints(ints) => Some(Cow::Borrowed(ints)),
            Datum::List(items) => {
                let int = |item: &Datum| match item {
                    Datum::Int(value) => Some(*value),
                    _ => None,
                };
                items
                    .iter()
                    .map(int)
                    .collect::<Option<Vec<i64>>>()
                    .map(Cow::Owned)
            }
            _ => None,
        }
    }

    /// As a person would write it.
    pub fn text(&self) -> String {
        match self {
            Datum::Null => "None".to_owned(),
            Datum::Bool(true) => "True".to_owned(),
            Datum::Bool(false) => "False".to_owned(),
            Datum::Int(i) => i.to_string(),
            Datum::Text(text) => format!("{text:?}"),
            Datum::Ints(ints) => format!("{ints:?}"),
            Datum::List(items) => {
                let items: Vec<String> = items.iter().map(Datum::text).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }
}

/// What a row says of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Value,
    Output,
    /// What a compare-and-set compares with, where that is not in the value.
    Expected,
}

/// So many rows are looked at together, field by field: what is taken from their columns stays near.
pub const BLOCK: usize = 128;

/// Ints below this, a power of two, take a byte.
pub const FEW: u64 = 32;

/// The rows up to `count`, a block at a time.
pub fn blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count)
        .step_by(BLOCK)
        .map(move |from| from..count.min(from + BLOCK))
}

/// When the rows of a block happened, by place in the block.
pub struct Times {
    pub process: [i64; BLOCK],
    pub call: [i64; BLOCK],
    /// [`crate::order::NEVER`] where it never returned.
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

/// Rows of a history; all are asked for from several threads.
pub trait Rows: Sync {
    fn timing(&self, row: usize) -> Timing;
    /// What was done: "read", "write".
    fn f(&self, row: usize) -> &str;
    fn datum(&self, row: usize, field: Field) -> Datum<'_>;

    fn value(&self, row: usize) -> Datum<'_> {
        self.datum(row, Field::Value)
    }

    fn output(&self, row: usize) -> Datum<'_> {
        self.datum(row, Field::Output)
    }

    /// The times of a block.
    fn times(&self, rows: Range<usize>, out: &mut Times) {
        for (at, row) in rows.enumerate() {
            out.put(at, self.timing(row));
        }
    }

    /// The keys ([`key`]) of a block's values in a field, or of what was done (`None`); false where
    /// one has no key.
    fn keys(&self, rows: Range<usize>, field: Option<Field>, out: &mut [u128; BLOCK]) -> bool {
        out.iter_mut().zip(rows).all(|(out, row)| {
            let value = match field {
                Some(field) => self.datum(row, field),
                None => Datum::Text(self.f(row)),
            };
            key(&value).map(|key| *out = key).is_some()
        })
    }

    /// A block's values in a field, where they are nulls and ints from 0 and below [`FEW`]: the int
    /// and one, 0 for a null. False where they are not, or that takes as long as to tell their keys.
    fn few(&self, _rows: Range<usize>, _field: Field, _out: &mut [u8; BLOCK]) -> bool {
        false
    }

    /// The row will be asked for soon. Rows of one object lie far apart in columns; without this,
    /// waiting for memory takes most of the time of a large history.
    fn prefetch(&self, _row: usize) {}

    /// The same for the bytes of its texts, when it was prefetched before.
    fn prefetch_texts(&self, _row: usize) {}
}

/// How many rows ahead of the one in hand are prefetched.
const AHEAD: usize = 24;

/// The rows of an object, prefetched where they lie apart.
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
    /// Which field holds what, and what was expected.
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
