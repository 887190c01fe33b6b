//! Prepares the calls that constrain an object for pyporcupine, as columns of numbers.

use std::ffi::CStr;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::history::{History, Pair, NO_ROW};
use crate::lines::{Kind, Value};
use crate::sets::{BadValue, Names};
use crate::stream::{Buffer, Column};

/// The calls of one key in order of invocation: writes that may have happened, and answered reads.
pub struct Calls {
    pub key: Option<i64>,
    object: Object,
    /// The rows of each call's invocation and end; the end is `NO_ROW` if the call never ended or
    /// its outcome is unknown.
    pub rows: Vec<(u32, u32)>,
    pub is_read: Vec<bool>,
}

/// A kind of object, which decides which calls constrain it and what their columns hold.
#[derive(Clone, Copy)]
pub enum Object {
    /// "insert" of a number, and reads of all numbers.
    Set,
    /// "write" of a number, "cas" of two, and reads of one or of nothing.
    Register,
}

impl Object {
    /// Returns whether the call reads; `None` if it constrains nothing, as a refused one.
    fn is_read(
        self,
        history: &History,
        names: &Names,
        pair: &Pair,
    ) -> Result<Option<bool>, BadValue> {
        let (row, ok) = (pair.invoke as usize, pair.kind == Kind::Ok);
        let (f, given) = (history.f[row], &history.value[row]);
        if names.is_read(f) {
            let fits = match (self, ok, history.value.get(pair.end as usize)) {
                (_, false, _) => return Ok(None),
                (Object::Set, _, Some(Value::Ints(_))) => true,
                (Object::Register, _, Some(Value::Int(_) | Value::None)) => true,
                _ => false,
            };
            return if fits {
                Ok(Some(true))
            } else {
                Err(BadValue(pair.end))
            };
        }
        let fits = match self {
            Object::Set if names.is_insert(f) => matches!(given, Value::Int(_)),
            Object::Register if names.is_write(f) => matches!(given, Value::Int(_)),
            Object::Register if names.is_cas(f) => {
                history.ints(pair.invoke).is_some_and(|two| two.len() == 2)
            }
            _ => return Ok(None),
        };
        match (pair.kind, fits) {
            (Kind::Fail, _) => Ok(None),
            (_, true) => Ok(Some(false)),
            (_, false) => Err(BadValue(pair.invoke)),
        }
    }
}

