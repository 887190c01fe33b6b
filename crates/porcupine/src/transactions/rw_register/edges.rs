//! Lists the dependencies that reads and the order of versions show.

use super::Registers;
use crate::transactions::fan::fan;
use crate::transactions::graph::{Kinds, WR, WW};
use crate::transactions::history::NONE;

impl Registers<'_> {
    pub fn dependencies(&self, mut vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        // Reads by version.
        let mut reads: Vec<(u32, u32)> = Vec::new();
        for (op, &version) in (0u32..).zip(&self.version) {
            if version == NONE || !self.history.is_committed_read(op) {
                continue;
            }
            let reader = self.transaction(op);
            let maker = self.maker(version);
            if maker == Some(reader) {
                continue;
            }
            if let Some(maker) = maker {
                edge(maker, reader, WR);
            }
            reads.push((version, reader));
        }
        reads.sort_unstable();
        reads.dedup();
        let mut writers = Vec::new();
        for key in 0..self.history.keys.len() {
            self.makers_of(self.written(key), &mut writers);
            let readers = readers_of(&reads, self.starts[key]);
            vertices = fan(&readers, &writers, vertices, edge);
        }
        for pairs in self.later.chunk_by(|a, b| a.0 == b.0) {
            let version = pairs[0].0;
            self.makers_of(pairs.iter().map(|pair| pair.1), &mut writers);
            if let Some(maker) = self.maker(version) {
                for &writer in writers.iter().filter(|&&writer| writer != maker) {
                    edge(maker, writer, WW);
                }
            }
            let readers = readers_of(&reads, version);
            vertices = fan(&readers, &writers, vertices, edge);
        }
        vertices
    }

    /// Collects the transactions that made versions, ascending.
    fn makers_of(&self, versions: impl Iterator<Item = u32>, makers: &mut Vec<u32>) {
        makers.clear();
        makers.extend(versions.filter_map(|version| self.maker(version)));
        makers.sort_unstable();
        makers.dedup();
    }
}

/// Returns the transactions that read a version, of reads by version.
fn readers_of(reads: &[(u32, u32)], version: u32) -> Vec<u32> {
    let from = reads.partition_point(|read| read.0 < version);
    let found = reads[from..].iter().take_while(|read| read.0 == version);
    found.map(|read| read.1).collect()
}
