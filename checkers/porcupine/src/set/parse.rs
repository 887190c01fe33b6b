//! Rows as operations on a set.

use super::{Add, History};
use crate::order::NEVER;
use crate::rows::{each, BadRow, Datum, Rows};

/// Reads that never returned say nothing and are left out. O(n + v).
pub fn parse<'a>(rows: &'a dyn Rows, object: &[u32]) -> Result<History<'a>, BadRow> {
    let mut history = History::default();
    for row in each(rows, object) {
        let at = rows.timing(row);
        match rows.f(row) {
            "add" => match rows.value(row) {
                Datum::Int(value) => history.adds.push(Add { at, value }),
                other => {
                    let expected = "an int of 64 bits";
                    return Err(BadRow::field(row, "value", &other, expected));
                }
            },
            "read" if at.ret == NEVER => {}
            "read" => {
                let output = rows.output(row);
                if let Datum::Ints(values) = output {
                    history.push_read(at, values);
                } else if let Some(values) = output.ints() {
                    history.push_read(at, values.into_owned());
                } else {
                    let expected = "a list of ints (ret None: the read never returned)";
                    return Err(BadRow::field(row, "output", &output, expected));
                }
            }
            f => return Err(BadRow::f(row, f, "\"add\" or \"read\"")),
        }
    }
    Ok(history)
}
