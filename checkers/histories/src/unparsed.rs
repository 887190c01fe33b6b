//! Writes the lines of operations that are given as Arrow buffers, as the journal writes them: the
//! inverse of [`crate::arrow`].

use std::str;

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

    /// Returns the text to which the row's number refers.
    fn word<'b>(&self, row: usize, texts: &'b [String]) -> Option<&'b str> {
        let number = i32::from_le_bytes(self.number(row)?);
        Some(texts.get(usize::try_from(number).ok()?)?)
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
    let mut out = Vec::new();
    for row in 0..rows {
        line(batch, row, &mut out).ok_or(row)?;
    }
    Ok(out)
}

fn line(batch: &Batch<'_>, row: usize, out: &mut Vec<u8>) -> Option<()> {
    let (kind, kinds) = &batch.kind;
    let (f, fs) = &batch.f;
    let (node, nodes) = &batch.node;
    put_int(out, "{\"index\":", Some(batch.index.int(row)?));
    match i32::from_le_bytes(batch.process.number(row)?) {
        -1 => put_text(out, ",\"process\":", Some("nemesis")),
        process => put_int(out, ",\"process\":", Some(process.into())),
    }
    put_text(out, ",\"kind\":", Some(kind.word(row, kinds)?));
    put_text(out, ",\"f\":", Some(f.word(row, fs)?));
    put_int(out, ",\"time_ns\":", Some(batch.time_ns.int(row)?));
    out.extend(b",\"value\":");
    if let Some(numbers) = batch.values.bytes(row, 8) {
        put_list(out, numbers);
    } else if let Some(object) = batch.detail.text(row) {
        out.extend(object.as_bytes());
    } else {
        put_int(out, "", batch.value.int(row));
    }
    put_int(out, ",\"key\":", batch.key.int(row));
    put_text(out, ",\"node\":", node.word(row, nodes));
    put_text(out, ",\"error\":", batch.error.text(row));
    out.extend(b"}\n");
    Some(())
}

fn put_int(out: &mut Vec<u8>, name: &str, number: Option<i64>) {
    out.extend(name.as_bytes());
    serde_json::to_writer(out, &number).expect("a number is JSON");
}

fn put_text(out: &mut Vec<u8>, name: &str, text: Option<&str>) {
    out.extend(name.as_bytes());
    serde_json::to_writer(out, &text).expect("a text is JSON");
}

fn put_list(out: &mut Vec<u8>, numbers: &[u8]) {
    out.push(b'[');
    for (place, number) in numbers.chunks_exact(8).enumerate() {
        let comma = if place > 0 { "," } else { "" };
        let number = number.try_into().expect("chunks of 8");
        put_int(out, comma, Some(i64::from_le_bytes(number)));
    }
    out.push(b']');
}
