//! Decides a grow-only set in polynomial time: `add` adds one value, `read` returns the whole set.
//!
//! # Why the graph is enough
//!
//! Let ≺ be the order that must be respected (real time or process order). A linearization is a
//! total order that extends ≺ in which each read returns exactly the values added before it. It
//! must place every add before the reads that see its value, and every read before the adds whose
//! value it misses. Suppose first that each value is added once.
//!
//! *Necessary.* These edges together with ≺ form no cycle. In particular the reads are a chain
//! under inclusion: if R has `a` but not `b`, and S has `b` but not `a`, then a → R → b → S → a is
//! a cycle.
//!
//! *Sufficient.* Let the reads be a chain with the distinct contents C₁ ⊂ C₂ ⊂ …. A read of Cₖ gets
//! the level 2k, an add that is first seen in Cₖ the level 2k−1, and an add that no read sees a
//! level above all others (one that never returned is left out: it never took effect). Every
//! sees/misses edge goes up in level. If no pair x ≺ y goes down in level, then sorting by (level,
//! any extension of ≺) respects ≺, and a read of Cₖ comes after exactly the adds of level below 2k,
//! which are those of Cₖ. If some pair x ≺ y goes down, there is a cycle: y and x are a read and an
//! add, or one lies between their levels, so that y → x or y → z → x.
//!
//! So a shortest cycle has at most one ≺ edge and at most four operations ([`witness`]). The proof
//! uses only that ≺ is transitive, so it holds for both consistencies.
//!
//! A value added several times is in the set from the first of its adds that takes effect. In real
//! time we may assume that this is the add that was called first: whatever precedes it precedes the
//! others too, so it can be moved to just before whichever came first (or, if it never returned,
//! inserted there). All adds that returned must still follow the reads that miss the value; the one
//! that returned first is the strongest constraint. In process order no such choice is safe, and
//! [`schedule`] decides instead.

mod chain;
mod index;
mod linearize;
mod pairs;
mod schedule;
mod shrink;
mod sweep;
mod witness;

use std::borrow::Cow;

use crate::datum::Datum;
use crate::order::{intervals, Consistency, Timing, NEVER};
use crate::rows::{each, BadRow, Rows};
use crate::verdict::Verdict;
use index::Indexed;
pub use linearize::linearization;
use witness::Cycle;

/// An add of one value.
#[derive(Clone, Copy, Debug)]
pub struct Add {
    pub at: Timing,
    pub value: i64,
}

/// A read that returned, and its values.
#[derive(Clone, Debug)]
pub struct Read<'a> {
    pub at: Timing,
    pub values: Cow<'a, [i64]>,
}

/// The operations on one set, in any order, without reads that never returned, which say nothing.
#[derive(Clone, Debug, Default)]
pub struct History<'a> {
    pub adds: Vec<Add>,
    pub reads: Vec<Read<'a>>,
}

impl<'a> History<'a> {
    /// Appends a read that returned `values`.
    pub fn push_read(&mut self, at: Timing, values: impl Into<Cow<'a, [i64]>>) {
        let values = values.into();
        self.reads.push(Read { at, values });
    }
}

/// Parses the operations of one set. Reads that never returned say nothing and are skipped. O(n + v).
pub fn parse<'a>(rows: &'a dyn Rows, object: &[u32]) -> Result<History<'a>, BadRow> {
    let mut history = History::default();
    for row in each(rows, object) {
        let at = rows.timing(row);
        match rows.f(row) {
            "add" => match rows.value(row) {
                Datum::Int(value) => history.adds.push(Add { at, value }),
                other => {
                    let expected = "an int of 64 bits";
                    return Err(BadRow::field(row, "value", &other, expected));
                }
            },
            "read" if at.ret == NEVER => {}
            "read" => {
                let output = rows.output(row);
                if let Datum::Ints(values) = output {
                    history.push_read(at, values);
                } else if let Some(values) = output.ints() {
                    history.push_read(at, values.into_owned());
                } else {
                    let expected = "a list of ints (ret None: the read never returned)";
                    return Err(BadRow::field(row, "output", &output, expected));
                }
            }
            f => return Err(BadRow::f(row, f, "\"add\" or \"read\"")),
        }
    }
    Ok(history)
}

/// Decides one set. O(n log n + v), where v is the number of values in all reads together.
///
/// The witness is a smallest one: with the reads restricted to the values that the witness's adds
/// add, it is illegal, but no longer so if any of its operations is dropped.
pub fn decide(history: &History, consistency: Consistency) -> Verdict {
    let indexed = Indexed::new(history);
    let grown = chain::grown(&indexed);
    if grown.is_none() {
        if let Err(bad_read) = indexed.check_reads() {
            return *bad_read;
        }
    }
    let timings: Vec<Timing> = history
        .adds
        .iter()
        .map(|a| a.at)
        .chain(history.reads.iter().map(|r| r.at))
        .collect();
    let (places, groups) = intervals(&timings, consistency);
    let (add_at, read_at) = places.split_at(history.adds.len());
    let order = Placed {
        add_at,
        read_at,
        groups,
    };
    if consistency == Consistency::Sequential && indexed.repeats {
        return shrink::decide(history, &indexed, &order);
    }
    let cycle = match grown {
        Some(levels) => sweep::shortest(&indexed, &order, &levels),
        None => find_cycle(&indexed, &order),
    };
    match cycle {
        None => Verdict::valid("the reads and adds have an order that explains them"),
        Some(cycle) => cycle.verdict(history, &indexed, consistency),
    }
}

/// The interval of each add and each read.
struct Placed<'a> {
    add_at: &'a [crate::order::Interval],
    read_at: &'a [crate::order::Interval],
    groups: usize,
}

fn find_cycle(indexed: &Indexed, order: &Placed) -> Option<Cycle> {
    match chain::levels(indexed) {
        Ok(levels) => sweep::shortest(indexed, order, &levels),
        Err((r, s)) => pairs::shortest(indexed, order).or(Some(Cycle::Forked { r, s })),
    }
}
