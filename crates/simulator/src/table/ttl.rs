//! Defines when the rows of a table expire.

use crate::table::parts::{Row, Value};

/// TTL of rows: a column with the time from which a row has expired, in seconds of Unix time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ttl {
    pub column: usize,
}

impl Ttl {
    /// Whether a row has expired at a time.
    pub fn has_expired(&self, row: &Row, now_s: i64) -> bool {
        match &row[self.column] {
            Value::Int(expires_s) => *expires_s <= now_s,
            other => panic!("{other:?} is not a time"),
        }
    }
}
