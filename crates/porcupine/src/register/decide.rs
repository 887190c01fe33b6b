//! Decides one register.

use rustc_hash::FxHashMap;

use super::model::close;
use super::seen::Seen;
use super::zones::{Broken, Zones};
use super::{Action, Parsed, PlainObject, Register, RegisterOp, Value};
use crate::datum::Datum;
use crate::models::general;
use crate::models::numbers::Actions;
use crate::order::{Consistency, NEVER};
use crate::search::Op;
use crate::shrink;
use crate::verdict::{Request, Step, Verdict, Why};

/// Decides one register whose operations are known to be reads and writes.
pub fn decide_plain(
    object: PlainObject,
    initial: &Datum,
    request: &Request,
    process: impl Fn(u32) -> i64 + Copy,
) -> Verdict {
    let real_time = request.consistency == Consistency::Linearizable;
    if real_time && !request.linearization && object.holds(initial) {
        return Verdict::valid(ZONES_HOLD);
    }
    decide(&object.parsed(initial), request, process)
}

/// The reason of a VALID verdict from zones.
const ZONES_HOLD: &str = "the operations on each value have a time of their own";

/// Decides one register. `process` returns the process of a row.
pub fn decide(parsed: &Parsed, request: &Request, process: impl Fn(u32) -> i64 + Copy) -> Verdict {
    let Parsed {
        ops,
        initial,
        values,
    } = parsed;
    let distinct = || Zones::new(ops, *initial, *values);
    if request.consistency == Consistency::Linearizable && !request.linearization {
        if let Some(zones) = distinct() {
            return match zones.broken {
                None => Verdict::valid(ZONES_HOLD),
                Some(broken) => explain(parsed, &zones, broken, request),
            };
        }
    }
    if let Some(verdict) = from_nowhere(ops, *initial, *values) {
        return verdict;
    }
    let (mut model, ops) = numbered(ops, *initial, *values);
    general::decide(&mut model, &ops, request, process)
}

/// Returns the verdict on an operation that found a value which nothing sets.
fn from_nowhere(ops: &[RegisterOp], initial: Value, values: usize) -> Option<Verdict> {
    let mut set = vec![false; values];
    let mut needed = vec![false; values];
    set[initial as usize] = true;
    let mut look = |action: Action| {
        action
            .sets()
            .into_iter()
            .for_each(|v| set[v as usize] = true);
        action
            .needs()
            .into_iter()
            .for_each(|v| needed[v as usize] = true);
    };
    match Seen::new(ops, values) {
        Some(seen) => seen.actions().for_each(&mut look),
        None => ops.iter().for_each(|op| look(op.action)),
    }
    if needed.iter().zip(&set).all(|(needed, set)| needed <= set) {
        return None;
    }
    let nowhere = |op: &&RegisterOp| op.action.needs().is_some_and(|v| !set[v as usize]);
    let op = ops.iter().filter(|op| op.ret != NEVER).find(nowhere)?;
    let step = Step {
        from: op.row as usize,
        to: op.row as usize,
        why: Why::NeverWritten,
        value: None,
    };
    let text = "an operation found a value that was never written";
    Some(Verdict::invalid(text, vec![step]))
}

/// Numbers the operations for the search. All values that no operation needs get one number,
/// because nothing can tell them apart.
fn numbered(ops: &[RegisterOp], initial: Value, values: usize) -> (Register, Vec<Op>) {
    let junk = values as Value;
    let mut known = vec![false; values + 1];
    let mut look = |action: Action| match action {
        Action::Read(v) | Action::Cas(v, _) | Action::CasFailed(v) => known[v as usize] = true,
        Action::Write(_) => {}
    };
    let seen = Seen::new(ops, values);
    match &seen {
        Some(seen) => seen.actions().for_each(&mut look),
        None => ops.iter().for_each(|op| look(op.action)),
    }
    let value = |v: Value| if known[v as usize] { v } else { junk };
    let mut actions = Actions::default();
    let mut number = |action: Action| {
        actions.number(match action {
            Action::Write(v) => Action::Write(value(v)),
            Action::Cas(from, to) => Action::Cas(from, value(to)),
            other => other,
        })
    };
    let numbered = |op: &RegisterOp, action: u32| Op {
        row: op.row,
        action,
        call: op.call,
        ret: op.ret,
    };
    let numbered = match seen {
        Some(seen) => {
            let numbers = seen.table(&mut number);
            let number = |op: &RegisterOp| numbers[seen.index(op.action)];
            ops.iter().map(|op| numbered(op, number(op))).collect()
        }
        None => (ops.iter())
            .map(|op| numbered(op, number(op.action)))
            .collect(),
    };
    let model = Register {
        initial: value(initial),
        actions: actions.all,
    };
    (model, numbered)
}

