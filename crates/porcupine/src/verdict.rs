//! Defines the request for a decision of one object, and its verdict.

use crate::budget::Limits;
use crate::order::Consistency;
use crate::search::Ended;

/// What to find out about one object.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub consistency: Consistency,
    /// Whether to show why an object is invalid.
    pub witness: bool,
    /// Whether to return a linearization.
    pub linearization: bool,
    /// The row at which a search of the object is known to be stuck, so that only a witness is missing.
    pub stuck: Option<u32>,
    /// The limits of the object.
    pub limits: Limits<'a>,
}

impl Request<'_> {
    /// Creates a request without limits for a verdict with its witness.
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

/// The status of an object, in order of severity. The worst of a history's objects is the
/// history's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Valid,
    Unknown,
    Invalid,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Valid => "VALID",
            Status::Unknown => "UNKNOWN",
            Status::Invalid => "INVALID",
        }
    }
}

/// Why one operation must come before another, or why an operation is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    RealTime,
    ProcessOrder,
    ReadSeesAdd,
    ReadMissesAdd,
    NeverAdded,
    Duplicate,
    ReadSeesWrite,
    /// Both operate on one value, which was written once: no operation on another value comes
    /// between them.
    SameValue,
    NeverWritten,
    /// No order explains this operation and everything before it.
    CannotPlace,
}

impl Why {
    pub fn name(self) -> &'static str {
        match self {
            Why::RealTime => "real-time",
            Why::ProcessOrder => "process-order",
            Why::ReadSeesAdd => "read sees add",
            Why::ReadMissesAdd => "read misses add",
            Why::NeverAdded => "read never-added value",
            Why::Duplicate => "duplicate in read",
            Why::ReadSeesWrite => "read sees write",
            Why::SameValue => "same value",
            Why::NeverWritten => "read never-written value",
            Why::CannotPlace => "cannot be placed",
        }
    }
}

impl Consistency {
    /// Why one operation precedes another under this consistency.
    pub fn why(self) -> Why {
        match self {
            Consistency::Linearizable => Why::RealTime,
            Consistency::Sequential => Why::ProcessOrder,
        }
    }
}

/// One step of an explanation: `from` must come before `to`, because `why`. In a cycle, the last
/// step leads back to the first operation. A step about a single operation has `from == to`. Both
/// are positions in the given history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub from: usize,
    pub to: usize,
    pub why: Why,
    /// The value that is seen, missed, duplicated or never added.
    pub value: Option<i64>,
}

/// The operations that show why a search is stuck.
pub enum Witness {
    /// None were asked for.
    Unasked,
    /// One that none of the others make possible.
    Impossible {
        row: u32,
        /// With those that provide what it found, as far as the model knows.
        rows: Vec<u32>,
    },
    /// Several, of which `failing` cannot be placed.
    Part {
        failing: u32,
        rows: Vec<u32>,
        /// Whether what makes `failing` possible is among them; if not, no search found it.
        supported: bool,
        /// Whether none of them can be dropped; if not, time ran out before.
        smallest: bool,
    },
}

/// The verdict on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub status: Status,
    /// A clause for human readers.
    pub reason: String,
    /// Positions in the given history, ascending; empty unless the status is invalid.
    pub witness: Vec<usize>,
    pub steps: Vec<Step>,
    /// Positions in an order that explains the history, or as much of it as possible; empty unless
    /// it was requested.
    pub order: Vec<usize>,
    /// Further orders if the status is invalid, which together place every operation that can be
    /// placed.
    pub others: Vec<Vec<usize>>,
    /// If the status is invalid: the operation at which no order is left, if that is known.
    pub stuck: Option<usize>,
}

impl Verdict {
    pub fn valid(reason: impl Into<String>) -> Self {
        Self::bare(Status::Valid, reason)
    }

    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::bare(Status::Unknown, reason)
    }

    /// Creates an invalid verdict whose witness is every operation that the steps name.
    pub fn invalid(reason: impl Into<String>, steps: Vec<Step>) -> Self {
        let mut witness: Vec<usize> = steps.iter().flat_map(|s| [s.from, s.to]).collect();
        witness.sort_unstable();
        witness.dedup();
        Self {
            witness,
            steps,
            ..Self::bare(Status::Invalid, reason)
        }
    }

    /// Creates the verdict of a search. `witness` turns the row that could not be placed into the
    /// operations that show why.
    pub fn of_search(ended: Ended, witness: impl FnOnce(u32) -> Witness) -> Self {
        match ended {
            Ended::Explained { order } => Self {
                order: positions(order),
                ..Self::valid("the operations have an order that explains them")
            },
            Ended::GaveUp { why, at, explored } => Self::unknown(format!(
                "{why}: explored {explored} configurations; everything that returned before row {at} is explained"
            )),
            Ended::Stuck { at, order, others } => Self {
                order: positions(order),
                others: others.into_iter().map(positions).collect(),
                stuck: Some(at as usize),
                ..Self::of_witness(at, witness(at))
            },
        }
    }

    fn of_witness(at: u32, witness: Witness) -> Self {
        let mut reason = "no order of the operations explains this one".to_owned();
        let (failing, rows) = match witness {
            Witness::Unasked => (at, vec![at]),
            Witness::Impossible { row, rows } => {
                reason = "no operations, in whatever order, make this one possible".to_owned();
                (row, rows)
            }
            Witness::Part {
                failing,
                rows,
                supported,
                smallest,
            } => {
                if !smallest {
                    reason += "; the witness may not be the smallest (out of time)";
                } else if !supported {
                    reason += "; operations that make it possible were not found";
                }
                (failing, rows)
            }
        };
        let step = Step {
            from: failing as usize,
            to: failing as usize,
            why: Why::CannotPlace,
            value: None,
        };
        let mut witness = positions(rows);
        witness.sort_unstable();
        Self {
            witness,
            ..Self::invalid(reason, vec![step])
        }
    }

    /// Adopts the explanation from a verdict on the same operations.
    pub fn explain(&mut self, explained: Self) {
        if explained.status != Status::Invalid {
            self.reason += "; no witness was found (out of time)";
            return;
        }
        self.reason = explained.reason;
        self.witness = explained.witness;
        self.steps = explained.steps;
    }

    /// Whether the status is invalid and no explanation was searched for.
    pub fn is_unexplained(&self) -> bool {
        let found = self.witness.len() > 1 || (self.witness.len() == 1 && self.stuck.is_none());
        self.status == Status::Invalid && !found
    }

    fn bare(status: Status, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            witness: Vec::new(),
            steps: Vec::new(),
            order: Vec::new(),
            others: Vec::new(),
            stuck: None,
        }
    }
}

fn positions(rows: Vec<u32>) -> Vec<usize> {
    rows.into_iter().map(|row| row as usize).collect()
}
