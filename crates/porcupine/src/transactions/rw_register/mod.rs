//! Registers that transactions write and read.
//!
//! Unlike a list, a value does not show what was there before. Some orders of versions follow from
//! what a transaction did, and others from what a user states about the database ([`Assumptions`]):
//! the initial value comes first; a transaction that read a value and wrote the key replaced that
//! value; keys may be known to be sequential or linearizable each.

mod edges;
mod explain;
mod key;
mod order;

use super::findings::Findings;
use super::history::{History, Outcome, NONE};
use super::levels::Anomaly;
use crate::rows::BadRow;

/// What a user states about the order of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// If a transaction reads a key and writes it, what it wrote is later than what it read.
    pub writes_follow_reads: bool,
    /// Each process finds the versions of a key in their order.
    pub sequential_keys: bool,
    /// A transaction that returned before another was called found no later version of a key.
    pub linearizable_keys: bool,
}

/// The versions of all registers.
pub struct Registers<'a> {
    history: &'a History<'a>,
    /// By operation: the version that it read or wrote; [`NONE`] if it says nothing.
    version: Vec<u32>,
    /// By key: its initial version, which the others follow; then the number of versions.
    starts: Vec<u32>,
    /// By version: the write that made it; [`NONE`] if it was there before, or if that failed.
    writers: Vec<u32>,
    /// By version: whether the same transaction replaced it.
    intermediate: Vec<bool>,
    /// Pairs of versions of a key of which the second is later, ascending, without those of
    /// initial versions.
    later: Vec<(u32, u32)>,
    /// By transaction: whether it happened, as it committed or somebody read what it wrote.
    happened: Vec<bool>,
}

impl<'a> Registers<'a> {
    /// Finds the versions of all keys, and the anomalies that show without a cycle of
    /// transactions. `by_call` are the transactions in the order of their calls.
    pub fn new(
        history: &'a History<'a>,
        by_call: &[u32],
        assumptions: Assumptions,
        findings: &mut Findings,
    ) -> Result<Self, BadRow> {
        let outcomes = history.outcome.iter();
        let mut registers = Self {
            history,
            version: vec![NONE; history.is_read.len()],
            starts: Vec::with_capacity(history.keys.len() + 1),
            writers: Vec::new(),
            intermediate: Vec::new(),
            later: Vec::new(),
            happened: outcomes.map(|&o| o == Outcome::Committed).collect(),
        };
        for key in 0..history.keys.len() {
            registers.starts.push(registers.writers.len() as u32);
            key::Key::new(&mut registers, key, findings).read()?;
        }
        registers.starts.push(registers.writers.len() as u32);
        registers.later = order::later(&registers, by_call, assumptions);
        for key in registers.drop_cycles() {
            findings.add(Anomaly::CyclicVersions, || registers.describe_cycle(key));
        }
        Ok(registers)
    }

    fn transaction(&self, op: u32) -> u32 {
        self.history.transaction[op as usize]
    }

    /// Returns the transaction that made a version, if it happened.
    fn maker(&self, version: u32) -> Option<u32> {
        let writer = self.writers[version as usize];
        let maker = (writer != NONE).then(|| self.transaction(writer))?;
        self.happened[maker as usize].then_some(maker)
    }

    fn is_initial(&self, version: u32) -> bool {
        self.starts.binary_search(&version).is_ok()
    }

    /// Returns the versions of a key but for the initial one.
    fn written(&self, key: usize) -> std::ops::Range<u32> {
        self.starts[key] + 1..self.starts[key + 1]
    }
}
