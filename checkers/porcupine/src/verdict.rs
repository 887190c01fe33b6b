//! What is concluded of one object of a history.

use crate::search::Ended;

/// In order of severity; the worst of a history's objects is the history's.
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

/// Why one operation must come before another, or why one cannot be at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    RealTime,
    ProcessOrder,
    ReadSeesAdd,
    ReadMissesAdd,
    NeverAdded,
    Duplicate,
    ReadSeesWrite,
    /// Both are about one value, which was written once: nothing about another value comes
    /// between them.
    SameValue,
    NeverWritten,
    /// The operation at which no order is left that explains everything before it.
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

/// One step of an explanation: `from` must come before `to`, because `why`. In a cycle the
/// last step leads back to the first operation. A step about a single operation has
/// `from == to`. Both are positions in the history that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub from: usize,
    pub to: usize,
    pub why: Why,
    /// The value that is seen, missed, doubled or never added.
    pub value: Option<i64>,
}

/// The conclusion about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub status: Status,
    /// One clause for people.
    pub reason: String,
    /// Positions in the given history, ascending; empty unless invalid.
    pub witness: Vec<usize>,
    pub steps: Vec<Step>,
    /// Positions in an order that explains the history, or as much of it as can be; empty unless
    /// it was asked for.
    pub order: Vec<usize>,
    /// Others like it, which have among them what can be placed where it is invalid.
    pub others: Vec<Vec<usize>>,
    /// Where it is invalid: the operation at which no order is left, if that was found out.
    pub stuck: Option<usize>,
}

impl Verdict {
    pub fn valid(reason: impl Into<String>) -> Self {
        Self::bare(Status::Valid, reason)
    }

    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::bare(Status::Unknown, reason)
    }

    /// An invalid verdict whose witness is every operation that its steps name.
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

    /// The verdict of a search. `witness` makes of the row that could not be placed the rows that
    /// show why, and tells whether none of them can be dropped.
    pub fn of_search(ended: Ended, witness: impl FnOnce(u32) -> (Vec<u32>, bool)) -> Self {
        match ended {
            Ended::Explained { order } => Self {
                order: positions(order),
                ..Self::valid("the operations have an order that explains them")
            },
            Ended::GaveUp { why, at, explored } => Self::unknown(format!(
                "{why}: explored {explored} configurations, and explained what returned before row {at}"
            )),
            Ended::Stuck { at, order, others } => {
                let (rows, smallest) = witness(at);
                let mut reason = "no order of the operations explains this one".to_owned();
                if !smallest {
                    reason += "; the witness may not be the smallest (out of time)";
                }
                let step = Step {
                    from: at as usize,
                    to: at as usize,
                    why: Why::CannotPlace,
                    value: None,
                };
                let mut witness = positions(rows);
                witness.sort_unstable();
                Self {
                    witness,
                    order: positions(order),
                    others: others.into_iter().map(positions).collect(),
                    stuck: Some(at as usize),
                    ..Self::invalid(reason, vec![step])
                }
            }
        }
    }

    /// Takes over what shows why it is invalid, from a verdict on the same operations.
    pub fn explain(&mut self, explained: Self) {
        if explained.status != Status::Invalid {
            self.reason += "; what shows why was not found (out of time)";
            return;
        }
        self.reason = explained.reason;
        self.witness = explained.witness;
        self.steps = explained.steps;
    }

    /// Whether it is invalid, and what shows why was not looked for.
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
