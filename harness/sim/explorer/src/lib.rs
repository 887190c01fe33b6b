//! Explores every interleaving of small models of the replication protocol, breadth first.
//!
//! The library is plain Rust; with the feature `python` it is the extension module
//! `pyexplorer`.

pub mod fields;
pub mod model;
pub mod models;
pub mod search;
pub mod states;

#[cfg(feature = "python")]
mod python;
