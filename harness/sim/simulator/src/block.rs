//! What a query answers: rows of one width, one after the other.

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
    /// Without rows. `width`: one value at least.
    pub fn new(width: usize) -> Block {
        Block::with_capacity(width, 0)
    }

    /// The same, with space for so many.
    pub fn with_capacity(width: usize, rows: usize) -> Block {
        Block {
            width,
            values: Vec::with_capacity(width * rows),
            written: OnceCell::new(),
        }
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

    /// As a history has it, which is written once, however often the same block is answered.
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
