//! Models zero-copy replication over S3 as first described: replicas share a part's copy in S3 by
//! fetching only metadata, and locks in ZooKeeper say who uses a copy.

mod judgement;
mod model;
mod removal;
mod rules;
mod sharing;
mod world;
mod writing;

pub use model::ZeroCopy;
pub use rules::{FIXES, MUTANTS};
