//! Keeps sets of configurations in which none dominates another, as far as this is cheap to detect.
//!
//! A configuration is a sequence of words: the state; one bit per slot, set if the slot's operation
//! is pending; one bit per slot, set if it is used; for each kind of operation that never returns, a
//! count of one to four bytes of how many were used. One configuration dominates another if the states are
//! equal and no bit and no count is greater.
//!
//! If the kinds have prices, one more word is the sum paid for all used operations. One
//! configuration then dominates another if the states are equal and no bit and not the price is
//! greater. The kept configurations may then lack some that matter, but they are far fewer.

use std::marker::PhantomData;

use rustc_hash::FxHashMap;

/// The words of a configuration.
pub(super) trait Config: Clone {
    /// Creates a configuration of `words` zeros.
    fn new(words: usize) -> Self;
    fn words(&self) -> &[u64];
    fn words_mut(&mut self) -> &mut [u64];
    /// Returns the number of words of a configuration that needs `words`.
    fn room(words: usize) -> usize;
    /// Returns the number of words per slot bitmap if at least `slot_words` are needed.
    fn slot_words(slot_words: usize) -> usize;
}

/// Few words, which are copied without a loop; at most 64 slots.
impl<const N: usize> Config for [u64; N] {
    fn new(_words: usize) -> Self {
        [0; N]
    }

    #[inline(always)]
    fn words(&self) -> &[u64] {
        self
    }

    #[inline(always)]
    fn words_mut(&mut self) -> &mut [u64] {
        self
    }

    fn room(_words: usize) -> usize {
        N
    }

    #[inline(always)]
    fn slot_words(_seats: usize) -> usize {
        1
    }
}

/// Any number of words.
impl Config for Box<[u64]> {
    fn new(words: usize) -> Self {
        vec![0; words].into()
    }

    fn words(&self) -> &[u64] {
        self
    }

    fn words_mut(&mut self) -> &mut [u64] {
        self
    }

    fn room(words: usize) -> usize {
        words
    }

    fn slot_words(slot_words: usize) -> usize {
        slot_words
    }
}

/// The position of each part in a configuration.
pub(super) struct Layout<C> {
    slot_words: usize,
    /// Number of bits of a count.
    count_bits: u32,
    /// Total number of words.
    pub words: usize,
    /// Whether the last word is a price.
    pub priced: bool,
    of: PhantomData<C>,
}

impl<C> Clone for Layout<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Layout<C> {}

impl<C: Config> Layout<C> {
    /// `lost` are the operations of each kind that never returns.
    pub fn new(slots: usize, lost: &[Vec<u32>], priced: bool) -> Self {
        let slot_words = slots.div_ceil(64).max(1);
        let words = 1 + 2 * slot_words + count_words(lost) + usize::from(priced);
        Self {
            slot_words,
            count_bits: count_bits(lost),
            words: C::room(words),
            priced,
            of: PhantomData,
        }
    }

    /// Number of words per slot bitmap.
    #[inline(always)]
    pub fn slot_words(self) -> usize {
        C::slot_words(self.slot_words)
    }

    /// Returns the words that identify a configuration.
    fn identity(self, config: &C) -> &[u64] {
        if self.priced {
            &config.words()[..1 + 2 * self.slot_words()]
        } else {
            config.words()
        }
    }

    #[inline(always)]
    pub fn pending(self, slot: u32) -> (usize, u64) {
        (1 + self.word(slot), 1 << (slot % 64))
    }

    #[inline(always)]
    pub fn used(self, slot: u32) -> (usize, u64) {
        (1 + self.slot_words() + self.word(slot), 1 << (slot % 64))
    }

    #[inline(always)]
    fn word(self, slot: u32) -> usize {
        match self.slot_words() {
            1 => 0,
            _ => slot as usize / 64,
        }
    }

    /// Returns the place of a kind's count.
    #[inline(always)]
    pub fn count(self, kind: usize) -> Count {
        let each = 64 / self.count_bits;
        Count {
            word: 1 + 2 * self.slot_words() + kind / each as usize,
            shift: self.count_bits * (kind as u32 % each),
            mask: (1 << self.count_bits) - 1,
        }
    }

    /// Whether no bit and no count of `a` is greater than in `b`. Both have the same state.
    #[inline(always)]
    fn dominates(self, a: &C, b: &C) -> bool {
        let bits = 1 + 2 * self.slot_words();
        let ((a, a_counts), (b, b_counts)) = (a.words().split_at(bits), b.words().split_at(bits));
        let none_more = |(a, b): (&u64, &u64)| a & !b == 0;
        let high = match self.count_bits {
            8 => 0x8080_8080_8080_8080,
            16 => 0x8000_8000_8000_8000,
            _ => 0x8000_0000_8000_0000u64,
        };
        // Counts lack the highest bit, so none borrows from the next.
        let no_count_more = |(a, b): (&u64, &u64)| ((b | high) - a) & high == high;
        a[1..].iter().zip(&b[1..]).all(none_more)
            && if self.priced {
                a_counts.last() <= b_counts.last()
            } else {
                a_counts.iter().zip(b_counts).all(no_count_more)
            }
    }
}

/// The place of a kind's count in a configuration.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub word: usize,
    pub shift: u32,
    mask: u64,
}

impl Count {
    #[inline(always)]
    pub fn of(self, words: &[u64]) -> u64 {
        words[self.word] >> self.shift & self.mask
    }
}

/// Returns the number of bits in which any count fits without the highest bit.
fn count_bits(lost: &[Vec<u32>]) -> u32 {
    match lost.iter().map(Vec::len).max().unwrap_or(0) {
        ..0x80 => 8,
        0x80..0x8000 => 16,
        _ => 32,
    }
}

