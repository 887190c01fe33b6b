//! Replicas of a ReplicatedMergeTree table, as 18.16.1 has them.

pub mod cleanup;
pub mod clone;
pub mod cover;
pub mod entries;
pub mod fetch;
pub mod insert;
pub mod listed;
pub mod merge;
pub mod missing;
pub mod mutation;
pub mod optimize;
pub mod parts;
pub mod paths;
pub mod queue;
pub mod replica;
pub mod schema;
pub mod select;
pub mod selection;
pub mod settings;
pub mod stored;
