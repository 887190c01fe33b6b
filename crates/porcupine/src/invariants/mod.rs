//! Decides invariants of histories: rules that count and compare, and need no order of all
//! operations. Each is a checker by the same name of Jepsen (`jepsen.checker`, and `bank`, `kafka` and
//! `long-fork` of `jepsen.tests`) or of Maelstrom (`pn-counter`).
//!
//! An invariant is weaker than linearizability, so that it also suits what is only eventually
//! consistent, and it is decided in O(n log n + v), where v is the number of values in all reads.

mod answer;
mod bank;
mod counter_bounds;
mod kafka;
mod long_fork;
mod pace;
mod set_full;
mod total_queue;
mod unique_ids;

pub use answer::{Answer, Finding};

use crate::budget::Budget;
use crate::partition::Partition;
use crate::rows::{BadRow, Rows};
use pace::{Pace, Stop};

/// The invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    TotalQueue,
    UniqueIds,
    CounterBounds,
    Bank,
    SetFull,
    LongFork,
    PnCounter,
    Kafka,
}

impl Invariant {
    pub const NAMES: [(&'static str, Invariant); 8] = [
        ("total-queue", Invariant::TotalQueue),
        ("unique-ids", Invariant::UniqueIds),
        ("counter-bounds", Invariant::CounterBounds),
        ("bank", Invariant::Bank),
        ("set-full", Invariant::SetFull),
        ("long-fork", Invariant::LongFork),
        ("pn-counter", Invariant::PnCounter),
        ("kafka", Invariant::Kafka),
    ];

    pub fn from_name(name: &str) -> Option<Invariant> {
        let found = Self::NAMES.iter().find(|(n, _)| *n == name);
        found.map(|&(_, invariant)| invariant)
    }
}

/// What a user may state beside the history.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// counter-bounds: the value before the first addition; bank: the sum of all accounts.
    pub initial: Option<i64>,
    /// bank: whether a balance may be negative.
    pub negative_balances: bool,
    /// set-full: whether a read must show each element that was known before its call.
    pub linearizable: bool,
}

/// Decides the rows of one object.
fn decide(
    rows: &dyn Rows,
    object: &[u32],
    (invariant, options): (Invariant, Options),
    pace: &mut Pace,
) -> Result<Answer, Stop> {
    match invariant {
        Invariant::TotalQueue => total_queue::decide(rows, object, pace),
        Invariant::UniqueIds => unique_ids::decide(rows, object, pace),
        Invariant::CounterBounds => counter_bounds::decide(rows, object, options, false, pace),
        Invariant::PnCounter => counter_bounds::decide(rows, object, options, true, pace),
        Invariant::Kafka => kafka::decide(rows, object, pace),
        Invariant::Bank => bank::decide(rows, object, options, pace),
        Invariant::SetFull => set_full::decide(rows, object, options, pace),
        Invariant::LongFork => long_fork::decide(rows, object, pace),
    }
}

/// Decides all objects, one after the other, within a budget. The `Err` is the first bad row of the
/// first object that has one.
pub fn decide_all(
    rows: &dyn Rows,
    objects: &Partition,
    what: (Invariant, Options),
    budget: &Budget,
) -> Result<Vec<Answer>, BadRow> {
    let mut answers = Vec::with_capacity(objects.len());
    for (place, object) in objects.iter().enumerate() {
        let mut pace = Pace::new(budget.to_decide(objects.len() - place, 1));
        answers.push(match decide(rows, object, what, &mut pace) {
            Ok(answer) => answer,
            Err(Stop::Bad(row)) => return Err(row),
            Err(Stop::Spent(reason)) => Answer::unknown(reason),
        });
    }
    Ok(answers)
}
