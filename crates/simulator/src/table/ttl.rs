//! Defines when the rows of a table expire.

use crate::table::parts::{Row, Value};

/// TTL of rows: `toDateTime(if(column % divisor = rest, then, otherwise))`, in seconds of Unix time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ttl {
    pub column: usize,
    pub divisor: i64,
    pub rest: i64,
    pub then_s: i64,
    pub otherwise_s: i64,
}

impl Ttl {
    /// Whether a row has expired at a time.
    pub fn has_expired(&self, row: &Row, now_s: i64) -> bool {
        let is_struck = match &row[self.column] {
            Value::Int(number) => number % self.divisor == self.rest,
            other => panic!("{other:?} is not a number"),
        };
        let until_s = if is_struck {
            self.then_s
        } else {
            self.otherwise_s
        };
        until_s <= now_s
    }
}
