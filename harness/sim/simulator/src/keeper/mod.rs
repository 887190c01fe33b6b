//! ZooKeeper: an ensemble of servers, and the sessions of their clients.

pub mod clients;
pub mod messages;
mod operation;
pub mod server;
pub mod session;
pub mod tree;