/// Returns the number of words that the counts of the kinds take.
pub(super) fn count_words(lost: &[Vec<u32>]) -> usize {
    lost.len().div_ceil(64 / count_bits(lost) as usize)
}

/// Up to this number of configurations, comparing with all is faster than tables.
const FEW: usize = 16;
/// Number of configurations of the same state that are compared; among more, only equal ones are
/// found.
const COMPARED: usize = 48;
const NONE: u32 = u32::MAX;

/// A configuration in a frontier.
#[derive(Clone)]
pub(super) struct Entry<C> {
    pub config: C,
    /// The trace of how it arose.
    pub trace: u32,
    /// Whether another configuration dominates it.
    dominated: bool,
}

#[derive(Clone)]
pub(super) struct Frontier<C> {
    layout: Layout<C>,
    all: Vec<Entry<C>>,
    /// By configuration: its predecessor of the same state.
    before: Vec<u32>,
    /// By state: the last configuration.
    last: FxHashMap<u64, u32>,
    /// Open addressing by the hash of the identifying words; equality is checked.
    exact: Vec<u32>,
}

impl<C: Config> Frontier<C> {
    pub fn new(layout: Layout<C>) -> Self {
        Self {
            layout,
            all: Vec::new(),
            before: Vec::new(),
            last: FxHashMap::default(),
            exact: Vec::new(),
        }
    }

    /// Number of inserted configurations, dominated ones included.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn clear(&mut self) {
        self.seal();
        self.all.clear();
    }

    /// Iterates over the configurations that no other dominates.
    pub fn live(&self) -> impl Iterator<Item = &Entry<C>> {
        self.all.iter().filter(|entry| !entry.dominated)
    }

    /// Iterates for changes that keep equal configurations equal and different ones different.
    pub fn live_mut(&mut self) -> impl Iterator<Item = &mut Entry<C>> {
        self.all.iter_mut().filter(|entry| !entry.dominated)
    }

    /// Returns the configuration; `None` if another dominates it.
    pub fn get(&self, i: usize) -> Option<&Entry<C>> {
        Some(&self.all[i]).filter(|entry| !entry.dominated)
    }

    /// Drops the tables after changes. The frontier must not be inserted into any more.
    pub fn seal(&mut self) {
        if self.tabled() {
            self.last.clear();
            self.exact.clear();
            self.before.clear();
        }
    }

    /// Inserts a configuration unless another dominates it.
    #[inline]
    pub fn insert(&mut self, config: C, trace: u32) -> bool {
        let new = Entry {
            config,
            trace,
            dominated: false,
        };
        if self.tabled() {
            self.insert_tabled(new)
        } else {
            self.insert_comparing_all(new)
        }
    }

    fn tabled(&self) -> bool {
        !self.exact.is_empty()
    }

    #[inline]
    fn insert_comparing_all(&mut self, new: Entry<C>) -> bool {
        let state = new.config.words()[0];
        for old in &mut self.all {
            if old.dominated || old.config.words()[0] != state {
                continue;
            }
            if self.layout.dominates(&old.config, &new.config) {
                return false;
            }
            old.dominated = self.layout.dominates(&new.config, &old.config);
        }
        self.all.push(new);
        if self.len() > FEW {
            self.grow_tables(64);
        }
        true
    }

    fn insert_tabled(&mut self, new: Entry<C>) -> bool {
        let mask = self.exact.len() - 1;
        let identity = self.layout.identity(&new.config);
        let mut slot = hash(identity) as usize & mask;
        while self.exact[slot] != NONE {
            let old = &mut self.all[self.exact[slot] as usize];
            if self.layout.identity(&old.config) == identity {
                if !self.layout.priced || new.config.words().last() >= old.config.words().last() {
                    return false;
                }
                old.dominated = true;
                break;
            }
            slot = (slot + 1) & mask;
        }
        let state = new.config.words()[0];
        let mut i = self.last.get(&state).copied().unwrap_or(NONE);
        for _ in 0..COMPARED {
            if i == NONE {
                break;
            }
            let old = &mut self.all[i as usize];
            if !old.dominated {
                if self.layout.dominates(&old.config, &new.config) {
                    return false;
                }
                old.dominated = self.layout.dominates(&new.config, &old.config);
            }
            i = self.before[i as usize];
        }
        let i = self.len() as u32;
        self.all.push(new);
        self.exact[slot] = i;
        self.before.push(self.last.insert(state, i).unwrap_or(NONE));
        if 2 * self.len() > self.exact.len() {
            self.grow_tables(2 * self.exact.len());
        }
        true
    }

    fn grow_tables(&mut self, capacity: usize) {
        let fresh = !self.tabled();
        self.exact.clear();
        self.exact.resize(capacity, NONE);
        let identity = |i: usize| self.layout.identity(&self.all[i].config);
        for i in 0..self.all.len() {
            let own = identity(i);
            let mut slot = hash(own) as usize & (capacity - 1);
            while self.exact[slot] != NONE
                && (!self.layout.priced || identity(self.exact[slot] as usize) != own)
            {
                slot = (slot + 1) & (capacity - 1);
            }
            self.exact[slot] = i as u32;
            if fresh {
                let state = self.all[i].config.words()[0];
                self.before
                    .push(self.last.insert(state, i as u32).unwrap_or(NONE));
            }
        }
    }
}

fn hash(words: &[u64]) -> u64 {
    let mix = |h: u64, &w: &u64| {
        let product = u128::from(h ^ w).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        (product ^ (product >> 64)) as u64
    };
    let h = words.iter().fold(0x243F_6A88_85A3_08D3, mix);
    h ^ (h >> 32)
}
