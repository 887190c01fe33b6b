//! What is asked of a decision.

use std::time::{Duration, Instant};

use crate::order::Consistency;
use crate::search::Limits;

#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub consistency: Consistency,
    /// For each object.
    pub time: Option<Duration>,
    pub bytes: Option<usize>,
    /// Show why an object fails.
    pub witness: bool,
    /// Show in which order an object's operations can be explained.
    pub linearization: bool,
}

impl Request {
    pub fn plain(consistency: Consistency) -> Self {
        Self {
            consistency,
            time: None,
            bytes: None,
            witness: true,
            linearization: false,
        }
    }

    /// The limits of an object that is begun now.
    pub fn limits(&self) -> Limits {
        Limits {
            until: self.time.map(|time| Instant::now() + time),
            bytes: self.bytes,
        }
    }
}
