//! Parses rows as operations on a register.

use super::{adjacent, Action, RegisterOp, Value};
use crate::datum::Datum;
use crate::models::numbers::Numbers;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Field, Rows};

/// The names of the operations.
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
    /// Returns the names of read and write.
    pub fn read_and_write(self) -> [&'static str; 2] {
        match self {
            Names::Register | Names::CasRegister => ["read", "write"],
            Names::KeyValue => ["get", "put"],
        }
    }

    /// Whether the call is a read; `None` if it is neither a read nor a write.
    #[inline(always)]
    fn is_read(self, f: &str) -> Option<bool> {
        let [read, write] = self.read_and_write();
        match f {
            _ if f == read => Some(true),
            _ if f == write => Some(false),
            _ => None,
        }
    }

    fn all(self) -> &'static str {
        match self {
            Names::Register => "\"read\" or \"write\"",
            Names::CasRegister => "\"read\", \"write\" or \"cas\"",
            Names::KeyValue => "\"get\", \"put\" or \"append\"",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Parsed {
    pub ops: Vec<RegisterOp>,
    pub initial: Value,
    /// All numbers of values are less than this.
    pub values: usize,
}

/// Parses the operations. Reads that never returned say nothing and are skipped. O(n).
pub fn parse(
    rows: &dyn Rows,
    object: &[u32],
    names: Names,
    initial: &Datum,
) -> Result<Parsed, BadRow> {
    if let Some(parsed) = adjacent::parse(rows, object, names, initial) {
        return Ok(parsed);
    }
    let mut numbers = Numbers::with_capacity(object.len() / 2);
    let initial = numbers.number(initial.clone());
    let mut ops = Vec::with_capacity(object.len());
    for row in each(rows, object) {
        let timing = rows.timing(row);
        let f = rows.f(row);
        let action = match names.is_read(f) {
            Some(true) if timing.ret == NEVER => continue,
            // A later branch on the kind, which is as good as random, would cost more than this
            // one.
            Some(read) => {
                let found = rows.datum(row, if read { Field::Output } else { Field::Value });
                if !read && !matches!(found, Datum::Int(_) | Datum::Text(_) | Datum::Bool(_)) {
                    let expected = "the int, str or bool that is written";
                    return Err(BadRow::field(row, "value", &found, expected));
                }
                let value = numbers.number(found);
                if read {
                    Action::Read(value)
                } else {
                    Action::Write(value)
                }
            }
            None if f == "cas" && names == Names::CasRegister => {
                cas(rows, row, timing.ret, &mut numbers)?
            }
            None => return Err(BadRow::f(row, f, names.all())),
        };
        ops.push(RegisterOp {
            row: row as u32,
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

fn cas<'a>(
    rows: &'a dyn Rows,
    at: usize,
    ret: i64,
    numbers: &mut Numbers<'a>,
) -> Result<Action, BadRow> {
    let (from, to) = match (rows.value(at), rows.datum(at, Field::Expected)) {
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
        Datum::Bool(true) | Datum::Int(1) => Ok(Action::Cas(from, to)),
        Datum::Bool(false) | Datum::Int(0) => Ok(Action::CasFailed(from)),
        other => Err(BadRow::field(
            at,
            "output",
            &other,
            "True or 1 (it was set), False or 0 (something else was found)",
        )),
    }
}
