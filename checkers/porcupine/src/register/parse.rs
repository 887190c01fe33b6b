//! Rows as operations on a register.

use super::{Action, RegisterOp, Value};
use crate::models::numbers::Numbers;
use crate::order::NEVER;
use crate::rows::{prefetch, BadRow, Datum, Rows};

/// What the operations are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// read, write.
    Register,
    /// read, write, cas.
    CasRegister,
    /// get, put.
    KeyValue,
}

impl Names {
    fn all(self) -> &'static str {
        match self {
            Names::Register => "\"read\" or \"write\"",
            Names::CasRegister => "\"read\", \"write\" or \"cas\"",
            Names::KeyValue => "\"get\", \"put\" or \"append\"",
        }
    }
}

pub struct Parsed {
    pub ops: Vec<RegisterOp>,
    pub initial: Value,
    /// Numbers of values are less than this.
    pub values: usize,
}

/// Reads that never returned say nothing and are left out. O(n).
pub fn parse(
    rows: &dyn Rows,
    object: &[u32],
    names: Names,
    initial: &Datum,
) -> Result<Parsed, BadRow> {
    let mut numbers = Numbers::with_capacity(object.len() / 2);
    let initial = numbers.number(initial.clone());
    let mut ops = Vec::with_capacity(object.len());
    for (place, &row) in object.iter().enumerate() {
        prefetch(rows, object, place);
        let timing = rows.timing(row as usize);
        let action = match (rows.f(row as usize), names) {
            ("read", Names::Register | Names::CasRegister) | ("get", Names::KeyValue) => {
                if timing.ret == NEVER {
                    continue;
                }
                Action::Read(numbers.number(rows.output(row as usize)))
            }
            ("write", Names::Register | Names::CasRegister) | ("put", Names::KeyValue) => {
                Action::Write(numbers.number(written(rows, row)?))
            }
            ("cas", Names::CasRegister) => cas(rows, row, timing.ret, &mut numbers)?,
            (f, _) => return Err(BadRow::f(row as usize, f, names.all())),
        };
        ops.push(RegisterOp {
            row,
            action,
            call: timing.call,
            ret: timing.ret,
        });
    }
    Ok(Parsed {
        ops,
        initial,
        values: numbers.len(),
    })
}

fn written(rows: &dyn Rows, row: u32) -> Result<Datum<'_>, BadRow> {
    match rows.value(row as usize) {
        value @ (Datum::Int(_) | Datum::Text(_) | Datum::Bool(_)) => Ok(value),
        other => {
            let expected = "the int, str or bool that is written";
            Err(BadRow::field(row as usize, "value", &other, expected))
        }
    }
}

fn cas<'a>(
    rows: &'a dyn Rows,
    row: u32,
    ret: i64,
    numbers: &mut Numbers<'a>,
) -> Result<Action, BadRow> {
    let at = row as usize;
    let (from, to) = match (rows.value(at), rows.expected(at)) {
        (Datum::Ints(&[from, to]), Datum::Null) => (Datum::Int(from), Datum::Int(to)),
        (Datum::List(pair), Datum::Null) if pair.len() == 2 => (pair[0].clone(), pair[1].clone()),
        (to @ (Datum::Int(_) | Datum::Text(_) | Datum::Bool(_)), from) if from != Datum::Null => {
            (from, to)
        }
        (other, _) => {
            let expected = "a pair (expected, new), or new beside a field expected";
            return Err(BadRow::field(at, "value", &other, expected));
        }
    };
    if to == Datum::Null {
        let pair = Datum::List(Box::new([from, to]));
        return Err(BadRow::field(
            at,
            "value",
            &pair,
            "a new value other than None",
        ));
    }
    let (from, to) = (numbers.number(from), numbers.number(to));
    match rows.output(at) {
        _ if ret == NEVER => Ok(Action::Cas(from, to)),
        Datum::Bool(true) => Ok(Action::Cas(from, to)),
        Datum::Bool(false) => Ok(Action::CasFailed(from)),
        other => Err(BadRow::field(
            at,
            "output",
            &other,
            "True (it was set) or False (something else was found)",
        )),
    }
}
