//! Converts a history to Arrow buffers.

use crate::history::History;
use crate::lines::{Value, NEMESIS};
use crate::sets::BadValue;
use crate::words::{Word, NONE};

/// An Arrow column: a validity bitmap, and either little-endian numbers or the bytes of texts with
/// their offsets.
#[derive(Default)]
pub struct Column {
    pub validity: Vec<u8>,
    /// The offsets of texts or lists; empty if all entries have one size.
    pub offsets: Vec<u8>,
    pub data: Vec<u8>,
    entries: usize,
    ended: i32,
}

impl Column {
    fn new(variable: bool) -> Column {
        let mut column = Column::default();
        if variable {
            column.offsets.extend(0_i32.to_le_bytes());
        }
        column
    }

    fn push_number<const N: usize>(&mut self, bytes: Option<[u8; N]>) {
        self.data.extend(bytes.unwrap_or([0; N]));
        self.push_validity(bytes.is_some());
    }

    /// Appends an entry of variable size. `count` is the number of bytes of a text, or of elements
    /// of a list.
    fn push_sized(&mut self, data: Option<(&[u8], usize)>) {
        if let Some((bytes, count)) = data {
            self.data.extend(bytes);
            self.ended = i32::try_from(self.ended as usize + count).expect("less than 2^31");
        }
        self.offsets.extend(self.ended.to_le_bytes());
        self.push_validity(data.is_some());
    }

    fn push_validity(&mut self, validity: bool) {
        if self.entries % 8 == 0 {
            self.validity.push(0);
        }
        *self.validity.last_mut().expect("pushed") |= u8::from(validity) << (self.entries % 8);
        self.entries += 1;
    }
}

/// The columns of a history's operations. Interned texts are given as indices into `words`.
pub struct Table {
    pub process: Column,
    pub node: Column,
    pub kind: Column,
    pub f: Column,
    pub key: Column,
    pub value: Column,
    pub values: Column,
    pub detail: Column,
    pub time_ns: Column,
    pub error: Column,
}

/// Converts a history to columns. The nemesis has process -1, and kinds are numbered 0 to 3.
pub fn table(history: &History) -> Result<Table, BadValue> {
    let mut table = Table {
        process: Column::new(false),
        node: Column::new(false),
        kind: Column::new(false),
        f: Column::new(false),
        key: Column::new(false),
        value: Column::new(false),
        values: Column::new(true),
        detail: Column::new(true),
        time_ns: Column::new(false),
        error: Column::new(true),
    };
    let word = |word: Word| (word != NONE).then(|| (word as i32).to_le_bytes());
    let mut error = (NONE, String::new());
    for row in 0..history.len() {
        let process = match history.process[row] {
            NEMESIS => -1,
            process => i32::try_from(process).map_err(|_| BadValue(row as u32))?,
        };
        table.process.push_number(Some(process.to_le_bytes()));
        table.node.push_number(word(history.node[row]));
        table
            .kind
            .push_number(Some((history.kind[row] as i32).to_le_bytes()));
        table.f.push_number(word(history.f[row]));
        table
            .key
            .push_number(history.key[row].map(i64::to_le_bytes));
        table
            .time_ns
            .push_number(Some(history.time_ns[row].to_le_bytes()));
        let (mut value, mut values, mut detail) = (None, None, None);
        match &history.value[row] {
            Value::None => {}
            Value::Int(number) => value = Some(number.to_le_bytes()),
            Value::Ints(range) => values = Some(range),
            Value::Object(span) => detail = Some((&history.raw[span.clone()], span.len())),
            Value::Big(_) => return Err(BadValue(row as u32)),
        }
        table.value.push_number(value);
        // `numbers` holds the lists in the order of the rows, so only the lengths are needed here.
        table
            .values
            .push_sized(values.map(|range| (&[][..], range.len())));
        table.detail.push_sized(detail);
        if history.error[row] != NONE && history.error[row] != error.0 {
            let text = history.errors.text(history.error[row]).unwrap_or_default();
            error = (history.error[row], text);
        }
        let text = (history.error[row] != NONE).then_some((error.1.as_bytes(), error.1.len()));
        table.error.push_sized(text);
    }
    add_bytes(&mut table.values.data, &history.numbers);
    Ok(table)
}

/// Appends numbers as little-endian bytes.
fn add_bytes(out: &mut Vec<u8>, numbers: &[i64]) {
    let from = out.len();
    out.resize(from + 8 * numbers.len(), 0);
    for (place, number) in out[from..].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}
