//! ZooKeeper: an ensemble of servers, and the sessions of their clients.

pub mod agreed;
pub mod clients;
pub mod messages;
mod names;
mod operation;
pub mod paths;
mod reading;
pub mod server;
pub mod session;
pub mod tree;
