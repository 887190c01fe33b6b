//! Groups rows by object.

use std::ops::Index;

/// The rows of each object, ascending, one object after the other.
#[derive(Default)]
pub struct Partition {
    /// By row: its object; empty if there is only one object.
    of: Vec<u32>,
    rows: Vec<u32>,
    /// By object: the index in `rows` at which its rows begin; then the number of rows.
    starts: Vec<u32>,
}

impl Partition {
    /// Groups rows; `of` gives the object of each row. O(n).
    pub fn new(of: Vec<u32>, objects: usize) -> Self {
        if objects == 1 {
            return Self::whole(of.len());
        }
        let mut starts = vec![0; objects + 1];
        for &object in &of {
            starts[object as usize + 1] += 1;
        }
        for object in 0..objects {
            starts[object + 1] += starts[object];
        }
        let mut ends = starts.clone();
        let mut rows = vec![0; of.len()];
        for (row, &object) in (0u32..).zip(&of) {
            let end = &mut ends[object as usize];
            rows[*end as usize] = row;
            *end += 1;
        }
        Self { of, rows, starts }
    }

    /// Assigns all rows to one object.
    pub fn whole(rows: usize) -> Self {
        Self {
            of: Vec::new(),
            rows: (0..rows as u32).collect(),
            starts: vec![0, rows as u32],
        }
    }

    /// Assigns these rows, ascending, to one object.
    pub fn single(rows: Vec<u32>) -> Self {
        Self {
            of: Vec::new(),
            starts: vec![0, rows.len() as u32],
            rows,
        }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the row's object.
    #[inline]
    pub fn of(&self, row: usize) -> usize {
        self.of.get(row).map_or(0, |&object| object as usize)
    }

    /// Returns the index at which the rows of each object begin when the objects are stored one
    /// after the other.
    pub fn starts(&self) -> &[u32] {
        &self.starts[..self.len()]
    }

    /// Iterates over the rows of each object.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|object| &self[object])
    }
}

impl Index<usize> for Partition {
    type Output = [u32];

    fn index(&self, object: usize) -> &[u32] {
        &self.rows[self.starts[object] as usize..self.starts[object + 1] as usize]
    }
}
