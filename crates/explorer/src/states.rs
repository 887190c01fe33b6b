//! Stores every found state once, in the order in which they were found.

use hashbrown::hash_table::{Entry, HashTable};

use crate::fields::State;

/// The representation of a stored state.
pub trait Word: Copy + Eq {
    const BITS: u32;
    fn pack(state: State) -> Self;
    fn unpack(self) -> State;
    fn hash(self) -> u64;
}

impl Word for u64 {
    const BITS: u32 = 64;

    #[inline(always)]
    fn pack(state: State) -> Self {
        state as u64
    }

    #[inline(always)]
    fn unpack(self) -> State {
        State::from(self)
    }

    /// The finalizer of MurmurHash3. Every bit of the state changes every bit of the result, as the
    /// table requires, which takes the place from the low bits and the tag from the high ones.
    #[inline(always)]
    fn hash(self) -> u64 {
        let mut h = self;
        h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        h ^ (h >> 33)
    }
}

impl Word for u128 {
    const BITS: u32 = 128;

    #[inline(always)]
    fn pack(state: State) -> Self {
        state
    }

    #[inline(always)]
    fn unpack(self) -> State {
        self
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        ((self as u64).hash() ^ (self >> 64) as u64).hash()
    }
}

/// The found states, numbered from 0. Equality decides, never the hash alone.
pub struct States<W> {
    /// Blocks of fixed size, so that growth never moves states.
    blocks: Vec<Vec<(W, u32)>>,
    count: u32,
    table: HashTable<u32>,
    bytes_max: usize,
}

const BLOCK_BITS: u32 = 16;
const BLOCK: usize = 1 << BLOCK_BITS;
/// Size of a place in the table: a number and a byte of tag.
const PLACE: usize = size_of::<u32>() + 1;

/// There is no room for another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<W: Word> States<W> {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            blocks: Vec::new(),
            count: 0,
            table: HashTable::new(),
            bytes_max,
        }
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    #[inline(always)]
    pub fn get(&self, number: u32) -> State {
        self.row(number).0.unpack()
    }

    /// Returns the state from which this one was found; the first state is its own parent.
    pub fn parent(&self, number: u32) -> u32 {
        self.row(number).1
    }

    #[inline(always)]
    fn row(&self, number: u32) -> &(W, u32) {
        &self.blocks[(number >> BLOCK_BITS) as usize][number as usize & (BLOCK - 1)]
    }

    /// Stores a state; returns whether it is new.
    #[inline(always)]
    pub fn insert(&mut self, state: State, parent: u32) -> Result<bool, Full> {
        let word = W::pack(state);
        if self.table.len() == self.table.capacity() {
            self.room_to_grow()?;
        }
        let blocks = &self.blocks;
        let at = |n: u32| blocks[(n >> BLOCK_BITS) as usize][n as usize & (BLOCK - 1)].0;
        match self
            .table
            .entry(word.hash(), |&n| at(n) == word, |&n| at(n).hash())
        {
            Entry::Occupied(_) => return Ok(false),
            Entry::Vacant(free) => free.insert(self.count),
        };
        if self.count as usize & (BLOCK - 1) == 0 {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        self.blocks
            .last_mut()
            .expect("a block was added")
            .push((word, parent));
        self.count += 1;
        Ok(true)
    }

    /// Checks that the table may double. Meanwhile the old table exists as well.
    #[cold]
    fn room_to_grow(&self) -> Result<(), Full> {
        let places = (self.table.capacity() + 1) * 8 / 7;
        let after = self.bytes() + 2 * places * PLACE;
        // The rows grow until the table grows again.
        let rows = places * size_of::<(W, u32)>();
        if after + rows > self.bytes_max || self.count as usize + places > u32::MAX as usize {
            return Err(Full);
        }
        Ok(())
    }

    /// Returns the bytes in use.
    pub fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK * size_of::<(W, u32)>() + self.table.allocation_size()
    }
}