/// Returns the verdict on a history whose written values are all different.
fn explain(parsed: &Parsed, zones: &Zones, broken: Broken, request: &Request) -> Verdict {
    let ops = &parsed.ops;
    let row = |i: u32| ops[i as usize].row as usize;
    let step = |from: u32, to: u32, why| Step {
        from: row(from),
        to: row(to),
        why,
        value: None,
    };
    match broken {
        Broken::NeverWritten { read } => Verdict::invalid(
            "a read returned a value that was never written",
            vec![step(read, read, Why::NeverWritten)],
        ),
        Broken::Future { read, write } => Verdict::invalid(
            "a read returned a value before it was written",
            vec![
                step(write, read, Why::ReadSeesWrite),
                step(read, write, Why::RealTime),
            ],
        ),
        Broken::Interleaved { first, second } => {
            if !request.witness {
                return Verdict::invalid("operations on two values each precede the other", vec![]);
            }
            let (initial, values) = (parsed.initial, parsed.values);
            let mut few = zones.bounding_operations(ops, &[first, second]);
            few.sort_unstable_by_key(|op| (op.call, op.row));
            let fails = |part: &[RegisterOp]| {
                let zones = Zones::new(part, initial, values);
                zones.is_some_and(|zones| matches!(zones.broken, Some(Broken::Interleaved { .. })))
            };
            let close = |part: &mut Vec<RegisterOp>| close(part, |op| op.action, initial);
            let (few, _) = shrink::smallest(&few, request.limits, close, fails);
            cycle(&few)
        }
    }
}

/// Returns the verdict on a few operations on two values, each of which must come before the other.
fn cycle(few: &[RegisterOp]) -> Verdict {
    let mut by_value: FxHashMap<Value, Vec<&RegisterOp>> = FxHashMap::default();
    for op in few {
        let value = op
            .action
            .sets()
            .or(op.action.needs())
            .expect("read or write");
        by_value.entry(value).or_default().push(op);
    }
    let mut clusters: Vec<_> = by_value.into_values().collect();
    clusters.sort_by_key(|c| c.iter().map(|o| o.row).min());
    let mut steps = Vec::new();
    let mut edge = |from: &RegisterOp, to: &RegisterOp, why| {
        if from.row != to.row {
            steps.push(Step {
                from: from.row as usize,
                to: to.row as usize,
                why,
                value: None,
            });
        }
    };
    for (i, from) in clusters.iter().enumerate() {
        let to = &clusters[(i + 1) % clusters.len()];
        if first(from).ret < last(to).call && clusters.len() > 1 {
            edge(first(from), last(to), Why::RealTime);
        }
        edge(last(to), first(to), Why::SameValue);
    }
    let mut verdict = Verdict::invalid(
        "an operation on one value comes between operations on another",
        steps,
    );
    verdict.witness = few.iter().map(|o| o.row as usize).collect();
    verdict.witness.sort_unstable();
    debug_assert!(few.iter().any(|o| o.ret != NEVER));
    verdict
}

fn first<'a>(cluster: &[&'a RegisterOp]) -> &'a RegisterOp {
    let first = cluster.iter().min_by_key(|o| (o.ret, o.row));
    first.expect("a cluster has operations")
}

fn last<'a>(cluster: &[&'a RegisterOp]) -> &'a RegisterOp {
    let last = cluster.iter().max_by_key(|o| (o.call, o.row));
    last.expect("a cluster has operations")
}
