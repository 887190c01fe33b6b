//! A counter: "add" a number, "read" the sum.

use super::numbers::Actions;
use crate::order::NEVER;
use crate::rows::{prefetch, BadRow, Datum, Rows};
use crate::search::{Model, Op};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Add(i64),
    /// Returned the new sum.
    AddAndGet(i64, i64),
    Read(i64),
}

/// The state is the sum, as the bits of an `i64`.
pub struct Counter {
    initial: i64,
    actions: Vec<Action>,
}

/// Reads that never returned say nothing and are left out. O(n).
pub fn parse(
    rows: &dyn Rows,
    object: &[u32],
    initial: &Datum,
) -> Result<(Counter, Vec<Op>), BadRow> {
    let mut actions = Actions::default();
    let mut ops = Vec::with_capacity(object.len());
    let int = |row: u32, field: &str, datum: Datum| match datum {
        Datum::Int(value) => Ok(value),
        other => Err(BadRow::field(
            row as usize,
            field,
            &other,
            "an int of 64 bits",
        )),
    };
    for (place, &row) in object.iter().enumerate() {
        prefetch(rows, object, place);
        let at = row as usize;
        let timing = rows.timing(at);
        let never = timing.ret == NEVER;
        let action = match rows.f(at) {
            "read" if never => continue,
            "read" => Action::Read(int(row, "output", rows.output(at))?),
            "add" => {
                let by = int(row, "value", rows.value(at))?;
                match rows.output(at) {
                    Datum::Null => Action::Add(by),
                    _ if never => Action::Add(by),
                    sum => Action::AddAndGet(by, int(row, "output", sum)?),
                }
            }
            f => return Err(BadRow::f(at, f, "\"add\" or \"read\"")),
        };
        ops.push(Op {
            row,
            action: actions.number(action),
            call: timing.call,
            ret: timing.ret,
        });
    }
    let initial = match initial {
        Datum::Int(value) => *value,
        _ => 0,
    };
    let actions = actions.all;
    Ok((Counter { initial, actions }, ops))
}

impl Model for Counter {
    fn initial(&mut self) -> u64 {
        self.initial as u64
    }

    #[inline]
    fn step(&mut self, state: u64, action: u32) -> Option<u64> {
        let sum = state as i64;
        match self.actions[action as usize] {
            Action::Add(by) => Some(sum.wrapping_add(by) as u64),
            Action::AddAndGet(by, result) => {
                (sum.wrapping_add(by) == result).then_some(result as u64)
            }
            Action::Read(value) => (sum == value).then_some(state),
        }
    }

    fn pure(&self, action: u32) -> bool {
        matches!(self.actions[action as usize], Action::Read(_))
    }

    fn blind(&self, action: u32) -> bool {
        matches!(self.actions[action as usize], Action::Add(_))
    }

    fn commutes(&self) -> bool {
        true
    }

    fn droppable(&self, action: u32) -> bool {
        self.pure(action)
    }
}
