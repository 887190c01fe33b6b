//! The starts of some texts, each of them a number.

use rustc_hash::{FxHashMap, FxHashSet};

/// The number of every text that none of the texts starts with.
pub const NONE: u64 = u64::MAX;

/// Knows every start of some texts, without a copy of any: a start is the first of the sorted texts
/// that begins with it, and its length.
#[derive(Default)]
pub struct Starts<'a> {
    /// Sorted, each text once.
    texts: Vec<&'a [u8]>,
    /// By text: how many bytes it begins with as the text before it does.
    shared: Vec<usize>,
    /// By start and number of a piece: what [`Starts::longer`] found.
    known: FxHashMap<(u64, u32), u64>,
}

/// The number of answers that are kept.
const KNOWN_MOST: usize = 1 << 16;

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
            known: FxHashMap::default(),
        }
    }

    /// The number of a text.
    pub fn of(&self, text: &[u8]) -> u64 {
        self.find(0, &[], text)
    }

    /// The number of a start and then a piece, which has the number `name` among all pieces.
    pub fn longer(&mut self, start: u64, name: u32, piece: &[u8]) -> u64 {
        if start == NONE {
            return NONE;
        }
        if let Some(&found) = self.known.get(&(start, name)) {
            return found;
        }
        let (first, length) = (start as usize >> 32, start as usize & 0xffff_ffff);
        let found = self.find(first, &self.texts[first][..length], piece);
        if self.known.len() == KNOWN_MOST {
            self.known.clear();
        }
        self.known.insert((start, name), found);
        found
    }

    /// The number of `before` and then `piece`, where no text before the place `first` begins so.
    fn find(&self, first: usize, before: &[u8], piece: &[u8]) -> u64 {
        fn halves<'t>(text: &'t [u8], before: &[u8]) -> (&'t [u8], &'t [u8]) {
            text.split_at(text.len().min(before.len()))
        }
        let less = |text: &[u8]| halves(text, before) < (before, piece);
        // What is looked for is most often near.
        let (mut from, mut step) = (first, 1);
        while self.texts.get(from + step - 1).is_some_and(|t| less(t)) {
            from += step;
            step *= 2;
        }
        let to = self.texts.len().min(from + step);
        let place = from + self.texts[from..to].partition_point(|text| less(text));
        let begins_so = |text: &&[u8]| {
            let (head, tail) = halves(text, before);
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

    /// The numbers of the texts that are one of the `wholes` and then any of the pieces, each as often
    /// as need be. What texts have in common is looked at once.
    pub fn made_of(&self, wholes: &FxHashSet<&[u8]>, pieces: &FxHashSet<&[u8]>) -> FxHashSet<u64> {
        let (whole_lengths, piece_lengths) = (lengths(wholes), lengths(pieces));
        let longest = piece_lengths.last().copied().unwrap_or(0);
        let mut made = FxHashSet::default();
        // By length of a start of the text in hand: whether it is made of them.
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

/// Ascending, each once.
fn lengths(texts: &FxHashSet<&[u8]>) -> Vec<usize> {
    let mut lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}
