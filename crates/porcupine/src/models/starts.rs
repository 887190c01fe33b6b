//! Numbers the prefixes of some texts.

use rustc_hash::{FxHashMap, FxHashSet};

/// The number of every text that is not a prefix of any of the texts.
pub const NONE: u64 = u64::MAX;

/// Knows every prefix of some texts without copying any: a prefix is given by the first of the
/// sorted texts that begins with it, and by its length.
#[derive(Default)]
pub struct Starts<'a> {
    /// Sorted, without duplicates.
    texts: Vec<&'a [u8]>,
    /// By text: the length of the prefix that it shares with its predecessor.
    shared: Vec<usize>,
    /// By prefix and number of a piece: the result of [`Starts::longer`].
    cache: FxHashMap<(u64, u32), u64>,
}

/// Maximum number of results that are cached.
const CACHE_MAX: usize = 1 << 16;

impl<'a> Starts<'a> {
    /// O(n log n) comparisons of texts.
    pub fn new(mut texts: Vec<&'a [u8]>) -> Self {
        texts.sort_unstable();
        texts.dedup();
        let pairs = texts.windows(2);
        let shared = pairs.map(|pair| {
            let both = pair[0].iter().zip(pair[1]);
            both.take_while(|(a, b)| a == b).count()
        });
        Self {
            shared: std::iter::once(0).chain(shared).collect(),
            texts,
            cache: FxHashMap::default(),
        }
    }

    /// Returns the number of a text.
    pub fn of(&self, text: &[u8]) -> u64 {
        self.find(0, &[], text)
    }

    /// Returns the number of a prefix followed by a piece, which has the number `name` among all
    /// pieces.
    pub fn longer(&mut self, start: u64, name: u32, piece: &[u8]) -> u64 {
        if start == NONE {
            return NONE;
        }
        if let Some(&found) = self.cache.get(&(start, name)) {
            return found;
        }
        let (first, length) = (start as usize >> 32, start as usize & 0xffff_ffff);
        let found = self.find(first, &self.texts[first][..length], piece);
        if self.cache.len() == CACHE_MAX {
            self.cache.clear();
        }
        self.cache.insert((start, name), found);
        found
    }

    /// Returns the number of `before` followed by `piece`. No text before index `first` begins so.
    fn find(&self, first: usize, before: &[u8], piece: &[u8]) -> u64 {
        fn split<'t>(text: &'t [u8], before: &[u8]) -> (&'t [u8], &'t [u8]) {
            text.split_at(text.len().min(before.len()))
        }
        let less = |text: &[u8]| split(text, before) < (before, piece);
        // Gallop, because the text is usually near.
        let (mut from, mut step) = (first, 1);
        while self.texts.get(from + step - 1).is_some_and(|t| less(t)) {
            from += step;
            step *= 2;
        }
        let to = self.texts.len().min(from + step);
        let place = from + self.texts[from..to].partition_point(|text| less(text));
        let begins_so = |text: &&[u8]| {
            let (head, tail) = split(text, before);
            head == before && tail.starts_with(piece)
        };
        match self
            .texts
            .get(place)
            .copied()
            .filter(|text| begins_so(text))
        {
            Some(_) => (place as u64) << 32 | (before.len() + piece.len()) as u64,
            None => NONE,
        }
    }

    /// Returns the numbers of the texts that consist of one of the `wholes` followed by any of the
    /// pieces, each any number of times. Shared prefixes are examined once.
    pub fn made_of(&self, wholes: &FxHashSet<&[u8]>, pieces: &FxHashSet<&[u8]>) -> FxHashSet<u64> {
        let (whole_lengths, piece_lengths) = (lengths(wholes), lengths(pieces));
        let longest = piece_lengths.last().copied().unwrap_or(0);
        let mut made = FxHashSet::default();
        // By length of a prefix of the current text: whether it consists of them.
        let mut reached: Vec<bool> = Vec::new();
        for (place, (text, &shared)) in self.texts.iter().zip(&self.shared).enumerate() {
            let old = reached.len().min(shared + 1);
            reached.truncate(old);
            reached.resize(text.len() + 1, false);
            for &length in &whole_lengths {
                if length >= old && text.get(..length).is_some_and(|t| wholes.contains(t)) {
                    reached[length] = true;
                }
            }
            for from in old.saturating_sub(longest)..text.len() {
                if !reached[from] {
                    continue;
                }
                for to in piece_lengths.iter().map(|length| from + length) {
                    if to >= old && text.get(from..to).is_some_and(|t| pieces.contains(t)) {
                        reached[to] = true;
                    }
                }
            }
            if reached[text.len()] {
                made.insert((place as u64) << 32 | text.len() as u64);
            }
        }
        made
    }
}

/// Returns the lengths of the texts, ascending, without duplicates.
fn lengths(texts: &FxHashSet<&[u8]>) -> Vec<usize> {
    let mut lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}
