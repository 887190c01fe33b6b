//! The calls that constrain a set, as columns of numbers.

use rustc_hash::FxHashMap;

use crate::arrow::add_bytes;
use crate::history::{History, NO_ROW};
use crate::lines::{Kind, Value};
use crate::sets::{Names, Odd};

/// Those of one key, in order of invocation: inserts that were not refused, and answered reads.
pub struct Calls {
    pub key: Option<i64>,
    /// The rows of each call's invocation and end; `NO_ROW`: it never ended, or nobody knows how.
    pub rows: Vec<(u32, u32)>,
    pub is_read: Vec<bool>,
}

/// By key, in the order in which keys are first called.
pub fn calls(history: &History) -> Result<Vec<Calls>, Odd> {
    let names = Names::of(history);
    let mut by_key: Vec<Calls> = Vec::new();
    let mut places: FxHashMap<Option<i64>, usize> = FxHashMap::default();
    for pair in &history.pairs {
        let row = pair.invoke as usize;
        let is_read = names.is_read(history.f[row]);
        let ok = pair.kind == Kind::Ok;
        if is_read && ok {
            history.ints(pair.end).ok_or(Odd(pair.end))?;
        } else if names.is_insert(history.f[row]) && pair.kind != Kind::Fail {
            if !matches!(history.value[row], Value::Int(_)) {
                return Err(Odd(pair.invoke));
            }
        } else {
            continue;
        }
        let key = history.key[row];
        let place = *places.entry(key).or_insert_with(|| {
            by_key.push(Calls {
                key,
                rows: Vec::new(),
                is_read: Vec::new(),
            });
            by_key.len() - 1
        });
        by_key[place].rows.push((pair.invoke, pair.end));
        by_key[place].is_read.push(is_read);
    }
    Ok(by_key)
}

/// Little-endian columns of 64 bits, as Arrow has them, and a bit for each entry that is there.
#[derive(Default)]
pub struct Columns {
    pub process: Vec<u8>,
    /// A byte each.
    pub is_read: Vec<u8>,
    pub value: Vec<u8>,
    pub is_add: Vec<u8>,
    pub call: Vec<u8>,
    pub ret: Vec<u8>,
    pub is_ok: Vec<u8>,
    /// Of 32 bits: where each output begins, and where the last one ends.
    pub offsets: Vec<u8>,
    pub numbers: Vec<u8>,
    pub has_output: Vec<u8>,
}

impl Calls {
    pub fn columns(&self, history: &History) -> Columns {
        let count = self.rows.len();
        let bits = || vec![0; count.div_ceil(8)];
        let answers = self.rows.iter().filter_map(|&(_, end)| history.ints(end));
        let mut columns = Columns {
            numbers: Vec::with_capacity(8 * answers.map(<[i64]>::len).sum::<usize>()),
            is_add: bits(),
            is_ok: bits(),
            has_output: bits(),
            ..Columns::default()
        };
        let mut ended = 0_i32;
        columns.offsets.extend(ended.to_le_bytes());
        for (at, &(invoke, end)) in self.rows.iter().enumerate() {
            let (row, bit) = (invoke as usize, 1_u8 << (at % 8));
            let is_read = self.is_read[at];
            columns.process.extend(history.process[row].to_le_bytes());
            columns.is_read.push(u8::from(is_read));
            columns.call.extend(history.time_ns[row].to_le_bytes());
            let ok = end != NO_ROW && history.kind[end as usize] == Kind::Ok;
            let ret = if ok { history.time_ns[end as usize] } else { 0 };
            columns.ret.extend(ret.to_le_bytes());
            columns.is_ok[at / 8] |= if ok { bit } else { 0 };
            let value = match history.value[row] {
                Value::Int(value) if !is_read => value,
                _ => 0,
            };
            columns.value.extend(value.to_le_bytes());
            if is_read {
                let values = history.ints(end).unwrap_or_default();
                add_bytes(&mut columns.numbers, values);
                ended =
                    i32::try_from(ended as usize + values.len()).expect("less than 2^31 numbers");
                columns.has_output[at / 8] |= bit;
            } else {
                columns.is_add[at / 8] |= bit;
            }
            columns.offsets.extend(ended.to_le_bytes());
        }
        columns
    }

    /// Whether a process called at the very time at which its last call ended.
    pub fn ties(&self, history: &History) -> bool {
        let mut ended: FxHashMap<i64, i64> = FxHashMap::default();
        for &(invoke, end) in &self.rows {
            let process = history.process[invoke as usize];
            if ended.get(&process) == Some(&history.time_ns[invoke as usize]) {
                return true;
            }
            if end != NO_ROW {
                ended.insert(process, history.time_ns[end as usize]);
            }
        }
        false
    }
}
