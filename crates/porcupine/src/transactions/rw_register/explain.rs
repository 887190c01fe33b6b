//! Puts the dependencies between registers' readers and writers into words.

use super::Registers;
use crate::transactions::graph::{Kinds, RW, WR};
use crate::transactions::history::NONE;
use crate::transactions::Data;

impl Data for Registers<'_> {
    fn explain(&self, from: u32, to: u32, kind: Kinds) -> String {
        let found = match kind {
            WR => self.explain_read(from, to),
            RW => self.explain_later(from, to, true),
            _ => self.explain_later(from, to, false),
        };
        found.expect("the edge was made for such an operation")
    }
}

impl Registers<'_> {
    fn explain_read(&self, from: u32, to: u32) -> Option<String> {
        self.history.ops(to).find_map(|op| {
            let version = self.version[op];
            if !self.history.is_read[op] || version == NONE || self.maker(version) != Some(from) {
                return None;
            }
            let (value, key) = (self.value_of(op), self.key_text(version));
            Some(format!(
                "T{to} read T{from}'s write of {value} to key {key}"
            ))
        })
    }

    /// Explains that a transaction wrote a later version than another read or wrote.
    fn explain_later(&self, from: u32, to: u32, reads: bool) -> Option<String> {
        let is_earlier =
            |op: &usize| self.history.is_read[*op] == reads && self.version[*op] != NONE;
        self.history.ops(from).filter(is_earlier).find_map(|op| {
            let first = self.version[op];
            let is_later = |later: &usize| {
                !self.history.is_read[*later] && self.is_later(first, self.version[*later])
            };
            let later = self.history.ops(to).find(is_later)?;
            let key = self.key_text(first);
            let (before, value) = (self.value_of(op), self.value_of(later));
            Some(match (reads, self.is_initial(first)) {
                (true, true) => {
                    format!(
                        "T{from} read the initial value of key {key}, to which T{to} wrote {value}"
                    )
                }
                (true, false) => {
                    format!("T{from} read {before} in key {key}, and T{to} wrote the later {value}")
                }
                (false, _) => {
                    format!("T{from} wrote {before} to key {key}, and T{to} the later {value}")
                }
            })
        })
    }

    fn is_later(&self, first: u32, second: u32) -> bool {
        match self.is_initial(first) {
            true => self.key_of(first) == self.key_of(second),
            false => self.later.binary_search(&(first, second)).is_ok(),
        }
    }

    /// Describes that the order of a key's versions is a cycle.
    pub fn describe_cycle(&self, key: usize) -> (Vec<u32>, String) {
        let ops = self.history.keys[key].iter();
        let mut transactions: Vec<u32> = ops.map(|&op| self.transaction(op)).collect();
        transactions.dedup();
        let key = self.history.contents.key_text(key);
        let text = format!(
            "some value of key {key} is later than itself, by what transactions read and wrote \
             and by what is assumed about keys"
        );
        (transactions, text)
    }

    fn key_text(&self, version: u32) -> String {
        self.history.contents.key_text(self.key_of(version))
    }

    /// Returns what an operation wrote or found as text.
    fn value_of(&self, op: usize) -> String {
        if !self.history.is_read[op] {
            return self.history.written(op as u32);
        }
        let contents = self.history.contents;
        match contents.read(op).first() {
            Some(&value) => contents.value_text(value),
            None => "nothing".to_owned(),
        }
    }
}
