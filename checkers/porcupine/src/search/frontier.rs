//! Sets of configurations in which none dominates another (as far as is cheap to see).
//!
//! A configuration is a run of words: the state; a bit for each seat, set where its operation is
//! pending; a bit for each seat, set where it is used; a byte for each kind of operation that
//! never returns, with how many were used. So "dominates" is: equal state, and no bit and no
//! count more than the other.
//!
//! Where those kinds have prices, one more word is what was paid for all that were used, and
//! "dominates" is: equal state, no bit and no price more. Then what is kept need not be all that
//! matters, but it is far less.

use std::marker::PhantomData;

use rustc_hash::FxHashMap;

/// The words of a configuration.
pub(super) trait Config: Clone {
    /// So many, all zero.
    fn new(words: usize) -> Self;
    fn words(&self) -> &[u64];
    fn words_mut(&mut self) -> &mut [u64];
    /// How many of them there are where `words` are needed.
    fn room(words: usize) -> usize;
    /// Words of seats, where `seats` are needed.
    fn seats(seats: usize) -> usize;
}

/// Few words, copied without a loop; at most 64 seats.
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
    fn seats(_seats: usize) -> usize {
        1
    }
}

/// As many as there must be.
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

    fn seats(seats: usize) -> usize {
        seats
    }
}

/// Where things are in a configuration.
pub(super) struct Layout<C> {
    seats: usize,
    /// Words in all.
    pub words: usize,
    /// The last word is a price.
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
    pub fn new(seats: usize, kinds: usize, priced: bool) -> Self {
        let seats = seats.div_ceil(64).max(1);
        Self {
            seats,
            words: C::room(1 + 2 * seats + kinds.div_ceil(8) + usize::from(priced)),
            priced,
            of: PhantomData,
        }
    }

    /// Words of seats.
    #[inline(always)]
    pub fn seats(self) -> usize {
        C::seats(self.seats)
    }

    /// The words that tell configurations apart.
    fn telling(self, config: &C) -> &[u64] {
        if self.priced {
            &config.words()[..1 + 2 * self.seats()]
        } else {
            config.words()
        }
    }

    #[inline(always)]
    pub fn pending(self, seat: u32) -> (usize, u64) {
        (1 + self.word(seat), 1 << (seat % 64))
    }

    #[inline(always)]
    pub fn used(self, seat: u32) -> (usize, u64) {
        (1 + self.seats() + self.word(seat), 1 << (seat % 64))
    }

    #[inline(always)]
    fn word(self, seat: u32) -> usize {
        match self.seats() {
            1 => 0,
            _ => seat as usize / 64,
        }
    }

    /// The word and the shift of a kind's count.
    pub fn count(self, kind: usize) -> (usize, u32) {
        (1 + 2 * self.seats() + kind / 8, 8 * (kind as u32 % 8))
    }

    /// Whether `a` has no bit and no count more than `b`. Both have the same state.
    #[inline(always)]
    fn dominates(self, a: &C, b: &C) -> bool {
        let bits = 1 + 2 * self.seats();
        let ((a, a_counts), (b, b_counts)) = (a.words().split_at(bits), b.words().split_at(bits));
        let none_more = |(a, b): (&u64, &u64)| a & !b == 0;
        // Counts stay below 128, so that no byte borrows from the next.
        let no_count_more = |(a, b): (&u64, &u64)| ((b | HIGH_BITS) - a) & HIGH_BITS == HIGH_BITS;
        a[1..].iter().zip(&b[1..]).all(none_more)
            && if self.priced {
                a_counts.last() <= b_counts.last()
            } else {
                a_counts.iter().zip(b_counts).all(no_count_more)
            }
    }
}

/// Up to this many configurations a walk through all is faster than tables.
const FEW: usize = 16;
/// How many of the same state are compared; beyond, only equal ones are found.
const COMPARED: usize = 48;
const NONE: u32 = u32::MAX;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// A configuration that is kept.
#[derive(Clone)]
pub(super) struct Kept<C> {
    pub config: C,
    /// How it came about.
    pub trace: u32,
    /// Another one dominates it.
    dead: bool,
}

#[derive(Clone)]
pub(super) struct Frontier<C> {
    layout: Layout<C>,
    all: Vec<Kept<C>>,
    /// By configuration: the one before it that has its state.
    before: Vec<u32>,
    /// By state: the last configuration that has it.
    last: FxHashMap<u64, u32>,
    /// Open addressing by the hash of all words; equality is checked.
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

    /// How many were put in, with those that a later one dominates.
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

    /// Those that no other dominates.
    pub fn live(&self) -> impl Iterator<Item = &Kept<C>> {
        self.all.iter().filter(|kept| !kept.dead)
    }

    /// For changes that keep which configurations are equal.
    pub fn live_mut(&mut self) -> impl Iterator<Item = &mut Kept<C>> {
        self.all.iter_mut().filter(|kept| !kept.dead)
    }

    /// The configuration; none if another dominates it.
    pub fn get(&self, i: usize) -> Option<&Kept<C>> {
        Some(&self.all[i]).filter(|kept| !kept.dead)
    }

    /// Makes the tables forget, after changes; only for a frontier that is not put into any more.
    pub fn seal(&mut self) {
        if self.tabled() {
            self.last.clear();
            self.exact.clear();
            self.before.clear();
        }
    }

    /// Puts a configuration in, unless one that is there dominates it.
    #[inline]
    pub fn insert(&mut self, config: C, trace: u32) -> bool {
        let new = Kept {
            config,
            trace,
            dead: false,
        };
        if self.tabled() {
            self.insert_tabled(new)
        } else {
            self.insert_few(new)
        }
    }

    fn tabled(&self) -> bool {
        !self.exact.is_empty()
    }

    #[inline]
    fn insert_few(&mut self, new: Kept<C>) -> bool {
        let state = new.config.words()[0];
        for old in &mut self.all {
            if old.dead || old.config.words()[0] != state {
                continue;
            }
            if self.layout.dominates(&old.config, &new.config) {
                return false;
            }
            old.dead = self.layout.dominates(&new.config, &old.config);
        }
        self.all.push(new);
        if self.len() > FEW {
            self.grow_tables(64);
        }
        true
    }

    fn insert_tabled(&mut self, new: Kept<C>) -> bool {
        let mask = self.exact.len() - 1;
        let telling = self.layout.telling(&new.config);
        let mut slot = hash(telling) as usize & mask;
        while self.exact[slot] != NONE {
            let old = &mut self.all[self.exact[slot] as usize];
            if self.layout.telling(&old.config) == telling {
                if !self.layout.priced || new.config.words().last() >= old.config.words().last() {
                    return false;
                }
                old.dead = true;
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
            if !old.dead {
                if self.layout.dominates(&old.config, &new.config) {
                    return false;
                }
                old.dead = self.layout.dominates(&new.config, &old.config);
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

    fn grow_tables(&mut self, slots: usize) {
        let fresh = !self.tabled();
        self.exact.clear();
        self.exact.resize(slots, NONE);
        let telling = |i: usize| self.layout.telling(&self.all[i].config);
        for i in 0..self.all.len() {
            let own = telling(i);
            let mut slot = hash(own) as usize & (slots - 1);
            while self.exact[slot] != NONE
                && (!self.layout.priced || telling(self.exact[slot] as usize) != own)
            {
                slot = (slot + 1) & (slots - 1);
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
