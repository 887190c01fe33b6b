//! Decides whether concurrent histories are linearizable or sequentially consistent.
//!
//! The library is plain Rust. The feature `python` makes it the extension module
//! `pyporcupine._pyporcupine`.

mod allocated;
pub mod arrow;
pub mod budget;
pub mod clock;
pub mod datum;
pub mod invariants;
pub mod models;
pub mod objects;
pub mod order;
pub mod partition;
pub mod process;
pub mod register;
pub mod rows;
pub mod search;
pub mod set;
pub mod shrink;
mod support;
pub mod transactions;
pub mod validate;
pub mod verdict;

#[cfg(feature = "python")]
mod python;
