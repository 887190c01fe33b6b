//! Decides whether concurrent histories are linearizable or sequentially consistent.
//!
//! The library is plain Rust; with the feature `python` it is the extension module
//! `pyporcupine`.

mod allocated;
pub mod arrow;
pub mod budget;
pub mod models;
pub mod objects;
pub mod order;
pub mod partition;
pub mod register;
pub mod request;
pub mod rows;
pub mod search;
pub mod set;
pub mod shrink;
pub mod validate;
pub mod verdict;

#[cfg(feature = "python")]
mod python;
