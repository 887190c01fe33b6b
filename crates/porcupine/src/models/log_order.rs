//! Decides an append-only log whose appended values are all different, in polynomial time.
//!
//! The longest read L gives the order of all values in it; every other read must be a prefix of L.
//! A read of length k gets the level 2k, the append of L\\[j\\] the level 2j+1, and an append that
//! no read saw a level above all others (if it never returned, it did not happen). If no operation
//! precedes one of lower level, sorting by (level, any extension of the order) explains the
//! history; [`crate::set`] has the corresponding proof. Otherwise the two operations contradict a
//! read, and at most one more operation completes the witness.

use rustc_hash::FxHashMap;

use crate::order::{intervals, Consistency, Interval, Timing, NEVER};
use crate::verdict::{Status, Step, Verdict, Why};

/// An append of one value, or a read; values are given by number.
#[derive(Clone, Debug)]
pub struct LogOp {
    pub at: Timing,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    Append(u32),
    Read(Vec<u32>),
}

const ABOVE_ALL: usize = usize::MAX;

/// Returns the verdict; `None` if a value is appended twice. O(n log n + v).
pub fn decide(ops: &[LogOp], consistency: Consistency) -> Option<Verdict> {
    let verdict = first_found(ops, consistency)?;
    if verdict.witness.len() < 2 {
        return Some(verdict);
    }
    // The first witness found may have one operation too many.
    let smaller = verdict.witness.iter().find_map(|&dropped| {
        let rows = verdict.witness.iter().filter(|&&row| row != dropped);
        decide(&restricted(ops, rows), consistency).filter(|v| v.status == Status::Invalid)
    });
    Some(smaller.unwrap_or(verdict))
}

/// Returns the operations of these rows, with reads restricted to the values that they append.
fn restricted<'a>(ops: &[LogOp], rows: impl Iterator<Item = &'a usize>) -> Vec<LogOp> {
    let rows: Vec<usize> = rows.copied().collect();
    let there = |op: &&LogOp| rows.contains(&op.at.row);
    let mut part: Vec<LogOp> = ops.iter().filter(there).cloned().collect();
    let appended = |op: &LogOp| match op.what {
        What::Append(value) => Some(value),
        What::Read(_) => None,
    };
    let appended: Vec<u32> = part.iter().filter_map(appended).collect();
    for op in &mut part {
        if let What::Read(values) = &mut op.what {
            values.retain(|value| appended.contains(value));
        }
    }
    part
}

fn first_found(ops: &[LogOp], consistency: Consistency) -> Option<Verdict> {
    let mut append_of: FxHashMap<u32, usize> = FxHashMap::default();
    for (i, op) in ops.iter().enumerate() {
        if let What::Append(value) = op.what {
            if append_of.insert(value, i).is_some() {
                return None;
            }
        }
    }
    let reads = || {
        ops.iter()
            .enumerate()
            .filter_map(|(i, op)| Some((i, read(op)?)))
    };
    let longest = reads().max_by_key(|(i, values)| (values.len(), usize::MAX - i));
    let (longest_at, longest) = longest.unwrap_or((0, &[]));
    let of = |value: u32| append_of.get(&value).copied();
    if let Some(bad) = illegal_alone(ops, longest_at, longest, of) {
        return Some(bad);
    }
    for (i, values) in reads() {
        if longest.starts_with(values) {
            continue;
        }
        let place = (0..)
            .find(|&p| longest[p] != values[p])
            .expect("they differ");
        let Some(other) = of(values[place]) else {
            return Some(illegal_alone(ops, i, values, of).expect("a value from nowhere"));
        };
        let one = of(longest[place]).expect("checked");
        return Some(forked(ops, longest_at, i, one, other));
    }
    let levels = levels(ops, longest);
    let timings: Vec<Timing> = ops.iter().map(|op| op.at).collect();
    let (places, _) = intervals(&timings, consistency);
    let why = consistency.why();
    Some(match inversion(&places, &levels) {
        None => Verdict::valid("the reads and appends have an order that explains them"),
        Some((early, late)) => {
            let third = match (read(&ops[early]), read(&ops[late])) {
                (Some(_), Some(fewer)) => of(longest[fewer.len()]),
                (None, None) => Some(longest_at),
                _ => None,
            };
            inverted(ops, early, late, third, why)
        }
    })
}

fn read(op: &LogOp) -> Option<&[u32]> {
    match &op.what {
        What::Read(values) => Some(values),
        What::Append(_) => None,
    }
}

