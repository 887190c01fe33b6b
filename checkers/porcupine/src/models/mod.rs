//! Models that are decided by search, and what of them can be decided faster.

pub mod bag;
pub mod counter;
pub mod fifo;
pub mod general;
pub mod log;
pub mod log_order;
pub mod multi_register;
pub mod mutex;
pub mod numbers;
pub mod queue;
pub mod starts;
pub mod text;
