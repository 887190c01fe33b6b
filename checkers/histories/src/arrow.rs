//! A history as Arrow's buffers.

use crate::history::History;
use crate::lines::{Value, NEMESIS};
use crate::sets::Odd;
use crate::words::{Word, NONE};

/// Little-endian numbers, or texts and where each begins; and a bit for each entry that is there.
#[derive(Default)]
pub struct Column {
    pub there: Vec<u8>,
    /// Empty where all have one size.
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

    fn number<const N: usize>(&mut self, bytes: Option<[u8; N]>) {
        self.data.extend(bytes.unwrap_or([0; N]));
        self.entry(bytes.is_some());
    }

    /// `count`: bytes of a text, numbers of a list.
    fn some_of(&mut self, data: Option<(&[u8], usize)>) {
        if let Some((bytes, count)) = data {
            self.data.extend(bytes);
            self.ended = i32::try_from(self.ended as usize + count).expect("less than 2^31");
        }
        self.offsets.extend(self.ended.to_le_bytes());
        self.entry(data.is_some());
    }

    fn entry(&mut self, there: bool) {
        if self.entries % 8 == 0 {
            self.there.push(0);
        }
        *self.there.last_mut().expect("pushed") |= u8::from(there) << (self.entries % 8);
        self.entries += 1;
    }
}

/// The columns of ops. Words are the indices of `words`.
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

/// `lines`: what the history was read from. The nemesis is -1, kinds are 0 to 3.
pub fn table(history: &History, lines: &[u8]) -> Result<Table, Odd> {
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
            process => i32::try_from(process).map_err(|_| Odd(row as u32))?,
        };
        table.process.number(Some(process.to_le_bytes()));
        table.node.number(word(history.node[row]));
        table
            .kind
            .number(Some((history.kind[row] as i32).to_le_bytes()));
        table.f.number(word(history.f[row]));
        table.key.number(history.key[row].map(i64::to_le_bytes));
        table
            .time_ns
            .number(Some(history.time_ns[row].to_le_bytes()));
        let (mut value, mut values, mut detail) = (None, None, None);
        match &history.value[row] {
            Value::None => {}
            Value::Int(number) => value = Some(number.to_le_bytes()),
            Value::Ints(range) => values = Some(range),
            Value::Object(span) => detail = Some((&lines[span.clone()], span.len())),
            Value::Big => return Err(Odd(row as u32)),
        }
        table.value.number(value);
        // Numbers are in order of the rows.
        table
            .values
            .some_of(values.map(|range| (&[][..], range.len())));
        table.detail.some_of(detail);
        if history.error[row] != NONE && history.error[row] != error.0 {
            let text = history.errors.text(history.error[row]).unwrap_or_default();
            error = (history.error[row], text);
        }
        let text = (history.error[row] != NONE).then_some((error.1.as_bytes(), error.1.len()));
        table.error.some_of(text);
    }
    add_bytes(&mut table.values.data, &history.numbers);
    Ok(table)
}

/// Adds numbers in little-endian bytes.
fn add_bytes(out: &mut Vec<u8>, numbers: &[i64]) {
    let from = out.len();
    out.resize(from + 8 * numbers.len(), 0);
    for (place, number) in out[from..].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}