/// Returns the verdict on a read that is illegal by itself.
fn illegal_alone(
    ops: &[LogOp],
    at: usize,
    values: &[u32],
    of: impl Fn(u32) -> Option<usize>,
) -> Option<Verdict> {
    let mut places: FxHashMap<u32, usize> = FxHashMap::default();
    let row = ops.get(at)?.at.row;
    for &value in values {
        let Some(append) = of(value) else {
            let text = "a read returned a value that was never appended";
            return Some(Verdict::invalid(
                text,
                vec![step(row, row, Why::NeverAdded)],
            ));
        };
        if places.insert(value, append).is_some() {
            let mut verdict = Verdict::invalid(
                "a read returned a value twice that was appended once",
                vec![step(row, row, Why::Duplicate)],
            );
            verdict.witness = vec![row, ops[append].at.row];
            verdict.witness.sort_unstable();
            return Some(verdict);
        }
    }
    None
}

/// Returns the level of each operation. Appends that did not happen get the lowest level, so that
/// they contradict nothing.
fn levels(ops: &[LogOp], longest: &[u32]) -> Vec<usize> {
    let places = longest.iter().enumerate();
    let place: FxHashMap<u32, usize> = places.map(|(j, &value)| (value, j)).collect();
    let level = |op: &LogOp| match &op.what {
        What::Read(values) => 2 * values.len(),
        What::Append(value) => place.get(value).map_or(ABOVE_ALL, |j| 2 * j + 1),
    };
    ops.iter().map(level).collect()
}

/// Finds an operation that precedes one of lower level. O(n log n).
fn inversion(places: &[Interval], levels: &[usize]) -> Option<(usize, usize)> {
    let mut called: Vec<usize> = (0..places.len()).collect();
    called.sort_by_key(|&i| (places[i].group, places[i].call));
    let mut returned: Vec<usize> = called.clone();
    returned.retain(|&i| places[i].ret != NEVER);
    returned.sort_by_key(|&i| (places[i].group, places[i].ret));
    let mut done = returned.into_iter().peekable();
    let mut highest: Option<usize> = None;
    for &late in &called {
        let at = places[late];
        while let Some(early) =
            done.next_if(|&i| (places[i].group, places[i].ret) < (at.group, at.call))
        {
            if highest
                .is_none_or(|h| places[h].group != places[early].group || levels[early] > levels[h])
            {
                highest = Some(early);
            }
        }
        if let Some(early) = highest.filter(|&h| places[h].group == at.group) {
            if levels[early] > levels[late] {
                return Some((early, late));
            }
        }
    }
    None
}

fn step(from: usize, to: usize, why: Why) -> Step {
    Step {
        from,
        to,
        why,
        value: None,
    }
}

/// Returns the verdict on two reads that differ at one index, with the appends of their values
/// there.
fn forked(ops: &[LogOp], a: usize, b: usize, append_a: usize, append_b: usize) -> Verdict {
    let row = |i: usize| ops[i].at.row;
    let mut verdict = Verdict::invalid(
        "two reads have different values in one place",
        vec![
            step(row(append_a), row(a), Why::ReadSeesAdd),
            step(row(append_b), row(b), Why::ReadSeesAdd),
        ],
    );
    verdict.witness.sort_unstable();
    verdict
}

fn inverted(ops: &[LogOp], early: usize, late: usize, third: Option<usize>, why: Why) -> Verdict {
    let row = |i: usize| ops[i].at.row;
    let before = step(row(early), row(late), why);
    let (reason, steps) = match (read(&ops[early]), read(&ops[late]), third.map(row)) {
        (Some(_), Some(_), Some(append)) => (
            "a read missed a value that an earlier read saw",
            vec![
                before,
                step(row(late), append, Why::ReadMissesAdd),
                step(append, row(early), Why::ReadSeesAdd),
            ],
        ),
        (Some(_), None, _) => (
            "a read saw a value before it was appended",
            vec![before, step(row(late), row(early), Why::ReadSeesAdd)],
        ),
        (None, Some(_), _) => (
            "a read missed a value that had been appended before",
            vec![before, step(row(late), row(early), Why::ReadMissesAdd)],
        ),
        (_, _, read) => (
            "a read saw a value but not, or only after it, one that had been appended before it",
            match read {
                Some(read) => vec![
                    before,
                    step(row(late), read, Why::ReadSeesAdd),
                    step(read, row(early), Why::ReadMissesAdd),
                ],
                None => vec![before],
            },
        ),
    };
    Verdict::invalid(reason, steps)
}
