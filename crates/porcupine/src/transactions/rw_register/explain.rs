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
            let value = self.value(version);
            Some(format!(
                "T{to} read T{from}'s write of {value} to key {}",
                self.key_text(version)
            ))
        })
    }

    /// Explains that a transaction wrote a later version than another read or wrote.
    fn explain_later(&self, from: u32, to: u32, reads: bool) -> Option<String> {
        let earlier = self
            .history
            .ops(from)
            .filter(|&op| self.history.is_read[op] == reads);
        let earlier = earlier
            .map(|op| self.version[op])
            .filter(|&version| version != NONE);
        let later = || {
            let writes = self.history.ops(to).filter(|&op| !self.history.is_read[op]);
            writes.map(|op| self.version[op])
        };
        let is_later = |first: u32, second: u32| match self.is_initial(first) {
            true => self.key_of(first) == self.key_of(second),
            false => self.later.binary_search(&(first, second)).is_ok(),
        };
        earlier.into_iter().find_map(|first| {
            let second = later().find(|&second| is_later(first, second))?;
            let (key, value) = (self.key_text(second), self.value(second));
            Some(match (reads, self.is_initial(first)) {
                (true, true) => {
                    format!(
                        "T{from} read the initial value of key {key}, to which T{to} wrote {value}"
                    )
                }
                (true, false) => format!(
                    "T{from} read {} in key {key}, and T{to} wrote the later {value}",
                    self.value(first)
                ),
                (false, _) => format!(
                    "T{from} wrote {} to key {key}, and T{to} the later {value}",
                    self.value(first)
                ),
            })
        })
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

    fn value(&self, version: u32) -> String {
        self.history.written(self.writers[version as usize])
    }
}
