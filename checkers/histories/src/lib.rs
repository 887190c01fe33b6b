//! Keeps histories in columns, checks that they obey the rules, and examines the sets in them.
//!
//! The library is plain Rust. The feature `python` adds the Python module
//! `harness.native.histories`.

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
pub mod unparsed;
pub mod words;

#[cfg(feature = "python")]
pub mod python;
