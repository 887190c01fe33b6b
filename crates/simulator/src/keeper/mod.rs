//! Simulates ZooKeeper: an ensemble of servers, and the sessions of their clients.

pub mod agreed;
pub mod clients;
pub mod configuration;
pub mod connection;
pub mod data;
pub mod ensemble;
pub mod message_log;
pub mod messages;
mod names;
mod operation;
pub mod paths;
mod reading;
pub mod server;
pub mod session;
pub mod tree;
