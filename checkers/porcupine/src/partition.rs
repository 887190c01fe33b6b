//! Which rows are about which object.

use std::ops::Index;

/// The rows of every object, ascending, one object after the other.
#[derive(Default)]
pub struct Partition {
    /// By row: its object; empty where there is one object.
    of: Vec<u32>,
    rows: Vec<u32>,
    /// By object: where in `rows` its own begin, and where the last one's end.
    starts: Vec<u32>,
}

impl Partition {
    /// By row: its object, of so many. O(n).
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

    /// All of so many rows are about one object.
    pub fn whole(rows: usize) -> Self {
        Self {
            of: Vec::new(),
            rows: (0..rows as u32).collect(),
            starts: vec![0, rows as u32],
        }
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The row's object.
    #[inline]
    pub fn of(&self, row: usize) -> usize {
        self.of.get(row).map_or(0, |&object| object as usize)
    }

    /// Where the rows of each object begin, when they lie one object after the other.
    pub fn starts(&self) -> &[u32] {
        &self.starts[..self.len()]
    }

    /// The rows of each object.
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
