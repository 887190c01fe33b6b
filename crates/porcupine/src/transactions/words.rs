//! Names the operations and the outcomes of transactions, as histories spell them.

use super::history::Outcome;

/// What an outcome may be.
pub const OUTCOMES: &str = "\"ok\", \"info\" or \"fail\"";

/// Returns the outcome of a name.
pub fn outcome(kind: &str) -> Option<Outcome> {
    match kind {
        "ok" => Some(Outcome::Committed),
        "info" => Some(Outcome::Unknown),
        "fail" => Some(Outcome::Aborted),
        _ => None,
    }
}

/// Whether a micro-operation is a read; `None` if the model has no such operation.
pub fn is_read(f: &str, lists: bool) -> Option<bool> {
    match f {
        "r" | "read" => Some(true),
        "append" if lists => Some(false),
        "w" | "write" if !lists => Some(false),
        _ => None,
    }
}

/// What an operation may be.
pub fn expected(lists: bool) -> &'static str {
    match lists {
        true => "\"append\" or \"r\", the operations of list-append",
        false => "\"w\" or \"r\", the operations of rw-register",
    }
}