/// Returns the calls of each key, in the order in which keys are first called.
pub fn calls(history: &History, object: Object) -> Result<Vec<Calls>, BadValue> {
    let names = Names::of(history);
    let mut by_key: Vec<Calls> = Vec::new();
    let mut places: FxHashMap<Option<i64>, usize> = FxHashMap::default();
    for pair in &history.pairs {
        let Some(is_read) = object.is_read(history, &names, pair)? else {
            continue;
        };
        let key = history.key[pair.invoke as usize];
        let place = *places.entry(key).or_insert_with(|| {
            by_key.push(Calls {
                key,
                object,
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
    /// Returns one row per call with the columns that pyporcupine takes: process, f, call, ret and
    /// those of the object.
    ///
    /// A process may invoke a call at the very time at which its previous call ended. If nothing
    /// else ended at that time, the invocation is moved by one nanosecond: the call then follows
    /// its predecessor and no other call.
    pub fn columns(&self, history: &History) -> Column {
        let count = self.rows.len();
        let wide = || Vec::with_capacity(count);
        let (mut process, mut call, mut ret) = (wide(), wide(), wide());
        let mut is_ok = bits(count);
        for (at, (&(invoke, end), after)) in self.rows.iter().zip(self.order(history)).enumerate() {
            let row = invoke as usize;
            process.push(history.process[row]);
            let later_ns = i64::from(after == After::Immediately);
            call.push(history.time_ns[row].saturating_add(later_ns));
            let ok = end != NO_ROW && history.kind[end as usize] == Kind::Ok;
            ret.push(if ok { history.time_ns[end as usize] } else { 0 });
            set_bit(&mut is_ok, at, ok);
        }
        let own = match self.object {
            Object::Set => self.set_columns(history),
            Object::Register => self.register_columns(history, &is_ok),
        };
        let shared = [
            ints(c"process", Buffer::None, process),
            ints(c"call", Buffer::None, call),
            ints(c"ret", Buffer::Bits(is_ok), ret),
        ];
        Column {
            name: c"",
            format: c"+s",
            entries: count,
            buffers: vec![Buffer::None],
            children: shared.into_iter().chain(own).map(Arc::new).collect(),
            dictionary: None,
        }
    }

    /// Returns the columns f, value and output of a set.
    fn set_columns(&self, history: &History) -> Vec<Column> {
        let count = self.rows.len();
        let mut value = Vec::with_capacity(count);
        let (mut is_add, mut has_output) = (bits(count), bits(count));
        let answers = self.rows.iter().filter_map(|&(_, end)| history.ints(end));
        let mut numbers: Vec<i64> = Vec::with_capacity(answers.map(<[i64]>::len).sum());
        let mut offsets: Vec<i32> = Vec::with_capacity(count + 1);
        offsets.push(0);
        for (at, &(invoke, end)) in self.rows.iter().enumerate() {
            let is_read = self.is_read[at];
            value.push(match history.value[invoke as usize] {
                Value::Int(value) if !is_read => value,
                _ => 0,
            });
            if is_read {
                numbers.extend(history.ints(end).unwrap_or_default());
            }
            set_bit(&mut has_output, at, is_read);
            set_bit(&mut is_add, at, !is_read);
            offsets.push(i32::try_from(numbers.len()).expect("less than 2^31 numbers"));
        }
        let returned = ints(c"item", Buffer::None, numbers);
        let f = self.is_read.iter().map(|&is_read| i8::from(is_read));
        vec![
            words(c"f", f.collect(), b"addread", vec![0, 3, 7]),
            ints(c"value", Buffer::Bits(is_add), value),
            Column {
                name: c"output",
                format: c"+l",
                entries: count,
                buffers: vec![Buffer::Bits(has_output), Buffer::Ints32(offsets)],
                children: vec![Arc::new(returned)],
                dictionary: None,
            },
        ]
    }

    /// Returns the columns f, value, expected and output of a register. The output of a cas that
    /// took effect is 1.
    fn register_columns(&self, history: &History, is_ok: &[u8]) -> Vec<Column> {
        let count = self.rows.len();
        let wide = || vec![0; count];
        let (mut f, mut value, mut expected, mut output) = (vec![0; count], wide(), wide(), wide());
        let mut has = [(); 3].map(|()| bits(count));
        let [has_value, has_expected, has_output] = &mut has;
        for (at, &(invoke, end)) in self.rows.iter().enumerate() {
            let given = (
                self.is_read[at],
                history.ints(invoke),
                &history.value[invoke as usize],
            );
            match given {
                (true, ..) => {
                    if let Some(Value::Int(found)) = history.value.get(end as usize) {
                        output[at] = *found;
                        set_bit(has_output, at, true);
                    }
                }
                (_, Some(&[from, to]), _) => {
                    (f[at], value[at], expected[at], output[at]) = (2, to, from, 1);
                    set_bit(has_value, at, true);
                    set_bit(has_expected, at, true);
                    set_bit(has_output, at, is_ok[at / 8] >> (at % 8) & 1 == 1);
                }
                (_, _, Value::Int(written)) => {
                    (f[at], value[at]) = (1, *written);
                    set_bit(has_value, at, true);
                }
                _ => unreachable!("only calls that fit were taken"),
            }
        }
        let [has_value, has_expected, has_output] = has.map(Buffer::Bits);
        vec![
            words(c"f", f, b"readwritecas", vec![0, 4, 9, 12]),
            ints(c"value", has_value, value),
            ints(c"expected", has_expected, expected),
            ints(c"output", has_output, output),
        ]
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

fn bits(count: usize) -> Vec<u8> {
    vec![0; count.div_ceil(8)]
}

fn set_bit(bits: &mut [u8], at: usize, is_set: bool) {
    bits[at / 8] |= u8::from(is_set) << (at % 8);
}

/// Returns a dictionary-encoded column; `offsets` tell its texts apart.
fn words(name: &'static CStr, which: Vec<i8>, texts: &'static [u8], offsets: Vec<i32>) -> Column {
    let words = Column {
        name: c"",
        format: c"u",
        entries: offsets.len() - 1,
        buffers: vec![Buffer::None, Buffer::Ints32(offsets), Buffer::Texts(texts)],
        children: Vec::new(),
        dictionary: None,
    };
    Column {
        name,
        format: c"c",
        entries: which.len(),
        buffers: vec![Buffer::None, Buffer::Ints8(which)],
        children: Vec::new(),
        dictionary: Some(Arc::new(words)),
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
