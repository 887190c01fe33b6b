//! Decides process order with values added more than once, and minimizes the witness by deletion.

use super::index::Indexed;
use super::witness::Cycle;
use super::{chain, schedule, History, Placed};
use crate::order::{intervals, Consistency, Timing};
use crate::verdict::{Step, Verdict, Why};

/// Number of values and operations that the deletion may examine before it settles for the current
/// witness.
const WORK_MAX: usize = 300_000_000;

pub(super) fn decide(history: &History, indexed: &Indexed, order: &Placed) -> Verdict {
    let levels = match chain::levels(indexed) {
        Ok(levels) => levels,
        Err((r, s)) => {
            // The verdict rests on one add of each value; without the others it stays illegal.
            let forked = Cycle::Forked { r, s };
            let whole = forked.verdict(history, indexed, Consistency::Sequential);
            return deleted(history, whole.witness.clone()).map_or(whole, |w| smaller(history, w));
        }
    };
    if schedule::explains(indexed, order, &levels) {
        return Verdict::valid("the reads and adds have an order that explains them");
    }
    let adds = history.adds.iter().map(|a| a.at.row);
    let reads = history.reads.iter().map(|r| r.at.row);
    let all: Vec<usize> = adds.chain(reads).collect();
    let rows = deleted(history, all.clone()).unwrap_or(all);
    smaller(history, rows)
}

/// Returns the verdict on these rows alone: a cycle if no value is added twice, otherwise a list of
/// operations.
fn smaller(history: &History, rows: Vec<usize>) -> Verdict {
    let part = restricted(history, &rows);
    let indexed = Indexed::new(&part);
    if !indexed.repeats {
        let (add_at, read_at, groups) = place(&part);
        let order = Placed {
            add_at: &add_at,
            read_at: &read_at,
            groups,
        };
        let cycle = super::find_cycle(&indexed, &order).expect("the rows are illegal");
        return cycle.verdict(&part, &indexed, Consistency::Sequential);
    }
    let mut rows = rows;
    rows.sort_unstable();
    let step = |&row: &usize| Step {
        from: row,
        to: row,
        why: Why::CannotPlace,
        value: None,
    };
    Verdict::invalid(
        "no order of these operations respects the order of every process",
        rows.iter().map(step).collect(),
    )
}

/// Drops operations, in runs of decreasing length, as long as the rest stays illegal; returns
/// `None` if the work budget runs out before the end.
fn deleted(history: &History, mut rows: Vec<usize>) -> Option<Vec<usize>> {
    rows.sort_unstable();
    let mut run = rows.len().div_ceil(2);
    let mut work = 0;
    loop {
        let mut dropped = false;
        let mut from = 0;
        while from < rows.len() {
            let to = (from + run).min(rows.len());
            let rest: Vec<usize> = [&rows[..from], &rows[to..]].concat();
            let part = restricted(history, &rest);
            let values = part.reads.iter().map(|read| read.values.len());
            work += history.adds.len() + history.reads.len() + values.sum::<usize>();
            if work > WORK_MAX {
                return None;
            }
            if illegal(&part) {
                rows = rest;
                dropped = true;
            } else {
                from = to;
            }
        }
        if run == 1 && !dropped {
            return Some(rows);
        }
        run = run.div_ceil(2);
    }
}

/// Returns the operations of the rows, with reads restricted to the values that these add.
fn restricted(history: &History, rows: &[usize]) -> History<'static> {
    let has = |at: &Timing| rows.binary_search(&at.row).is_ok();
    let adds: Vec<_> = history
        .adds
        .iter()
        .copied()
        .filter(|a| has(&a.at))
        .collect();
    let mut values: Vec<i64> = adds.iter().map(|a| a.value).collect();
    values.sort_unstable();
    let mut part = History {
        adds,
        ..History::default()
    };
    for read in history.reads.iter().filter(|r| has(&r.at)) {
        let all = read.values.iter().copied();
        let kept = all.filter(|v| values.binary_search(v).is_ok());
        part.push_read(read.at, kept.collect::<Vec<_>>());
    }
    part
}

fn illegal(part: &History) -> bool {
    let indexed = Indexed::new(part);
    let (add_at, read_at, groups) = place(part);
    let order = Placed {
        add_at: &add_at,
        read_at: &read_at,
        groups,
    };
    match chain::levels(&indexed) {
        Err(_) => true,
        Ok(levels) => !schedule::explains(&indexed, &order, &levels),
    }
}

type Places = (
    Vec<crate::order::Interval>,
    Vec<crate::order::Interval>,
    usize,
);

fn place(part: &History) -> Places {
    let adds = part.adds.iter().map(|a| a.at);
    let timings: Vec<Timing> = adds.chain(part.reads.iter().map(|r| r.at)).collect();
    let (mut places, groups) = intervals(&timings, Consistency::Sequential);
    let reads = places.split_off(part.adds.len());
    (places, reads, groups)
}
