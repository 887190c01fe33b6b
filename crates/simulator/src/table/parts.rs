//! Defines the parts of a table: their names, which are intervals of block numbers, and their rows.

use std::cell::Cell;
use std::fmt::Write;
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::str::Bytes;

use histories::digits::{self, Digits};
use indexmap::IndexMap;
use rustc_hash::FxHasher;

use crate::disk::{Content, Written};
use crate::world::Ns;

/// The level and the mutation of a range, which are higher than those of any part.
pub const HIGHEST: i64 = 999_999_999;

/// A map that keeps the order of insertion.
pub type Ordered<K, V> = IndexMap<K, V, BuildHasherDefault<FxHasher>>;

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    Int(i64),
    Text(Rc<str>),
    /// An array of numbers.
    List(Rc<[i64]>),
}

impl Value {
    pub fn text(text: &str) -> Value {
        Value::Text(text.into())
    }
}

pub type Row = Rc<[Value]>;
/// The rows of one part. They never change, so copies share them.
pub type Rows = Rc<[Row]>;

/// Returns a text that identifies the rows. It equals Python's `repr`.
pub fn rows_repr(rows: &[Row], open: char, close: char) -> String {
    let mut out = String::with_capacity(2 + 16 * rows.len());
    out.push(open);
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        append_row_repr(&mut out, row);
    }
    if rows.len() == 1 && open == '(' {
        out.push(',');
    }
    out.push(close);
    out
}

/// Appends the text of one row.
pub fn append_row_repr(out: &mut String, row: &[Value]) {
    out.push('(');
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        match value {
            Value::Int(number) => out.push_str(Digits::of(*number).as_str()),
            Value::Text(text) => out.extend(["'", text, "'"]),
            Value::List(numbers) => write!(out, "{numbers:?}").expect("a String can grow"),
        }
    }
    out.push_str(if row.len() == 1 { ",)" } else { ")" });
}

/// The content of a part's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Info {
    pub partition: Rc<str>,
    pub min: i64,
    pub max: i64,
    pub level: i64,
    pub mutation: i64,
}

impl Info {
    /// Returns the Info of an insert's part.
    pub fn block(partition: &Rc<str>, number: i64) -> Info {
        Info {
            partition: partition.clone(),
            min: number,
            max: number,
            level: 0,
            mutation: 0,
        }
    }

    /// Parses a part's name; panics if it is not one.
    pub fn named(name: &str) -> Info {
        let partition = name.bytes().position(|letter| letter == b'_');
        let (partition, rest) = name.split_at(partition.expect("a partition"));
        let mut rest = rest[1..].bytes();
        Info {
            partition: partition.into(),
            min: number_in(&mut rest),
            max: number_in(&mut rest),
            level: number_in(&mut rest),
            mutation: number_in(&mut rest),
        }
    }

    /// Returns the Info of a name, if that part would have every row of this one.
    pub fn contained_in(&self, name: &str) -> Option<Info> {
        let rest = name.strip_prefix(&*self.partition)?;
        let mut rest = rest.strip_prefix('_')?.bytes();
        let (min, max) = (number_in(&mut rest), number_in(&mut rest));
        if min > self.min || max < self.max {
            return None;
        }
        let other = Info {
            partition: self.partition.clone(),
            min,
            max,
            level: number_in(&mut rest),
            mutation: number_in(&mut rest),
        };
        other.contains(self).then_some(other)
    }

    /// Returns the part's name in ClickHouse's format.
    pub fn name(&self) -> String {
        let mut out = Vec::with_capacity(self.partition.len() + 24);
        out.extend_from_slice(self.partition.as_bytes());
        let mutation = Some(self.mutation).filter(|mutation| *mutation != 0);
        for number in [self.min, self.max, self.level].into_iter().chain(mutation) {
            out.push(b'_');
            digits::append(&mut out, number);
        }
        String::from_utf8(out).expect("the partition's name is UTF-8")
    }

    /// Returns the sort key of parts within a partition.
    pub(super) fn place(&self) -> (i64, i64, i64, i64) {
        (self.min, self.max, self.level, self.mutation)
    }

    /// Returns the version: mutations with a higher number are still to be applied.
    pub fn version(&self) -> i64 {
        if self.mutation == 0 {
            self.min
        } else {
            self.mutation
        }
    }

    /// Whether the part was inserted, not merged or mutated.
    pub fn is_block(&self) -> bool {
        self.min == self.max && self.level == 0 && self.mutation == 0
    }

    /// Whether this part has every row of the other, given that both belong to one table.
    pub fn contains(&self, other: &Info) -> bool {
        self.min <= other.min
            && self.max >= other.max
            && self.level >= other.level
            && self.mutation >= other.mutation
            && self.partition == other.partition
    }
}

/// Parses the next number of a part's name; 0 at its end.
fn number_in(rest: &mut Bytes<'_>) -> i64 {
    let mut number = 0;
    for letter in rest {
        if letter == b'_' {
            break;
        }
        assert!(letter.is_ascii_digit(), "only numbers follow the partition");
        number = number * 10 + i64::from(letter - b'0');
    }
    number
}

/// A part on a disk. Its rows never change and stand for its checksums.
pub struct Part {
    pub info: Info,
    pub name: Rc<str>,
    pub rows: Rows,
    pub made_ns: Ns,
    /// The time since which another part covers it, by `Table::age_clock_ns`; 0 if none does,
    /// UNSEEN until it is visible.
    pub old_ns: Cell<Ns>,
    /// Whether a power cut would take its files.
    pub written: Cell<Written>,
    pub content: Content,
}

/// `old_ns` of a part that was never visible.
pub const UNSEEN: Ns = -1;

impl Part {
    pub fn new(info: Info, rows: Rows, made_ns: Ns) -> Rc<Part> {
        let name = info.name().into();
        Part::named(info, name, rows, made_ns)
    }

    /// Creates a part whose name is known.
    pub fn named(info: Info, name: Rc<str>, rows: Rows, made_ns: Ns) -> Rc<Part> {
        Rc::new(Part {
            info,
            name,
            rows,
            made_ns,
            old_ns: Cell::new(UNSEEN),
            written: Cell::new(Written::Cached),
            content: Content::Whole,
        })
    }

    /// Creates the same part with other content, because its files were damaged or repaired.
    pub fn with_content(&self, content: Content, rows: Rows) -> Rc<Part> {
        Rc::new(Part {
            info: self.info.clone(),
            name: self.name.clone(),
            rows,
            made_ns: self.made_ns,
            old_ns: self.old_ns.clone(),
            written: self.written.clone(),
            content,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["all_0_0_0", "7_3_12_2", "7_3_12_2_40"] {
            assert_eq!(Info::named(name).name(), name);
        }
        assert_eq!(Info::named("7_3_12_2_40").version(), 40);
        assert_eq!(Info::named("7_3_12_2").version(), 3);
        let contained = |name| Info::named("7_3_5_1").contained_in(name);
        for name in ["7_3_5_1", "7_0_5_2", "7_3_6_1_9"] {
            assert_eq!(contained(name), Some(Info::named(name)));
        }
        for name in ["7_4_5_1", "7_3_4_2", "7_3_5_0", "77_3_5_1", "6_3_5_1"] {
            assert_eq!(contained(name), None);
        }
    }
}
