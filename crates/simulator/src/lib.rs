//! Simulates ZooKeeper and ClickHouse servers on virtual time: one seed is one run.
//!
//! The library is plain Rust. The feature `python` adds the Python module
//! `harness.native.simulator`.

pub mod block;
pub mod bugs;
pub mod coverage;
pub mod disk;
pub mod errors;
pub mod keeper;
pub mod link_quality;
pub mod members;
pub mod message_json;
pub mod network;
pub mod protocol;
pub mod protocol_trace;
pub mod server;
pub mod simulation;
pub mod sql;
pub mod store;
pub mod system_tables;
pub mod table;
pub mod transaction_log;
pub mod world;

#[cfg(feature = "python")]
pub mod python;
