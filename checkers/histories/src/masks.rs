//! Sets of positions, a bit each.

use std::iter;

/// Grows as it needs; bits beyond its end are not set.
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

    pub fn add(&mut self, other: &Mask) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (own, more) in self.words.iter_mut().zip(&other.words) {
            *own |= more;
        }
    }

    /// Whether some bit of this is not in the other.
    pub fn exceeds(&self, other: &Mask) -> bool {
        self.less_words(other).any(|word| word != 0)
    }

    pub fn equals(&self, other: &Mask) -> bool {
        !self.exceeds(other) && !other.exceeds(self)
    }

    /// What is in this and not in the other.
    pub fn less(&self, other: &Mask) -> Mask {
        Mask {
            words: self.less_words(other).collect(),
        }
    }

    /// What is in both.
    pub fn and(&self, other: &Mask) -> Mask {
        let both = self.words.iter().zip(&other.words);
        Mask {
            words: both.map(|(a, b)| a & b).collect(),
        }
    }

    /// Ascending.
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

    fn less_words<'a>(&'a self, other: &'a Mask) -> impl Iterator<Item = u64> + 'a {
        let beyond = other.words.iter().copied().chain(iter::repeat(0));
        self.words
            .iter()
            .zip(beyond)
            .map(|(own, others)| own & !others)
    }
}
