//! Bit sets of positions.

use std::iter;

/// A bit set that grows on demand; bits beyond its end are not set.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    words: Vec<u64>,
}

impl Mask {
    pub fn set(&mut self, at: u32) {
        let word = at as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (at % 64);
    }

    pub fn has(&self, at: u32) -> bool {
        self.words
            .get(at as usize / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    pub fn insert_all(&mut self, other: &Mask) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (own, more) in self.words.iter_mut().zip(&other.words) {
            *own |= more;
        }
    }

    /// Whether some bit of this set is not in the other.
    pub fn exceeds(&self, other: &Mask) -> bool {
        self.difference_words(other).any(|word| word != 0)
    }

    pub fn equals(&self, other: &Mask) -> bool {
        !self.exceeds(other) && !other.exceeds(self)
    }

    /// The bits of this set that are not in the other.
    pub fn difference(&self, other: &Mask) -> Mask {
        Mask {
            words: self.difference_words(other).collect(),
        }
    }

    /// The bits that are in both sets.
    pub fn intersection(&self, other: &Mask) -> Mask {
        let both = self.words.iter().zip(&other.words);
        Mask {
            words: both.map(|(a, b)| a & b).collect(),
        }
    }

    /// The set bits in ascending order.
    pub fn positions(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            iter::from_fn(move || {
                let low = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(at as u32 * 64 + low)
            })
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    fn difference_words<'a>(&'a self, other: &'a Mask) -> impl Iterator<Item = u64> + 'a {
        let beyond = other.words.iter().copied().chain(iter::repeat(0));
        self.words
            .iter()
            .zip(beyond)
            .map(|(own, others)| own & !others)
    }
}
