//! Builds a history transaction by transaction.

use rustc_hash::FxHashMap;

use super::history::{Contents, History, Outcome};
use crate::clock::Clock;
use crate::order::NEVER;
use crate::partition::Partition;

/// A history as columns of its own.
#[derive(Default)]
pub struct Columns {
    pub clock: Clock,
    process: Vec<i64>,
    call: Vec<i64>,
    ret: Vec<i64>,
    outcome: Vec<Outcome>,
    starts: Vec<u32>,
    transaction: Vec<u32>,
    is_read: Vec<bool>,
    key: Vec<u32>,
    /// By operation: what it appends or writes, or where what it read begins in `lists`.
    value: Vec<i64>,
    lists: Vec<i64>,
    /// Keys as texts; those without one are shown as numbers.
    pub key_texts: Vec<String>,
    pub texts: Texts,
}

impl Columns {
    /// Begins a transaction. `ret` of one of unknown outcome does not matter.
    pub fn push(&mut self, process: i64, call: i64, ret: i64, outcome: Outcome) {
        let ret = if outcome == Outcome::Unknown {
            NEVER
        } else {
            ret
        };
        self.process.push(process);
        self.call.push(call);
        self.ret.push(ret);
        self.outcome.push(outcome);
        self.starts.push(self.is_read.len() as u32);
    }

    /// Adds an append or a write to the last transaction. Keys are numbered from 0.
    pub fn write(&mut self, key: u32, value: i64) {
        self.op(key, false, value);
    }

    /// Adds a read of a list, or of a register: its value, or nothing.
    pub fn read(&mut self, key: u32, list: &[i64]) {
        self.op(key, true, self.lists.len() as i64);
        self.lists.extend(list);
    }

    fn op(&mut self, key: u32, is_read: bool, value: i64) {
        self.transaction.push(self.process.len() as u32 - 1);
        self.key.push(key);
        self.is_read.push(is_read);
        self.value.push(value);
    }

    /// Returns the contents, and the columns that refer to them.
    pub fn finish(mut self) -> Owned {
        self.starts.push(self.is_read.len() as u32);
        // A read ends where the next one begins.
        let mut end = self.lists.len() as i64;
        let mut ends = vec![0; self.is_read.len()];
        for op in (0..self.is_read.len()).rev().filter(|&op| self.is_read[op]) {
            ends[op] = end;
            end = self.value[op];
        }
        Owned {
            columns: self,
            ends,
        }
    }
}

/// Values that are texts, numbered from the least number on. Integers stand for themselves.
#[derive(Default)]
pub struct Texts {
    numbers: FxHashMap<String, i64>,
    texts: Vec<String>,
}

impl Texts {
    pub fn number(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = i64::MIN + self.texts.len() as i64;
        self.numbers.insert(text.to_owned(), number);
        self.texts.push(text.to_owned());
        number
    }

    /// Returns a value as text.
    pub fn text(&self, value: i64) -> String {
        let at = value.wrapping_sub(i64::MIN) as u64 as usize;
        match self.texts.get(at) {
            Some(text) => format!("{text:?}"),
            None => value.to_string(),
        }
    }
}

/// A history that is complete.
pub struct Owned {
    columns: Columns,
    /// By read: where its list ends.
    ends: Vec<i64>,
}

impl Owned {
    pub fn history(&self) -> History<'_> {
        let columns = &self.columns;
        let keys = columns.key.iter().max().map_or(0, |&key| key as usize + 1);
        History {
            clock: columns.clock,
            process: columns.process.clone(),
            call: columns.call.clone(),
            ret: columns.ret.clone(),
            outcome: columns.outcome.clone(),
            starts: columns.starts.clone(),
            transaction: columns.transaction.clone(),
            is_read: columns.is_read.clone(),
            keys: Partition::new(columns.key.clone(), keys),
            contents: self,
        }
    }
}

impl Contents for Owned {
    fn value(&self, op: usize) -> i64 {
        self.columns.value[op]
    }

    fn read(&self, op: usize) -> &[i64] {
        &self.columns.lists[self.columns.value[op] as usize..self.ends[op] as usize]
    }

    fn key_text(&self, key: usize) -> String {
        let text = self.columns.key_texts.get(key);
        text.cloned().unwrap_or_else(|| key.to_string())
    }

    fn value_text(&self, value: i64) -> String {
        self.columns.texts.text(value)
    }
}
