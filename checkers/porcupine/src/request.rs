//! What is asked of a decision.

use crate::budget::Limits;
use crate::order::Consistency;

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub consistency: Consistency,
    /// Show why an object fails.
    pub witness: bool,
    /// Show in which order an object's operations can be explained.
    pub linearization: bool,
    /// The row at which the object is known to be stuck: there is nothing to decide, only to show.
    pub stuck: Option<u32>,
    /// Those of the object.
    pub limits: Limits<'a>,
}

impl Request<'_> {
    pub fn plain(consistency: Consistency) -> Self {
        Self {
            consistency,
            witness: true,
            linearization: false,
            stuck: None,
            limits: Limits::default(),
        }
    }
}
