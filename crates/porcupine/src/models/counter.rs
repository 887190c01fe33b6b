//! Models a counter: "add" adds a number, "read" returns the sum.

use super::numbers::Actions;
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};
use crate::search::{Model, Op};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Add(i64),
    /// Returned the sum after the addition.
    AddAndGet(i64, i64),
    Read(i64),
}

/// The state is the sum, as the bits of an `i64`.
pub struct Counter {
    pub(super) initial: i64,
    pub(super) actions: Vec<Action>,
}

/// Parses the operations. Reads that never returned say nothing and are skipped. O(n).
pub fn parse(
    rows: &dyn Rows,
    object: &[u32],
    initial: &Datum,
) -> Result<(Counter, Vec<Op>), BadRow> {
    let mut actions = Actions::default();
    let mut ops = Vec::with_capacity(object.len());
    let int = |row: usize, field: &str, datum: Datum| match datum {
        Datum::Int(value) => Ok(value),
        other => Err(BadRow::field(row, field, &other, "an int of 64 bits")),
    };
    for at in each(rows, object) {
        let timing = rows.timing(at);
        let never = timing.ret == NEVER;
        let action = match rows.f(at) {
            "read" if never => continue,
            "read" => Action::Read(int(at, "output", rows.output(at))?),
            "add" => {
                let by = int(at, "value", rows.value(at))?;
                match rows.output(at) {
                    Datum::Null => Action::Add(by),
                    _ if never => Action::Add(by),
                    sum => Action::AddAndGet(by, int(at, "output", sum)?),
                }
            }
            f => return Err(BadRow::f(at, f, "\"add\" or \"read\"")),
        };
        ops.push(Op {
            row: at as u32,
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

    /// Keeps the reads whose sum lies between the least and the greatest possible one and differs
    /// from the initial one by a multiple of the greatest common divisor of all additions.
    fn close(&self, part: &mut Vec<Op>) {
        loop {
            let (mut least, mut most, mut divisor) = (0, 0, 0);
            for op in part.iter() {
                let action = self.actions[op.action as usize];
                if let Action::Add(by) | Action::AddAndGet(by, _) = action {
                    least += i128::from(by.min(0));
                    most += i128::from(by.max(0));
                    divisor = gcd(divisor, by.unsigned_abs());
                }
            }
            let fits = |sum: i64| {
                let apart = i128::from(sum) - i128::from(self.initial);
                let multiple = match divisor {
                    0 => apart == 0,
                    _ => apart % i128::from(divisor) == 0,
                };
                multiple && (least..=most).contains(&apart)
            };
            let before = part.len();
            part.retain(|op| match self.actions[op.action as usize] {
                Action::Add(_) => true,
                Action::AddAndGet(_, sum) | Action::Read(sum) => fits(sum),
            });
            if part.len() == before {
                return;
            }
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}
