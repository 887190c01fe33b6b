//! The log of several models. Every replica executes it in order, up to its own pointer.

use crate::fields::{Chunks, Field, Layout, State};

pub struct Log {
    /// Number of appended entries, deleted ones included.
    pub length: Field,
    /// Number of entries that the replica has executed: the server's log_pointer.
    pub pointer: Field,
}

impl Log {
    /// Creates a log of at most `entries` entries.
    pub fn new(layout: &mut Layout, entries: u32) -> Self {
        Self {
            length: layout.global.number(entries),
            pointer: layout.chunk.number(entries),
        }
    }

    /// Returns the entry that a replica executes next, from 0; `None` if it has executed all.
    #[inline(always)]
    pub fn next(&self, state: State, chunk: u128) -> Option<u32> {
        let pointer = self.pointer.get(chunk);
        (pointer < self.length.get(state)).then_some(pointer)
    }

    /// Returns the replica's chunk after it has executed one more entry.
    #[inline(always)]
    pub fn advanced(&self, chunk: u128) -> u128 {
        self.pointer.set(chunk, self.pointer.get(chunk) + 1)
    }

    /// Returns the number of entries that are still to be executed, summed over the replicas.
    #[inline(always)]
    pub fn behind(&self, chunks: &Chunks, state: State) -> u32 {
        let length = self.length.get(state);
        (chunks.each(state))
            .map(|chunk| length - self.pointer.get(chunk))
            .sum()
    }
}
