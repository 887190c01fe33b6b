//! The result of a query: rows of one width, one after the other.

use std::cell::OnceCell;
use std::slice::ChunksExact;

use crate::table::parts::Value;

#[derive(Debug, Clone)]
pub struct Block {
    width: usize,
    values: Vec<Value>,
    written: OnceCell<Vec<u8>>,
}

impl PartialEq for Block {
    fn eq(&self, other: &Block) -> bool {
        (self.width, &self.values) == (other.width, &other.values)
    }
}

impl Eq for Block {}

impl Default for Block {
    fn default() -> Block {
        Block::new(1)
    }
}

impl Block {
    /// Creates an empty block. `width` is at least 1.
    pub fn new(width: usize) -> Block {
        Block::with_capacity(width, 0)
    }

    /// Creates an empty block with capacity for `rows`.
    pub fn with_capacity(width: usize, rows: usize) -> Block {
        Block {
            width,
            values: Vec::with_capacity(width * rows),
            written: OnceCell::new(),
        }
    }

    /// Creates a block of one row.
    pub fn row<const N: usize>(values: [Value; N]) -> Block {
        Block::from_iter([values])
    }

    /// Appends the next value of a row.
    pub fn add(&mut self, value: Value) {
        self.values.push(value);
    }

    /// Appends a row of `width` values.
    pub fn push(&mut self, row: impl IntoIterator<Item = Value>) {
        self.values.extend(row);
    }

    /// Returns the number of columns, 0 if there are no rows.
    pub fn width(&self) -> usize {
        if self.values.is_empty() {
            0
        } else {
            self.width
        }
    }

    /// Returns the block as a history contains it. `write` is called once, however often the same
    /// block is returned.
    pub fn written(&self, write: impl FnOnce(&Block) -> Vec<u8>) -> &[u8] {
        self.written.get_or_init(|| write(self))
    }

    pub fn rows(&self) -> ChunksExact<'_, Value> {
        self.values.chunks_exact(self.width)
    }
}

impl<const N: usize> FromIterator<[Value; N]> for Block {
    fn from_iter<I: IntoIterator<Item = [Value; N]>>(rows: I) -> Block {
        Block {
            width: N,
            values: rows.into_iter().flatten().collect(),
            written: OnceCell::new(),
        }
    }
}
