//! Simulates ZooKeeper and ClickHouse servers on virtual time: one seed is one run.
//!
//! The library is plain Rust; with the feature `python` it is the extension module
//! `pysimulator`.

pub mod block;
pub mod bugs;
mod digits;
pub mod errors;
pub mod interpreter;
pub mod keeper;
pub mod network;
pub mod record;
pub mod seed;
pub mod server;
pub mod simulation;
pub mod sql;
pub mod system_tables;
pub mod table;
pub mod world;

#[cfg(feature = "python")]
mod python;
