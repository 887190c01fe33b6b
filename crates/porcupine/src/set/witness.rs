//! Describes cycles.

use rustc_hash::FxHashSet;

use super::index::Indexed;
use super::History;
use crate::order::Consistency;
use crate::verdict::{Step, Verdict, Why};

/// The shapes of a shortest cycle, with indices of the history's adds and reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cycle {
    /// The read sees the add, yet precedes it.
    Future { r: u32, add: u32 },
    /// The add precedes the read, yet the read misses it.
    Stale { add: u32, r: u32 },
    /// `early` precedes `late`, yet only `early` sees the add.
    Backwards { early: u32, late: u32, add: u32 },
    /// `missed` precedes `add`, yet the read sees only `add`.
    Skipped { missed: u32, add: u32, r: u32 },
    /// Each read sees an add that the other misses.
    Forked { r: usize, s: usize },
}

impl Cycle {
    pub fn operations(&self) -> usize {
        match self {
            Cycle::Future { .. } | Cycle::Stale { .. } => 2,
            Cycle::Backwards { .. } | Cycle::Skipped { .. } => 3,
            Cycle::Forked { .. } => 4,
        }
    }

    /// Returns the invalid verdict that shows the cycle.
    pub fn verdict(
        self,
        history: &History,
        indexed: &Indexed,
        consistency: Consistency,
    ) -> Verdict {
        let edges = Edges {
            history,
            order: consistency.why(),
        };
        match self {
            Cycle::Future { r, add } => Verdict::invalid(
                format!("a read saw the value {} before it was added", edges.value(add)),
                vec![edges.sees(add, r), edges.before(edges.read(r), edges.add(add))],
            ),
            Cycle::Stale { add, r } => Verdict::invalid(
                format!("a read missed the value {}, which had been added before", edges.value(add)),
                vec![edges.before(edges.add(add), edges.read(r)), edges.misses(r, add)],
            ),
            Cycle::Backwards { early, late, add } => Verdict::invalid(
                format!("a read missed the value {}, which an earlier read saw", edges.value(add)),
                vec![
                    edges.before(edges.read(early), edges.read(late)),
                    edges.misses(late, add),
                    edges.sees(add, early),
                ],
            ),
            Cycle::Skipped { missed, add, r } => Verdict::invalid(
                format!(
                    "a read saw the value {} and missed the value {}, which had been added before it",
                    edges.value(add),
                    edges.value(missed)
                ),
                vec![
                    edges.before(edges.add(missed), edges.add(add)),
                    edges.sees(add, r),
                    edges.misses(r, missed),
                ],
            ),
            Cycle::Forked { r, s } => edges.forked(indexed, r as u32, s as u32),
        }
    }
}

/// Returns a value that `more` has and `less` lacks. O(v).
pub(super) fn value_apart(indexed: &Indexed, more: u32, less: u32) -> Option<u32> {
    let has: FxHashSet<u32> = indexed.read(less as usize).collect();
    let values = indexed.read(more as usize);
    values.filter(|v| !has.contains(v)).min()
}

struct Edges<'a> {
    history: &'a History<'a>,
    order: Why,
}

impl Edges<'_> {
    fn add(&self, a: u32) -> usize {
        self.history.adds[a as usize].at.row
    }

    fn read(&self, r: u32) -> usize {
        self.history.reads[r as usize].at.row
    }

    fn value(&self, a: u32) -> i64 {
        self.history.adds[a as usize].value
    }

    fn before(&self, from: usize, to: usize) -> Step {
        Step {
            from,
            to,
            why: self.order,
            value: None,
        }
    }

    fn sees(&self, a: u32, r: u32) -> Step {
        Step {
            from: self.add(a),
            to: self.read(r),
            why: Why::ReadSeesAdd,
            value: Some(self.value(a)),
        }
    }

    fn misses(&self, r: u32, a: u32) -> Step {
        Step {
            from: self.read(r),
            to: self.add(a),
            why: Why::ReadMissesAdd,
            value: Some(self.value(a)),
        }
    }

    fn forked(&self, indexed: &Indexed, r: u32, s: u32) -> Verdict {
        let add_apart = |more, less| {
            let value = value_apart(indexed, more, less).expect("neither contains the other");
            indexed.values[value as usize].first
        };
        let (a, b) = (add_apart(r, s), add_apart(s, r));
        Verdict::invalid(
            format!(
                "of two reads one saw the value {} and missed {}, the other saw {} and missed {}",
                self.value(a),
                self.value(b),
                self.value(b),
                self.value(a)
            ),
            vec![
                self.sees(a, r),
                self.misses(r, b),
                self.sees(b, s),
                self.misses(s, a),
            ],
        )
    }
}
