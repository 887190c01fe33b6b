//! Explores every interleaving of small models of the replication protocol, breadth first.
//!
//! The library is plain Rust. The feature `python` makes it the extension module
//! `harness.native._explorer`.

pub mod fields;
pub mod model;
pub mod models;
pub mod search;
pub mod states;

#[cfg(feature = "python")]
mod python;
