//! One log, which every replica executes in order, up to a pointer of its own.

use crate::fields::{Chunks, Field, Layout, State};

pub struct Log {
    /// Entries that were appended, those that are deleted by now included.
    pub length: Field,
    /// Entries that the replica has executed: the server's log_pointer.
    pub pointer: Field,
}

impl Log {
    /// A log of at most `entries`.
    pub fn new(layout: &mut Layout, entries: u32) -> Self {
        Self {
            length: layout.global.number(entries),
            pointer: layout.chunk.number(entries),
        }
    }

    /// The entry that a replica executes next, from 0; None when it has executed all.
    #[inline(always)]
    pub fn next(&self, state: State, chunk: u128) -> Option<u32> {
        let pointer = self.pointer.get(chunk);
        (pointer < self.length.get(state)).then_some(pointer)
    }

    /// A replica after it has executed one entry more.
    #[inline(always)]
    pub fn advanced(&self, chunk: u128) -> u128 {
        self.pointer.set(chunk, self.pointer.get(chunk) + 1)
    }

    /// Entries that are still to be executed, added up over the replicas.
    #[inline(always)]
    pub fn behind(&self, chunks: &Chunks, state: State) -> u32 {
        let length = self.length.get(state);
        (chunks.each(state))
            .map(|chunk| length - self.pointer.get(chunk))
            .sum()
    }
}
