//! Prepares the calls that constrain a set for pyporcupine, as columns of numbers.

use std::ffi::CStr;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::history::{History, NO_ROW};
use crate::lines::{Kind, Value};
use crate::sets::{BadValue, Names};
use crate::stream::{Buffer, Column};

/// The calls of one key in order of invocation: inserts that may have happened, and answered reads.
pub struct Calls {
    pub key: Option<i64>,
    /// The rows of each call's invocation and end; the end is `NO_ROW` if the call never ended or
    /// its outcome is unknown.
    pub rows: Vec<(u32, u32)>,
    pub is_read: Vec<bool>,
}

/// Returns the calls of each key, in the order in which keys are first called.
pub fn calls(history: &History) -> Result<Vec<Calls>, BadValue> {
    let names = Names::of(history);
    let mut by_key: Vec<Calls> = Vec::new();
    let mut places: FxHashMap<Option<i64>, usize> = FxHashMap::default();
    for pair in &history.pairs {
        let row = pair.invoke as usize;
        let is_read = names.is_read(history.f[row]);
        let ok = pair.kind == Kind::Ok;
        if is_read && ok {
            history.ints(pair.end).ok_or(BadValue(pair.end))?;
        } else if names.is_insert(history.f[row]) && pair.kind != Kind::Fail {
            if !matches!(history.value[row], Value::Int(_)) {
                return Err(BadValue(pair.invoke));
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

impl Calls {
    /// Returns one row per call with the columns that pyporcupine takes: process, f, value, call,
    /// ret, output.
    ///
    /// A process may invoke a call at the very time at which its previous call ended. If nothing
    /// else ended at that time, the invocation is moved by one nanosecond: the call then follows
    /// its predecessor and no other call.
    pub fn columns(&self, history: &History) -> Column {
        let count = self.rows.len();
        let wide = || Vec::with_capacity(count);
        let bits = || vec![0_u8; count.div_ceil(8)];
        let (mut process, mut value, mut call, mut ret) = (wide(), wide(), wide(), wide());
        let (mut is_add, mut is_ok, mut has_output) = (bits(), bits(), bits());
        let answers = self.rows.iter().filter_map(|&(_, end)| history.ints(end));
        let mut numbers: Vec<i64> = Vec::with_capacity(answers.map(<[i64]>::len).sum());
        let mut offsets: Vec<i32> = Vec::with_capacity(count + 1);
        offsets.push(0);
        for (at, (&(invoke, end), after)) in self.rows.iter().zip(self.order(history)).enumerate() {
            let (row, bit) = (invoke as usize, 1_u8 << (at % 8));
            process.push(history.process[row]);
            let later_ns = i64::from(after == After::Immediately);
            call.push(history.time_ns[row].saturating_add(later_ns));
            let ok = end != NO_ROW && history.kind[end as usize] == Kind::Ok;
            ret.push(if ok { history.time_ns[end as usize] } else { 0 });
            is_ok[at / 8] |= if ok { bit } else { 0 };
            value.push(match history.value[row] {
                Value::Int(value) if !self.is_read[at] => value,
                _ => 0,
            });
            if self.is_read[at] {
                numbers.extend(history.ints(end).unwrap_or_default());
                has_output[at / 8] |= bit;
            } else {
                is_add[at / 8] |= bit;
            }
            offsets.push(i32::try_from(numbers.len()).expect("less than 2^31 numbers"));
        }
        let returned = ints(c"item", Buffer::None, numbers);
        Column {
            name: c"",
            format: c"+s",
            entries: count,
            buffers: vec![Buffer::None],
            children: vec![
                Arc::new(ints(c"process", Buffer::None, process)),
                Arc::new(self.f_column()),
                Arc::new(ints(c"value", Buffer::Bits(is_add), value)),
                Arc::new(ints(c"call", Buffer::None, call)),
                Arc::new(ints(c"ret", Buffer::Bits(is_ok), ret)),
                Arc::new(Column {
                    name: c"output",
                    format: c"+l",
                    entries: count,
                    buffers: vec![Buffer::Bits(has_output), Buffer::Ints32(offsets)],
                    children: vec![Arc::new(returned)],
                    dictionary: None,
                }),
            ],
            dictionary: None,
        }
    }

    /// Returns the dictionary-encoded column of "add" and "read".
    fn f_column(&self) -> Column {
        let words = Column {
            name: c"",
            format: c"u",
            entries: 2,
            buffers: vec![
                Buffer::None,
                Buffer::Ints32(vec![0, 3, 7]),
                Buffer::Texts(b"addread"),
            ],
            children: Vec::new(),
            dictionary: None,
        };
        let which = self.is_read.iter().map(|&is_read| i8::from(is_read));
        Column {
            name: c"f",
            format: c"c",
            entries: self.is_read.len(),
            buffers: vec![Buffer::None, Buffer::Ints8(which.collect())],
            children: Vec::new(),
            dictionary: Some(Arc::new(words)),
        }
    }

    /// Whether the times in `columns` fail to order some call after its process's previous call.
    pub fn ties(&self, history: &History) -> bool {
        self.order(history).any(|after| after == After::Tied)
    }

    /// Returns how each call follows the previous call of its process.
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
                        After::Immediately
                    } else {
                        After::Tied
                    }
                }
                _ => After::Later,
            }
        })
    }
}

fn ints(name: &'static CStr, there: Buffer, ints: Vec<i64>) -> Column {
    Column {
        name,
        format: c"l",
        entries: ints.len(),
        buffers: vec![there, Buffer::Ints64(ints)],
        children: Vec::new(),
        dictionary: None,
    }
}

#[derive(PartialEq)]
enum After {
    Later,
    /// Invoked at the time at which the previous call ended, and nothing else ended then.
    Immediately,
    /// Invoked at the time at which the previous call ended, and another call ended then too.
    Tied,
}

/// Whether every other row of the same time is an invocation.
fn ends_alone(history: &History, row: usize) -> bool {
    let then = |&other: &usize| history.time_ns[other] == history.time_ns[row];
    let before = (0..row).rev().take_while(then);
    let after = (row + 1..history.len()).take_while(then);
    let mut others = before.chain(after);
    others.all(|other| history.kind[other] == Kind::Invoke)
}
