//! Models for the search, and faster decisions for some of them.

pub mod bag;
pub mod counter;
mod emptied;
pub mod equal_adds;
pub mod fifo;
pub mod general;
mod lives;
pub mod log;
pub mod log_order;
pub mod multi_register;
pub mod mutex;
pub mod numbers;
pub mod ordered;
pub mod priority;
pub mod queue;
pub mod stack;
pub mod starts;
mod takers;
pub mod text;
