//! A register, with compare-and-set; a key-value store is one a key.
//!
//! Where every written value is different and nothing is compared and set, the decision is
//! polynomial ([`clusters`]); else it is searched for ([`model`]).

mod clusters;
mod decide;
mod minimal;
pub mod model;
mod near;
mod parse;
mod plain;
mod seen;
mod zones;

pub use decide::{decide, decide_plain};
use minimal::smallest;
pub use model::{Action, Register, Value};
pub use parse::{parse, Names, Parsed};
pub use plain::{PlainObject, Plains};

/// An operation on one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterOp {
    /// Position in the history that was given.
    pub row: u32,
    pub action: Action,
    pub call: i64,
    /// [`crate::order::NEVER`]: may take effect at any time after its call, or never.
    pub ret: i64,
}
