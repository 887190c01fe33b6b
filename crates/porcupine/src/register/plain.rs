//! Collects reads and writes of registers with values that take 16 bytes.
//!
//! The rows of one object lie far apart in columns, so visiting one object after the other fetches
//! every cell from distant memory. Here the columns are read once from front to back, a block at a
//! time, and what the decision needs of a row is stored with its object. If each value of an object
//! is written once, the decision needs nothing else.

use super::clusters::{interleaved, Clusters};
use super::{Action, Names, Parsed, RegisterOp};
use crate::datum::{key, Datum, NULL};
use crate::models::numbers::Numbers;
use crate::order::NEVER;
use crate::partition::Partition;
use crate::rows::{blocks, Field, Rows, Times, BLOCK};

/// A read or a write in half a cache line.
#[derive(Clone, Copy)]
pub struct Plain {
    /// The value's key. The two highest bits of a key are equal; in a read the highest one is
    /// inverted.
    value: u128,
    call: i64,
    ret: i64,
}

impl Plain {
    fn is_read(&self) -> bool {
        (self.value ^ self.value << 1) >> 127 == 1
    }

    fn key(&self) -> u128 {
        self.value ^ u128::from(self.is_read()) << 127
    }
}

/// The operations of all objects, one object after the other.
pub struct Plains {
    all: Vec<Plain>,
    starts: Vec<u32>,
}

/// The operations of one object and their rows.
#[derive(Clone, Copy)]
pub struct PlainObject<'a> {
    ops: &'a [Plain],
    rows: &'a [u32],
}

impl Plains {
    /// Collects the operations; `None` if some operation is neither a read nor a write, or a row is
    /// bad. O(n).
    pub fn new(rows: &dyn Rows, objects: &Partition, names: Names) -> Option<Self> {
        let count = objects.rows();
        let [read, write] = names
            .read_and_write()
            .map(|name| key(&Datum::Text(name)).expect("a short name"));
        let mut all: Vec<Plain> = Vec::with_capacity(count);
        let room = all.spare_capacity_mut();
        let mut ends = objects.starts().to_vec();
        let mut times = Times::default();
        let [mut f, mut values, mut outputs] = [[0; BLOCK]; 3];
        for block in blocks(count) {
            let plain = |f: &u128| *f == read || *f == write;
            let fits = rows.keys(block.clone(), None, &mut f)
                && (names != Names::CasRegister || f[..block.len()].iter().all(plain))
                && rows.keys(block.clone(), Some(Field::Value), &mut values)
                && rows.keys(block.clone(), Some(Field::Output), &mut outputs);
            if !fits {
                return None;
            }
            rows.times(block.clone(), &mut times);
            let mut good = true;
            // Do not branch on whether it is a read, which is as good as random.
            for (at, row) in block.enumerate() {
                let is_read = f[at] == read;
                let value = if is_read { outputs[at] } else { values[at] };
                good &= is_read | ((f[at] == write) & (value != NULL));
                let end = &mut ends[objects.of(row)];
                room[*end as usize].write(Plain {
                    value: value ^ u128::from(is_read) << 127,
                    call: times.call[at],
                    ret: times.ret[at],
                });
                *end += 1;
            }
            if !good {
                return None;
            }
        }
        // SAFETY: each object has as many places as rows, so every place was written.
        unsafe { all.set_len(count) };
        let starts = objects.starts().to_vec();
        Some(Self { all, starts })
    }

    /// Returns the operations of an object, which has these rows.
    pub fn of<'a>(&'a self, object: usize, rows: &'a [u32]) -> PlainObject<'a> {
        let from = self.starts[object] as usize;
        let ops = &self.all[from..from + rows.len()];
        PlainObject { ops, rows }
    }
}

impl PlainObject<'_> {
    /// Whether the object certainly is linearizable: each value was written once, and no zones
    /// conflict. O(n) if [`interleaved`] is.
    pub fn holds(&self, initial: &Datum) -> bool {
        let Some(initial) = key(initial) else {
            return false;
        };
        let mut clusters = Clusters::new(initial, self.ops.len());
        for op in self.ops {
            let read = op.is_read();
            if !read || op.ret != NEVER {
                clusters.of(op.key()).add(read, op.call, op.ret);
            }
        }
        let mut zones = Vec::with_capacity(clusters.all().len());
        for (value, cluster) in (0u32..).zip(clusters.all()) {
            let zone = match value {
                0 => cluster.initial_zone(),
                _ => cluster.zone(),
            };
            match zone {
                Some(zone) => zones.extend(zone.map(|(first, last)| (first, last, value))),
                None => return false,
            }
        }
        interleaved(&mut zones).is_none()
    }

    /// Returns the operations as [`super::parse`] does.
    pub fn parsed(&self, initial: &Datum) -> Parsed {
        let mut numbers = Numbers::with_capacity(self.ops.len() / 2);
        let initial = numbers.number(initial.clone());
        let mut ops = Vec::with_capacity(self.ops.len());
        for (op, &row) in self.ops.iter().zip(self.rows) {
            if op.is_read() && op.ret == NEVER {
                continue;
            }
            let value = numbers.by_key(op.key());
            ops.push(RegisterOp {
                row,
                action: match op.is_read() {
                    true => Action::Read(value),
                    false => Action::Write(value),
                },
                call: op.call,
                ret: op.ret,
            });
        }
        Parsed {
            ops,
            initial,
            values: numbers.len(),
        }
    }
}
