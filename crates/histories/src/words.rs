//! Interns the texts that a history repeats.

use rustc_hash::FxHashMap;

/// The index of an interned text; `NONE` if there is none.
pub type Word = u32;
pub const NONE: Word = Word::MAX;

/// Interned JSON strings in their raw form, with quotes.
#[derive(Default)]
pub struct Words {
    known: FxHashMap<Box<[u8]>, Word>,
    texts: Vec<Box<[u8]>>,
}

impl Words {
    pub fn word(&mut self, raw: &[u8]) -> Word {
        if let Some(&known) = self.known.get(raw) {
            return known;
        }
        let word = self.texts.len() as Word;
        self.texts.push(raw.into());
        self.known.insert(raw.into(), word);
        word
    }

    /// Returns the word of a text, if it is interned.
    pub fn find(&self, text: &str) -> Option<Word> {
        self.known
            .get(serde_json::to_vec(text).ok()?.as_slice())
            .copied()
    }

    /// Returns the decoded text; `None` for `NONE` and for what is not a JSON string.
    pub fn text(&self, word: Word) -> Option<String> {
        serde_json::from_slice(self.raw(word)?).ok()
    }

    /// Returns the raw form; `None` for `NONE`.
    pub fn raw(&self, word: Word) -> Option<&[u8]> {
        self.texts.get(word as usize).map(AsRef::as_ref)
    }

    /// Returns all decoded texts in order.
    pub fn all(&self) -> Vec<String> {
        let words = 0..self.texts.len() as Word;
        words
            .map(|word| self.text(word).unwrap_or_default())
            .collect()
    }
}
