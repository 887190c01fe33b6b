//! Decides a register with compare-and-set. A key-value store is one register per key.
//!
//! If all written values are different and there is no compare-and-set, the decision is polynomial
//! ([`clusters`]); otherwise it is a search ([`model`]).

mod adjacent;
mod clusters;
mod decide;
pub mod model;
mod parse;
mod plain;
mod seen;
mod zones;

pub use decide::{decide, decide_plain};
pub use model::{Action, Register, RegisterOp, Value};
pub use parse::{parse, Names, Parsed};
pub use plain::{PlainObject, Plains};
