//! Reads and writes of many registers at once, of values that take 16 bytes.
//!
//! Rows of one object lie far apart in columns, so that to go through one object after the other
//! fetches each row's part of each column from afar. Here the columns are read once from front to
//! back, and what is needed of a row is put to its object.

use super::{Action, Names, Parsed, RegisterOp};
use crate::models::numbers::{key, Numbers, NULL};
use crate::order::NEVER;
use crate::rows::{Datum, Field, Rows};

/// A read or a write.
#[derive(Clone, Copy)]
struct Plain {
    /// Halves of the value's key.
    value: [u64; 2],
    call: i64,
    ret: i64,
    row: u32,
    read: bool,
}

/// The operations of all objects, one object after the other.
pub struct Plains {
    all: Vec<Plain>,
    /// By object: where its operations begin, and where the last one's end.
    starts: Vec<usize>,
}

impl Plains {
    /// None where some operation is another, or a row is bad. O(n).
    pub fn new(rows: &dyn Rows, objects: &[Vec<u32>], names: Names) -> Option<Self> {
        let mut starts = vec![0];
        let mut of = vec![0u32; objects.iter().map(Vec::len).sum()];
        for (i, object) in (0u32..).zip(objects) {
            starts.push(starts[i as usize] + object.len());
            object.iter().for_each(|&row| of[row as usize] = i);
        }
        let nothing = Plain {
            value: [0; 2],
            call: 0,
            ret: 0,
            row: 0,
            read: true,
        };
        let mut all = vec![nothing; of.len()];
        let mut ends = starts.clone();
        for (row, &object) in of.iter().enumerate() {
            let end = &mut ends[object as usize];
            all[*end] = plain(rows, row, names)?;
            *end += 1;
        }
        Some(Self { all, starts })
    }

    /// The operations of an object, as [`super::parse`] gives them.
    pub fn parsed(&self, object: usize, initial: &Datum) -> Parsed {
        let plains = &self.all[self.starts[object]..self.starts[object + 1]];
        let mut numbers = Numbers::with_capacity(plains.len() / 2);
        let initial = numbers.number(initial.clone());
        let mut ops = Vec::with_capacity(plains.len());
        for plain in plains {
            if plain.read && plain.ret == NEVER {
                continue;
            }
            let [low, high] = plain.value.map(u128::from);
            let value = numbers.by_key(low | high << 64);
            ops.push(RegisterOp {
                row: plain.row,
                action: match plain.read {
                    true => Action::Read(value),
                    false => Action::Write(value),
                },
                call: plain.call,
                ret: plain.ret,
            });
        }
        Parsed {
            ops,
            initial,
            values: numbers.len(),
        }
    }
}

#[inline(always)]
fn plain(rows: &dyn Rows, row: usize, names: Names) -> Option<Plain> {
    let read = names.is_read(rows.f(row))?;
    let value = rows.datum(row, if read { Field::Output } else { Field::Value });
    let value = key(&value).filter(|&key| read || key != NULL)?;
    let timing = rows.timing(row);
    Some(Plain {
        value: [value as u64, (value >> 64) as u64],
        call: timing.call,
        ret: timing.ret,
        row: row as u32,
        read,
    })
}
