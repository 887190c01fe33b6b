//! Collects the anomalies of a history.

use super::graph::Kinds;
use super::levels::Anomaly;

/// A transaction that precedes another in every order, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub from: u32,
    pub to: u32,
    pub kind: Kinds,
    /// Such as "transaction 2 read transaction 1's append of 5 to key 34".
    pub why: String,
}

/// The instances of one anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub anomaly: Anomaly,
    /// Number of instances.
    pub count: usize,
    /// The transactions of the instance that is shown: those of a cycle in its order, others
    /// ascending.
    pub transactions: Vec<u32>,
    /// The cycle, if it is one.
    pub cycle: Vec<Dependency>,
    /// The instance in sentences.
    pub text: String,
}

/// All anomalies, each once.
#[derive(Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// Counts an instance. `describe` returns the transactions and the text of the first.
    pub fn add(&mut self, anomaly: Anomaly, describe: impl FnOnce() -> (Vec<u32>, String)) {
        if let Some(known) = self.0.iter_mut().find(|known| known.anomaly == anomaly) {
            known.count += 1;
            return;
        }
        let (mut transactions, text) = describe();
        transactions.sort_unstable();
        transactions.dedup();
        self.0.push(Finding {
            anomaly,
            count: 1,
            transactions,
            cycle: Vec::new(),
            text,
        });
    }

    pub fn has(&self, anomaly: Anomaly) -> bool {
        self.0.iter().any(|known| known.anomaly == anomaly)
    }

    pub fn anomalies(&self) -> Vec<Anomaly> {
        self.0.iter().map(|known| known.anomaly).collect()
    }
}
