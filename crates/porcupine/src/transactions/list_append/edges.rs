//! Lists the dependencies that the versions of lists show.

use super::{Lists, ODD, UNSEEN};
use crate::transactions::fan::fan;
use crate::transactions::graph::{Edges, Kinds, FREE, RW, WR, WW};
use crate::transactions::history::NONE;

/// Memory that the keys use one after the other.
#[derive(Default)]
struct Scratch {
    /// By version: the transaction that made it, or [`NONE`].
    makers: Vec<u32>,
    /// By version: the transaction that made the next one, or [`NONE`].
    successors: Vec<u32>,
    /// Transactions that read the last version, and those that appended what nobody read.
    readers: Vec<u32>,
    unseen: Vec<u32>,
}

impl Edges for Lists<'_> {
    fn each(&self, mut vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        let mut scratch = Scratch::default();
        for key in 0..self.history.keys.len() {
            vertices = self.edges_of(key, &mut scratch, vertices, edge);
        }
        for &(read, append) in &self.odd {
            let (reader, writer) = (self.transaction(read), self.transaction(append));
            if reader != writer {
                edge(writer, reader, WR);
            }
        }
        vertices
    }
}

impl Lists<'_> {
    fn edges_of(
        &self,
        key: usize,
        scratch: &mut Scratch,
        vertices: u32,
        edge: &mut dyn FnMut(u32, u32, Kinds),
    ) -> u32 {
        let Scratch {
            makers,
            successors,
            readers,
            unseen,
        } = scratch;
        let last = self.order_makers(key, makers, successors, edge);
        readers.clear();
        unseen.clear();
        for &op in &self.history.keys[key] {
            let transaction = self.transaction(op);
            let version = self.version[op as usize];
            if !self.history.is_read[op as usize] {
                let is_new = unseen.last() != Some(&transaction);
                if version == UNSEEN && is_new && self.happened[transaction as usize] {
                    unseen.push(transaction);
                    if last != NONE && last != transaction {
                        edge(last, transaction, WW);
                    }
                }
                continue;
            }
            if version == ODD || !self.history.is_committed_read(op) {
                continue;
            }
            let maker = makers[version as usize];
            if maker == transaction {
                // It precedes the next one as the writer of this one, and it read what was there
                // before it appended.
                let mut before = makers[..version as usize].iter();
                let seen = before.rfind(|&&maker| maker != transaction);
                if let Some(&seen) = seen.filter(|&&seen| seen != NONE) {
                    edge(seen, transaction, WR);
                }
                continue;
            }
            if maker != NONE {
                edge(maker, transaction, WR);
            }
            match successors[version as usize] {
                NONE if readers.last() == Some(&transaction) => {}
                NONE => readers.push(transaction),
                next if next == transaction => {}
                next => edge(transaction, next, RW),
            }
        }
        fan(readers, unseen, vertices, edge)
    }

    /// Orders the transactions that made the versions of a key, and returns the last of them.
    fn order_makers(
        &self,
        key: usize,
        makers: &mut Vec<u32>,
        successors: &mut Vec<u32>,
        edge: &mut dyn FnMut(u32, u32, Kinds),
    ) -> u32 {
        makers.clear();
        makers.push(NONE);
        let mut last = NONE;
        for &append in self.writers_of(key) {
            let maker = match append {
                NONE => NONE,
                append => self.transaction(append),
            };
            makers.push(maker);
            if maker != NONE {
                if last != NONE && last != maker {
                    edge(last, maker, WW);
                }
                last = maker;
            }
        }
        successors.clear();
        successors.resize(makers.len(), NONE);
        let mut next = NONE;
        for version in (0..makers.len()).rev() {
            successors[version] = next;
            if makers[version] != NONE {
                next = makers[version];
            }
        }
        last
    }

    /// Puts each reader before all who appended after what it read, not only before the next: by a
    /// chain of vertices, of which each leads to one append and to the rest. Returns the number
    /// after the last further vertex.
    pub fn all_missed(&self, mut vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        let mut chain = Vec::new();
        for key in 0..self.history.keys.len() {
            let ops = &self.history.keys[key];
            chain.clear();
            chain.extend(self.writers_of(key));
            let is_unseen = |&&op: &&u32| {
                let is_append = !self.history.is_read[op as usize];
                is_append && self.version[op as usize] == UNSEEN
            };
            chain.extend(ops.iter().filter(is_unseen));
            for (at, &append) in (vertices..).zip(&chain) {
                if append != NONE && self.happened[self.transaction(append) as usize] {
                    edge(at, self.transaction(append), FREE);
                }
                if at + 1 < vertices + chain.len() as u32 {
                    edge(at, at + 1, FREE);
                }
            }
            for &op in ops.iter().filter(|&&op| self.history.is_committed_read(op)) {
                let version = self.version[op as usize];
                if version != ODD && (version as usize) < chain.len() {
                    edge(self.transaction(op), vertices + version, RW);
                }
            }
            vertices += chain.len() as u32;
        }
        vertices
    }
}
