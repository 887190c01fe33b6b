//! Histories in columns: what their lines say, whether they keep the rules, and what became of sets
//! in them.
//!
//! The library is plain Rust; with the feature `python` it is the extension module
//! `pyhistories`.

pub mod arrow;
pub mod calls;
pub mod findings;
pub mod history;
pub mod lines;
pub mod masks;
pub mod sessions;
pub mod sets;
pub mod stream;
pub mod tally;
pub mod words;

#[cfg(feature = "python")]
mod python;
