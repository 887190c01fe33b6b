//! What models share.

pub mod numbers;
