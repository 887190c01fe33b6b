//! Reads operations that are given as Arrow buffers: the inverse of [`crate::arrow`].

use std::str;

use crate::history::{History, Refused};
use crate::journal;
use crate::lines::{is_object, Kind, Line, Value, NEMESIS};
use crate::words::{Word, Words, NONE};

/// A column as Arrow has it. All parts but the data may be empty: then no entry is null, or all
/// have one size. Without data every entry is null.
#[derive(Default)]
pub struct Column<'a> {
    pub validity: &'a [u8],
    pub offsets: &'a [u8],
    pub data: &'a [u8],
}

impl<'a> Column<'a> {
    /// Returns nothing if the entry is null, or lies outside of the buffers.
    fn number<const N: usize>(&self, row: usize) -> Option<[u8; N]> {
        let bit = self.validity.get(row / 8).copied();
        let is_valid = bit.map_or(self.validity.is_empty(), |byte| byte >> (row % 8) & 1 == 1);
        let bytes = self.data.get(row * N..)?.first_chunk()?;
        is_valid.then_some(*bytes)
    }

    fn int(&self, row: usize) -> Option<i64> {
        self.number(row).map(i64::from_le_bytes)
    }

    /// Returns the bytes of an entry whose elements have `size` bytes.
    fn bytes(&self, row: usize, size: usize) -> Option<&'a [u8]> {
        let ends = Column {
            data: self.offsets,
            offsets: &[],
            ..*self
        };
        let from = i32::from_le_bytes(ends.number(row)?) as usize;
        let offsets = Column {
            validity: &[],
            ..ends
        };
        let to = i32::from_le_bytes(offsets.number(row + 1)?) as usize;
        self.data.get(from * size..to * size)
    }

    fn text(&self, row: usize) -> Option<&'a str> {
        str::from_utf8(self.bytes(row, 1)?).ok()
    }

    /// Returns the word to which the row's number refers.
    fn word<'b, T>(&self, row: usize, words: &'b [T]) -> Option<&'b T> {
        let number = i32::from_le_bytes(self.number(row)?);
        words.get(usize::try_from(number).ok()?)
    }
}

/// The columns of operations. The columns of words hold indices into their texts.
pub struct Batch<'a> {
    pub index: Column<'a>,
    pub process: Column<'a>,
    pub node: (Column<'a>, Vec<String>),
    pub kind: (Column<'a>, Vec<String>),
    pub f: (Column<'a>, Vec<String>),
    pub key: Column<'a>,
    pub value: Column<'a>,
    pub values: Column<'a>,
    pub detail: Column<'a>,
    pub time_ns: Column<'a>,
    pub error: Column<'a>,
}

/// The words of a batch, as the history numbers them.
struct BatchWords {
    nodes: Vec<Word>,
    kinds: Vec<Option<Kind>>,
    fs: Vec<Word>,
}

impl Batch<'_> {
    /// Appends the first `rows` operations to a history. Refuses a row that lacks a field.
    pub fn append_to(&self, rows: usize, history: &mut History) -> Result<(), Refused> {
        let words = BatchWords {
            nodes: interned(&self.node.1, &mut history.nodes),
            kinds: self
                .kind
                .1
                .iter()
                .map(|kind| Kind::from_name(kind))
                .collect(),
            fs: interned(&self.f.1, &mut history.fs),
        };
        let mut last_error = ("", NONE);
        for row in 0..rows {
            let text = self.error.text(row);
            if let Some(error) = text.filter(|&text| last_error.1 == NONE || text != last_error.0) {
                last_error = (error, history.errors.word(&quoted(error)));
            }
            let error = text.map_or(NONE, |_| last_error.1);
            let line = self.line(row, &words, error, history);
            history.push(line.ok_or(Refused::Form(history.len()))?)?;
        }
        Ok(())
    }

    fn line(
        &self,
        row: usize,
        words: &BatchWords,
        error: Word,
        history: &mut History,
    ) -> Option<Line> {
        Some(Line {
            index: self.index.int(row)?,
            process: match i32::from_le_bytes(self.process.number(row)?) {
                -1 => NEMESIS,
                process => process.into(),
            },
            kind: (*self.kind.0.word(row, &words.kinds)?)?,
            f: *self.f.0.word(row, &words.fs)?,
            time_ns: self.time_ns.int(row)?,
            value: self.value(row, history)?,
            key: self.key.int(row),
            node: self.node.0.word(row, &words.nodes).copied().unwrap_or(NONE),
            error,
        })
    }

    /// Returns the value of an operation, whose parts it appends to the history. `None` if it is a
    /// text that is not an object.
    fn value(&self, row: usize, history: &mut History) -> Option<Value> {
        if let Some(bytes) = self.values.bytes(row, 8) {
            let from = history.numbers.len();
            let chunks = bytes.chunks_exact(8);
            let ints = chunks.map(|chunk| i64::from_le_bytes(chunk.try_into().expect("8 bytes")));
            history.numbers.extend(ints);
            return Some(Value::Ints(from..history.numbers.len()));
        }
        if let Some(object) = self.detail.text(row) {
            let from = history.raw.len();
            history.raw.extend_from_slice(object.as_bytes());
            return is_object(object.as_bytes()).then_some(Value::Object(from..history.raw.len()));
        }
        Some(self.value.int(row).map_or(Value::None, Value::Int))
    }
}

fn interned(texts: &[String], words: &mut Words) -> Vec<Word> {
    texts.iter().map(|text| words.word(&quoted(text))).collect()
}

/// Returns a text as JSON has it.
fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    journal::text(&mut out, text);
    out
}
