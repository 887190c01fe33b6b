//! Models an append-only log: "append" appends a value, "read" returns all values in order.

use rustc_hash::{FxHashMap, FxHashSet};

use super::log_order::{LogOp, What};
use super::numbers::{Actions, Numbers};
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};
use crate::search::{Model, Op};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Append(u32),
    /// Returned the log of this number.
    Read(u32),
}

/// The state is the number of a log: a node in a tree in which each log's parent is the log without
/// its last value. Equal logs are therefore the same node, and no log is copied. Only prefixes of
/// logs that were read are distinguished, because no read can tell any others apart.
pub struct Log {
    actions: Vec<Action>,
    longer: FxHashMap<(u32, u32), u32>,
    logs: u32,
    /// By number of a log, the empty one excluded: its parent and its last value.
    last: Vec<(u32, u32)>,
}

/// Stands for every log that is not a prefix of a read.
const UNREAD: u32 = u32::MAX;

/// Parses the operations. Reads that never returned say nothing and are skipped. O(n + v) for v
/// values in all reads.
pub fn parse(rows: &dyn Rows, object: &[u32]) -> Result<Vec<LogOp>, BadRow> {
    let mut values = Numbers::default();
    let mut ops = Vec::with_capacity(object.len());
    for row in each(rows, object) {
        let at = rows.timing(row);
        let what = match rows.f(row) {
            "append" => match rows.value(row) {
                value @ (Datum::Int(_) | Datum::Text(_)) => What::Append(values.number(value)),
                other => return Err(BadRow::field(row, "value", &other, "an int or a str")),
            },
            "read" if at.ret == NEVER => continue,
            "read" => What::Read(match rows.output(row) {
                Datum::Ints(ints) => {
                    let items = ints.iter().map(|&i| values.number(Datum::Int(i)));
                    items.collect()
                }
                Datum::List(items) => {
                    let items = items.into_vec().into_iter().map(|i| values.number(i));
                    items.collect()
                }
                other => return Err(BadRow::field(row, "output", &other, "a list")),
            }),
            f => return Err(BadRow::f(row, f, "\"append\" or \"read\"")),
        };
        ops.push(LogOp { at, what });
    }
    Ok(ops)
}

/// Numbers the operations for the search. O(n + v).
pub fn numbered(ops: &[LogOp]) -> (Log, Vec<Op>) {
    let mut actions = Actions::default();
    let mut log = Log {
        actions: Vec::new(),
        longer: FxHashMap::default(),
        logs: 1,
        last: Vec::new(),
    };
    let number = |op: &LogOp| {
        let action = match &op.what {
            What::Append(value) => Action::Append(*value),
            What::Read(values) => Action::Read(
                values
                    .iter()
                    .fold(0, |node, &value| log.insert(node, value)),
            ),
        };
        Op {
            row: op.at.row as u32,
            action: actions.number(action),
            call: op.at.call,
            ret: op.at.ret,
        }
    };
    let numbered = ops.iter().map(number).collect();
    log.actions = actions.all;
    log.last = vec![(0, 0); log.longer.len()];
    for (&before, &longer) in &log.longer {
        log.last[longer as usize - 1] = before;
    }
    (log, numbered)
}

impl Log {
    /// Returns the number of `log` with `value` appended, a prefix of some read.
    fn insert(&mut self, log: u32, value: u32) -> u32 {
        let next = *self.longer.entry((log, value)).or_insert(self.logs);
        if next == self.logs {
            self.logs += 1;
        }
        next
    }
}

impl Model for Log {
    fn initial(&mut self) -> u64 {
        0
    }

    fn step(&mut self, state: u64, action: u32) -> Option<u64> {
        match self.actions[action as usize] {
            Action::Append(value) => {
                let longer = self.longer.get(&(state as u32, value));
                Some(longer.copied().unwrap_or(UNREAD).into())
            }
            Action::Read(log) => (state == u64::from(log)).then_some(state),
        }
    }

    fn pure(&self, action: u32) -> bool {
        matches!(self.actions[action as usize], Action::Read(_))
    }

    fn blind(&self, action: u32) -> bool {
        matches!(self.actions[action as usize], Action::Append(_))
    }

    fn blank(&self, state: u64) -> bool {
        state == u64::from(UNREAD)
    }

    /// Keeps the reads all of whose values are appended.
    fn close(&self, part: &mut Vec<Op>) {
        let mut appended: FxHashSet<u32> = FxHashSet::default();
        for op in part.iter() {
            if let Action::Append(value) = self.actions[op.action as usize] {
                appended.insert(value);
            }
        }
        let mut there = vec![true];
        for &(before, value) in &self.last {
            there.push(there[before as usize] && appended.contains(&value));
        }
        part.retain(|op| match self.actions[op.action as usize] {
            Action::Append(_) => true,
            Action::Read(log) => there[log as usize],
        });
    }
}
