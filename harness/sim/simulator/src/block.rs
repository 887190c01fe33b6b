//! What a query answers: rows of one width, one after the other.

use std::slice::ChunksExact;

use crate::table::parts::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    width: usize,
    values: Vec<Value>,
}

impl Default for Block {
    fn default() -> Block {
        Block::new(1)
    }
}

impl Block {
    /// Without rows. `width`: one value at least.
    pub fn new(width: usize) -> Block {
        let values = Vec::new();
        Block { width, values }
    }

    /// The same, with space for so many.
    pub fn with_capacity(width: usize, rows: usize) -> Block {
        let values = Vec::with_capacity(width * rows);
        Block { width, values }
    }

    /// Of one row.
    pub fn row<const N: usize>(values: [Value; N]) -> Block {
        Block::from_iter([values])
    }

    /// The next value of a row.
    pub fn add(&mut self, value: Value) {
        self.values.push(value);
    }

    /// As many values as the block is wide.
    pub fn push(&mut self, row: impl IntoIterator<Item = Value>) {
        self.values.extend(row);
    }

    /// No columns where there is no row.
    pub fn width(&self) -> usize {
        if self.values.is_empty() {
            0
        } else {
            self.width
        }
    }

    pub fn rows(&self) -> ChunksExact<'_, Value> {
        self.values.chunks_exact(self.width)
    }
}

impl<const N: usize> FromIterator<[Value; N]> for Block {
    fn from_iter<I: IntoIterator<Item = [Value; N]>>(rows: I) -> Block {
        let values = rows.into_iter().flatten().collect();
        Block { width: N, values }
    }
}
