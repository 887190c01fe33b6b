//! Stops a decision that exceeds its limits.

use crate::budget::Limits;
use crate::rows::BadRow;

/// Why a decision ends early.
pub enum Stop {
    Bad(BadRow),
    /// A limit was reached.
    Spent(&'static str),
}

impl From<BadRow> for Stop {
    fn from(bad: BadRow) -> Self {
        Stop::Bad(bad)
    }
}

/// Number of steps between two looks at the limits.
const STEPS: usize = 4096;

/// Looks at the limits now and then.
pub struct Pace<'a> {
    limits: Limits<'a>,
    steps: usize,
}

impl<'a> Pace<'a> {
    pub fn new(limits: Limits<'a>) -> Self {
        Self { limits, steps: 0 }
    }

    /// Counts steps. Returns an error if a limit was reached.
    #[inline]
    pub fn step(&mut self, steps: usize) -> Result<(), Stop> {
        self.steps += steps;
        if self.steps < STEPS {
            return Ok(());
        }
        self.steps = 0;
        let limits = &self.limits;
        let spent = limits.out_of_time().or_else(|| limits.out_of_memory(0));
        spent.map_or(Ok(()), |reason| Err(Stop::Spent(reason)))
    }
}
