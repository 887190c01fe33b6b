//! Writes the lines of operations that are given as Arrow buffers, as the journal writes them: the
//! inverse of [`crate::arrow`].

use std::str;

use crate::journal::{line, list, node, Called, Index, Kind, Line, Process, Value};

/// A column as Arrow has it. All parts but the data may be empty: then no entry is null, or all
/// have one size.
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

/// Returns the lines of the first `rows` operations; the row of one that lacks a field.
pub fn lines(batch: &Batch<'_>, rows: usize) -> Result<Vec<u8>, usize> {
    let words = Words::of(batch);
    let (mut out, mut index) = (Vec::new(), Index::before(0));
    for row in 0..rows {
        words.line(batch, row, &mut index, &mut out).ok_or(row)?;
    }
    Ok(out)
}

/// The texts of a batch, formatted as lines have them.
struct Words {
    kinds: Vec<Option<Kind>>,
    called: Vec<Called>,
    nodes: Vec<Vec<u8>>,
    nobody: Vec<u8>,
}

impl Words {
    fn of(batch: &Batch<'_>) -> Words {
        let (kinds, fs, nodes) = (&batch.kind.1, &batch.f.1, &batch.node.1);
        Words {
            kinds: kinds.iter().map(|kind| Kind::from_name(kind)).collect(),
            called: fs.iter().map(|f| Called::new(f)).collect(),
            nodes: nodes.iter().map(|name| node(Some(name))).collect(),
            nobody: node(None),
        }
    }

    fn line(
        &self,
        batch: &Batch<'_>,
        row: usize,
        index: &mut Index,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        index.set(batch.index.int(row)?.try_into().ok()?);
        let mut numbers = Vec::new();
        let value = if let Some(bytes) = batch.values.bytes(row, 8) {
            let chunks = bytes.chunks_exact(8);
            let ints = chunks.map(|chunk| i64::from_le_bytes(chunk.try_into().expect("8 bytes")));
            list(&mut numbers, ints);
            Value::Json(&numbers)
        } else if let Some(object) = batch.detail.text(row) {
            Value::Json(object.as_bytes())
        } else {
            Value::of(batch.value.int(row))
        };
        let op = Line {
            index,
            process: match i32::from_le_bytes(batch.process.number(row)?) {
                -1 => Process::Nemesis,
                process => Process::Client(process.into()),
            },
            kind: (*batch.kind.0.word(row, &self.kinds)?)?,
            called: batch.f.0.word(row, &self.called)?,
            time_ns: batch.time_ns.int(row)?,
            value,
            key: batch.key.int(row),
            node: batch.node.0.word(row, &self.nodes).unwrap_or(&self.nobody),
            error: batch.error.text(row),
        };
        line(out, &op);
        Some(())
    }
}
