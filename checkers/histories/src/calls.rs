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
    /// A call that was made at once when the last of its process ended, and nothing else ended
    /// then, is a nanosecond later here: so it comes after that one, and after no other.
    pub fn columns(&self, history: &History) -> Columns {
        let count = self.rows.len();
        let wide = || Vec::with_capacity(8 * count);
        let bits = || vec![0; count.div_ceil(8)];
        let answers = self.rows.iter().filter_map(|&(_, end)| history.ints(end));
        let mut columns = Columns {
            process: wide(),
            is_read: Vec::with_capacity(count),
            value: wide(),
            is_add: bits(),
            call: wide(),
            ret: wide(),
            is_ok: bits(),
            offsets: Vec::with_capacity(4 * (count + 1)),
            numbers: Vec::with_capacity(8 * answers.map(<[i64]>::len).sum::<usize>()),
            has_output: bits(),
        };
        let mut ended = 0_i32;
        columns.offsets.extend(ended.to_le_bytes());
        for (at, (&(invoke, end), after)) in self.rows.iter().zip(self.order(history)).enumerate() {
            let (row, bit) = (invoke as usize, 1_u8 << (at % 8));
            let is_read = self.is_read[at];
            columns.process.extend(history.process[row].to_le_bytes());
            columns.is_read.push(u8::from(is_read));
            let later_ns = i64::from(after == After::AtOnce);
            let call_ns = history.time_ns[row].saturating_add(later_ns);
            columns.call.extend(call_ns.to_le_bytes());
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

    /// Whether some call's place after the last of its process is not told by `columns`' times.
    pub fn ties(&self, history: &History) -> bool {
        self.order(history).any(|after| after == After::Tied)
    }

    /// Of each call, how it comes after the last of its process.
    fn order<'a>(&'a self, history: &'a History) -> impl Iterator<Item = After> + 'a {
        let mut ended: FxHashMap<i64, u32> = FxHashMap::default();
        self.rows.iter().map(move |&(invoke, end)| {
            let process = history.process[invoke as usize];
            let last = match end {
                NO_ROW => ended.remove(&process),
                _ => ended.insert(process, end),
            };
            match last {
                Some(row) if history.time_ns[row as usize] == history.time_ns[invoke as usize] => {
                    if ends_alone(history, row as usize) {
                        After::AtOnce
                    } else {
                        After::Tied
                    }
                }
                _ => After::Later,
            }
        })
    }
}

#[derive(PartialEq)]
enum After {
    Later,
    /// At the very time at which that ended, and nothing else ended then.
    AtOnce,
    /// At the very time at which that ended, and something else did.
    Tied,
}

/// Whether no other row of its time is an end.
fn ends_alone(history: &History, row: usize) -> bool {
    let then = |&other: &usize| history.time_ns[other] == history.time_ns[row];
    let before = (0..row).rev().take_while(then);
    let after = (row + 1..history.len()).take_while(then);
    let mut others = before.chain(after);
    others.all(|other| history.kind[other] == Kind::Invoke)
}
