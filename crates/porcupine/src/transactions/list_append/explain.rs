//! Puts the dependencies between lists' readers and writers into words.

use super::{Lists, ODD, UNSEEN};
use crate::transactions::graph::{Kinds, RW, WR};
use crate::transactions::history::NONE;
use crate::transactions::Data;

impl Data for Lists<'_> {
    fn missed(&self, vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        self.all_missed(vertices, edge)
    }

    fn explain(&self, from: u32, to: u32, kind: Kinds) -> String {
        let found = match kind {
            WR => self.explain_read(from, to),
            RW => self.explain_missed(from, to),
            _ => self.explain_order(from, to),
        };
        found.expect("the edge was made for such an operation")
    }
}

impl Lists<'_> {
    fn key(&self, op: usize) -> usize {
        self.history.keys.of(op)
    }

    fn key_text(&self, op: usize) -> String {
        self.history.contents.key_text(self.key(op))
    }

    fn explain_read(&self, from: u32, to: u32) -> Option<String> {
        self.history.ops(to).find_map(|op| {
            if !self.history.is_read[op] {
                return None;
            }
            let append = match self.version[op] {
                UNSEEN => return None,
                ODD => self.odd.iter().find(|odd| odd.0 == op as u32)?.1,
                // Before what it appended itself.
                version => {
                    let mut made = self.writers_of(self.key(op))[..version as usize].iter();
                    let is_other = |&&a: &&u32| a == NONE || self.transaction(a) != to;
                    made.rfind(is_other).copied().unwrap_or(NONE)
                }
            };
            (append != NONE && self.transaction(append) == from).then(|| {
                let (element, key) = (self.history.written(append), self.key_text(op));
                format!("T{to} read T{from}'s append of {element} to key {key}")
            })
        })
    }

    fn explain_missed(&self, from: u32, to: u32) -> Option<String> {
        self.history.ops(from).find_map(|op| {
            let version = self.version[op];
            if !self.history.is_read[op] || version == ODD {
                return None;
            }
            let later = &self.writers_of(self.key(op))[version as usize..];
            let mut later = later.iter().copied();
            let append = later
                .find(|&append| append != NONE && self.transaction(append) == to)
                .or_else(|| self.unseen_append(to, self.key(op)))?;
            let (element, key) = (self.history.written(append), self.key_text(op));
            Some(format!(
                "T{from} read key {key} without T{to}'s append of {element}"
            ))
        })
    }

    fn explain_order(&self, from: u32, to: u32) -> Option<String> {
        self.history.ops(to).find_map(|op| {
            if self.history.is_read[op] || self.version[op] == ODD {
                return None;
            }
            let writers = self.writers_of(self.key(op));
            let earlier = match self.version[op] {
                UNSEEN => writers,
                version => &writers[..version as usize - 1],
            };
            let before = *earlier.iter().rfind(|&&append| append != NONE)?;
            (self.transaction(before) == from).then(|| {
                let (element, key) = (self.history.written(op as u32), self.key_text(op));
                let first = self.history.written(before);
                format!("T{to} appended {element} to key {key} after T{from} appended {first}")
            })
        })
    }

    fn unseen_append(&self, transaction: u32, key: usize) -> Option<u32> {
        let is_unseen = |&op: &usize| {
            !self.history.is_read[op] && self.version[op] == UNSEEN && self.key(op) == key
        };
        let op = self.history.ops(transaction).find(is_unseen)?;
        Some(op as u32)
    }
}
