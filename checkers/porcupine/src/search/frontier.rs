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

use rustc_hash::FxHashMap;

/// Where things are in a configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Words of seats.
    pub seats: usize,
    /// Words in all.
    pub words: usize,
    /// The last word is a price.
    pub priced: bool,
}

impl Layout {
    pub fn new(seats: usize, kinds: usize, priced: bool) -> Self {
        let words = seats.div_ceil(64).max(1);
        Self {
            seats: words,
            words: 1 + 2 * words + kinds.div_ceil(8) + usize::from(priced),
            priced,
        }
    }

    /// The words that tell configurations apart.
    fn telling(self, config: &[u64]) -> &[u64] {
        if self.priced {
            &config[..1 + 2 * self.seats]
        } else {
            config
        }
    }

    pub fn pending(&self, seat: u32) -> (usize, u64) {
        (1 + seat as usize / 64, 1 << (seat % 64))
    }

    pub fn used(&self, seat: u32) -> (usize, u64) {
        (1 + self.seats + seat as usize / 64, 1 << (seat % 64))
    }

    /// The word and the shift of a kind's count.
    pub fn count(&self, kind: usize) -> (usize, u32) {
        (1 + 2 * self.seats + kind / 8, 8 * (kind as u32 % 8))
    }
}

/// Up to this many configurations a walk through all is faster than tables.
const FEW: usize = 16;
/// How many of the same state are compared; beyond, only equal ones are found.
const COMPARED: usize = 48;
const NONE: u32 = u32::MAX;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// A copy of a configuration, in room that was spared.
pub(super) fn copy(spare: &mut Vec<Vec<u64>>, config: &[u64]) -> Vec<u64> {
    let mut copy = spare.pop().unwrap_or_default();
    copy.clear();
    copy.extend_from_slice(config);
    copy
}

pub(super) struct Frontier {
    layout: Layout,
    words: Vec<u64>,
    /// By configuration: how it came about.
    traces: Vec<u32>,
    dead: Vec<bool>,
    /// By configuration: the one before it that has its state.
    before: Vec<u32>,
    /// By state: the last configuration that has it.
    last: FxHashMap<u64, u32>,
    /// Open addressing by the hash of all words; equality is checked.
    exact: Vec<u32>,
}

impl Frontier {
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            words: Vec::new(),
            traces: Vec::new(),
            dead: Vec::new(),
            before: Vec::new(),
            last: FxHashMap::default(),
            exact: Vec::new(),
        }
    }

    /// How many were put in, with those that a later one dominates.
    pub fn len(&self) -> usize {
        self.traces.len()
    }

    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    pub fn bytes(&self) -> usize {
        8 * self.words.capacity() + 9 * self.traces.capacity() + 4 * self.exact.capacity()
    }

    pub fn clear(&mut self) {
        if self.tabled() {
            self.last.clear();
            self.exact.clear();
            self.before.clear();
        }
        self.words.clear();
        self.traces.clear();
        self.dead.clear();
    }

    /// The configuration; none if another dominates it.
    pub fn get(&self, i: usize) -> Option<(&[u64], u32)> {
        if self.dead[i] {
            return None;
        }
        Some((self.at(i), self.traces[i]))
    }

    /// For changes that keep which configurations are equal.
    pub fn get_mut(&mut self, i: usize) -> Option<(&mut [u64], &mut u32)> {
        if self.dead[i] {
            return None;
        }
        let n = self.layout.words;
        Some((&mut self.words[i * n..(i + 1) * n], &mut self.traces[i]))
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
    pub fn insert(&mut self, new: &[u64], trace: u32) -> bool {
        if self.tabled() {
            self.insert_tabled(new, trace)
        } else {
            self.insert_few(new, trace)
        }
    }

    fn tabled(&self) -> bool {
        !self.exact.is_empty()
    }

    fn at(&self, i: usize) -> &[u64] {
        let n = self.layout.words;
        &self.words[i * n..(i + 1) * n]
    }

    fn push(&mut self, new: &[u64], trace: u32) {
        self.words.extend_from_slice(new);
        self.traces.push(trace);
        self.dead.push(false);
    }

    fn insert_few(&mut self, new: &[u64], trace: u32) -> bool {
        for i in 0..self.len() {
            if self.dead[i] || self.at(i)[0] != new[0] {
                continue;
            }
            if dominates(self.layout, self.at(i), new) {
                return false;
            }
            if dominates(self.layout, new, self.at(i)) {
                self.dead[i] = true;
            }
        }
        self.push(new, trace);
        if self.len() > FEW {
            self.grow_tables(64);
        }
        true
    }

    fn insert_tabled(&mut self, new: &[u64], trace: u32) -> bool {
        let mask = self.exact.len() - 1;
        let telling = self.layout.telling(new);
        let mut slot = hash(telling) as usize & mask;
        while self.exact[slot] != NONE {
            let at = self.exact[slot] as usize;
            if self.layout.telling(self.at(at)) == telling {
                if !self.layout.priced || new.last() >= self.at(at).last() {
                    return false;
                }
                self.dead[at] = true;
                break;
            }
            slot = (slot + 1) & mask;
        }
        let mut i = self.last.get(&new[0]).copied().unwrap_or(NONE);
        for _ in 0..COMPARED {
            if i == NONE {
                break;
            }
            let at = i as usize;
            if !self.dead[at] {
                if dominates(self.layout, self.at(at), new) {
                    return false;
                }
                if dominates(self.layout, new, self.at(at)) {
                    self.dead[at] = true;
                }
            }
            i = self.before[at];
        }
        let i = self.len() as u32;
        self.push(new, trace);
        self.exact[slot] = i;
        self.before
            .push(self.last.insert(new[0], i).unwrap_or(NONE));
        if 2 * self.len() > self.exact.len() {
            self.grow_tables(2 * self.exact.len());
        }
        true
    }

    fn grow_tables(&mut self, slots: usize) {
        let fresh = !self.tabled();
        self.exact.clear();
        self.exact.resize(slots, NONE);
        for i in 0..self.len() {
            let telling = self.layout.telling(self.at(i));
            let mut slot = hash(telling) as usize & (slots - 1);
            while self.exact[slot] != NONE
                && (!self.layout.priced
                    || self.layout.telling(self.at(self.exact[slot] as usize)) != telling)
            {
                slot = (slot + 1) & (slots - 1);
            }
            self.exact[slot] = i as u32;
            if fresh {
                let state = self.at(i)[0];
                self.before
                    .push(self.last.insert(state, i as u32).unwrap_or(NONE));
            }
        }
    }
}

/// Whether `a` has no bit and no count more than `b`. Both have the same state.
fn dominates(layout: Layout, a: &[u64], b: &[u64]) -> bool {
    let bits = 1 + 2 * layout.seats;
    let none_more = |(a, b): (&u64, &u64)| a & !b == 0;
    // Counts stay below 128, so that no byte borrows from the next.
    let no_count_more = |(a, b): (&u64, &u64)| ((b | HIGH_BITS) - a) & HIGH_BITS == HIGH_BITS;
    a[1..bits].iter().zip(&b[1..bits]).all(none_more)
        && if layout.priced {
            a.last() <= b.last()
        } else {
            a[bits..].iter().zip(&b[bits..]).all(no_count_more)
        }
}

fn hash(words: &[u64]) -> u64 {
    let mix = |h: u64, &w: &u64| {
        let product = u128::from(h ^ w) * 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
        (product ^ (product >> 64)) as u64
    };
    let h = words.iter().fold(0x243F_6A88_85A3_08D3, mix);
    h ^ (h >> 32)
}
