//! Models that are decided by search.

pub mod counter;
pub mod general;
pub mod log;
pub mod mutex;
pub mod numbers;
pub mod queue;
pub mod text;
