//! Decides whether concurrent histories are linearizable or sequentially consistent.
//!
//! The library is plain Rust; with the feature `python` it is the extension module
//! `pyporcupine`.

pub mod order;
pub mod set;
pub mod verdict;

#[cfg(feature = "python")]
mod python;
