//! Keeps histories in columns, checks that they obey the rules, examines the sets in them, and writes
//! their lines.
//!
//! The library is plain Rust. The feature `python` adds the Python module
//! `harness.native.histories`.

pub mod arrow;
pub mod batch;
pub mod calls;
pub mod digits;
pub mod findings;
pub mod history;
pub mod journal;
mod kind;
pub mod lines;
pub mod masks;
pub mod selection;
pub mod sessions;
pub mod sets;
pub mod stream;
pub mod tally;
pub mod words;
pub mod write;

#[cfg(feature = "python")]
pub mod python;
