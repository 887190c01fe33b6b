//! Defines a history of transactions as columns, and checks that it is one.

use rustc_hash::FxHashMap;

use crate::clock::Clock;
use crate::order::NEVER;
use crate::partition::Partition;
use crate::process::shown;
use crate::rows::BadRow;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// Nobody knows. It committed if somebody read what it wrote.
    Unknown,
    Aborted,
}

/// The contents of micro-operations, by position.
pub trait Contents: Sync {
    /// Returns the element that an append adds, or the value that a write writes.
    fn value(&self, op: usize) -> i64;
    /// Returns the list that a read found; of a register, its value, or nothing if it had none.
    fn read(&self, op: usize) -> &[i64];
    /// Returns a key and a value as texts.
    fn key_text(&self, key: usize) -> String;
    fn value_text(&self, value: i64) -> String;
}

/// A history of n transactions with m micro-operations.
pub struct History<'a> {
    /// What the times are.
    pub clock: Clock,
    /// By transaction.
    pub process: Vec<i64>,
    pub call: Vec<i64>,
    /// [`NEVER`] if the outcome is unknown.
    pub ret: Vec<i64>,
    pub outcome: Vec<Outcome>,
    /// By transaction: its first micro-operation; then m.
    pub starts: Vec<u32>,
    /// By micro-operation: its transaction.
    pub transaction: Vec<u32>,
    /// By micro-operation: whether it is a read. The others append or write.
    pub is_read: Vec<bool>,
    /// The micro-operations of each key, ascending.
    pub keys: Partition,
    pub contents: &'a dyn Contents,
}

impl History<'_> {
    pub fn len(&self) -> usize {
        self.process.len()
    }

    pub fn is_empty(&self) -> bool {
        self.process.is_empty()
    }

    /// Returns the positions of a transaction's micro-operations.
    pub fn ops(&self, transaction: u32) -> std::ops::Range<usize> {
        let at = transaction as usize;
        self.starts[at] as usize..self.starts[at + 1] as usize
    }

    /// Returns what an operation appends or writes as text.
    pub fn written(&self, op: u32) -> String {
        self.contents.value_text(self.contents.value(op as usize))
    }

    pub fn outcome_of(&self, op: u32) -> Outcome {
        self.outcome[self.transaction[op as usize] as usize]
    }

    /// Whether the operation is a read of a transaction that committed, so that it says something.
    pub fn is_committed_read(&self, op: u32) -> bool {
        self.is_read[op as usize] && self.outcome_of(op) == Outcome::Committed
    }

    /// Splits the operations on one key by transaction, in order.
    pub fn runs<'b>(&'b self, ops: &'b [u32]) -> impl Iterator<Item = &'b [u32]> {
        ops.chunk_by(|&a, &b| self.transaction[a as usize] == self.transaction[b as usize])
    }

    /// Returns the transactions in the order of their calls, and by transaction the next one of the
    /// same process that may have happened, or [`NONE`].
    ///
    /// A process has one transaction in flight, and none after one of unknown outcome.
    pub fn by_call(&self) -> Result<(Vec<u32>, Vec<u32>), BadRow> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        if !self.call.is_sorted() {
            order.sort_by_key(|&at| self.call[at as usize]);
        }
        let mut next = vec![NONE; self.len()];
        let mut last: FxHashMap<i64, u32> = FxHashMap::default();
        let mut effective: FxHashMap<i64, u32> = FxHashMap::default();
        for &at in &order {
            let row = at as usize;
            let process = self.process[row];
            if self.ret[row] < self.call[row] {
                let text = format!(
                    "ret is {}, expected at least its call, {}",
                    self.clock.text(self.ret[row]),
                    self.clock.text(self.call[row])
                );
                return Err(BadRow { row, text });
            }
            if let Some(before) = last.insert(process, at) {
                if self.ret[before as usize] > self.call[row] {
                    let ended = match self.ret[before as usize] {
                        NEVER => "whose outcome is unknown: give the client a new name".to_owned(),
                        ret => format!("which returned at {}", self.clock.text(ret)),
                    };
                    let text = format!(
                        "call is {}, expected process{} to have no transaction in flight; it has \
                         that of row {before}, {ended}",
                        self.clock.text(self.call[row]),
                        shown(process),
                    );
                    return Err(BadRow { row, text });
                }
            }
            if self.outcome[row] != Outcome::Aborted {
                if let Some(before) = effective.insert(process, at) {
                    next[before as usize] = at;
                }
            }
        }
        Ok((order, next))
    }
}

/// The number of no transaction, of no operation.
pub const NONE: u32 = u32::MAX;
