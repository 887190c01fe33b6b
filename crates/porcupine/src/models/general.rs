//! Decides one object by search, whatever its model.

use std::cell::RefCell;
use std::cmp::Ordering;

use rustc_hash::FxHashSet;

use crate::budget::Limits;
use crate::order::{Consistency, NEVER};
use crate::search::{lanes, search, Ended, Model, Op};
use crate::shrink;
use crate::support::{Possible, Support};
use crate::verdict::{Request, Verdict, Witness};

/// Decides the operations of one object. `process` returns the process of a row.
pub fn decide<M: Model>(
    model: &mut M,
    ops: &[Op],
    request: &Request,
    process: impl Fn(u32) -> i64 + Copy,
) -> Verdict {
    let ended = match request.stuck {
        Some(at) => Ended::stuck(at),
        None => run(model, ops, request, request.linearization, process),
    };
    Verdict::of_search(ended, |at| {
        if !request.witness {
            return Witness::Unasked;
        }
        witness(model, ops, request, at, process)
    })
}

fn run<M: Model>(
    model: &mut M,
    ops: &[Op],
    request: &Request,
    traced: bool,
    process: impl Fn(u32) -> i64,
) -> Ended {
    match request.consistency {
        Consistency::Linearizable => search(model, ops, request.limits, traced),
        Consistency::Sequential => lanes(model, ops, request.limits, process),
    }
}

/// Returns the operations that the search had looked at when it failed at row `at`, by their call.
fn considered(ops: &[Op], at: u32, linearizable: bool) -> Vec<Op> {
    let stuck = ops
        .iter()
        .find(|op| op.row == at)
        .expect("a row of the object");
    // In real time the search did not look at operations that were called later.
    let was_considered = |op: &&Op| !linearizable || op.call <= stuck.ret;
    let mut part: Vec<Op> = ops.iter().filter(was_considered).copied().collect();
    if linearizable {
        // Of equal times of return, the search took those of earlier rows first. Nothing was called
        // later, so later times change nothing else.
        for op in part.iter_mut().filter(|op| op.ret != NEVER) {
            let later = match (op.ret, op.row).cmp(&(stuck.ret, at)) {
                Ordering::Less => 0,
                Ordering::Equal => 1,
                Ordering::Greater => 2,
            };
            op.ret = op.ret.saturating_add(later).min(NEVER - 1);
        }
    }
    part.sort_unstable_by_key(|op| (op.call, op.row));
    part
}

/// Returns operations that prove the failure at row `at`.
///
/// In real time, all of them but the one at `at` are explained together when that one returns, so
/// that the failure never moves to an operation that was good. In process order the failure may
/// move. In either case, whatever fails stays possible after some of the others (see [`Support`]).
fn witness<M: Model>(
    model: &mut M,
    ops: &[Op],
    request: &Request,
    at: u32,
    process: impl Fn(u32) -> i64 + Copy,
) -> Witness {
    let linearizable = request.consistency == Consistency::Linearizable;
    let part = considered(ops, at, linearizable);
    let may_fail = |op: &&Op| op.ret != NEVER && (!linearizable || op.row == at);
    let mut support = Support::default();
    let guarded = match supported(model, &part, may_fail, &mut support, request.limits) {
        Ok(guarded) => guarded,
        Err(row) => {
            let rows = providers(model, &part, row, request.limits);
            return Witness::Impossible { row, rows };
        }
    };
    let model = RefCell::new(model);
    let mut failing = at;
    let fails = |part: &[Op]| {
        let model = &mut **model.borrow_mut();
        let Ended::Stuck { at: row, .. } = run(model, part, request, false, process) else {
            return false;
        };
        let all = rows(part);
        let mut guarded = guarded.iter().filter(|op| all.contains(&op.row));
        let holds = (!linearizable || row == at)
            && model.is_fair(part)
            && guarded
                .all(|op| support.of(model, (part, &all), op, request.limits) == Possible::Yes);
        if holds {
            failing = row;
        }
        holds
    };
    let close = |part: &mut Vec<Op>| model.borrow().close(part);
    let (kept, smallest) = shrink::smallest(&part, request.limits, close, fails);
    let all = rows(&kept);
    let model = &mut **model.borrow_mut();
    let mut support_of = |op| support.of(model, (&kept, &all), op, request.limits);
    Witness::Part {
        failing,
        supported: (kept.iter().filter(may_fail)).all(|op| support_of(op) == Possible::Yes),
        rows: kept.iter().map(|op| op.row).collect(),
        smallest,
    }
}

/// Returns the operations that may fail for which others are found that make them possible. The
/// `Err` is the row of one that none make possible.
fn supported<M: Model>(
    model: &mut M,
    part: &[Op],
    may_fail: impl Fn(&&Op) -> bool,
    support: &mut Support,
    limits: Limits,
) -> Result<Vec<Op>, u32> {
    model.suspect(part);
    let mut closed = part.to_vec();
    model.close(&mut closed);
    let (all, closed) = (rows(part), rows(&closed));
    let mut found = Vec::new();
    for op in part.iter().filter(|op| may_fail(op)) {
        let possible = match closed.contains(&op.row) {
            true => support.of(model, (part, &all), op, limits),
            false => Possible::No,
        };
        match possible {
            Possible::Yes => found.push(*op),
            Possible::No => return Err(op.row),
            Possible::Unknown => {}
        }
    }
    Ok(found)
}

/// Returns the rows of an operation that none make possible, and of few that provide what it found,
/// as far as the model knows: the transaction of which another one saw only half.
fn providers<M: Model>(model: &mut M, part: &[Op], row: u32, limits: Limits) -> Vec<u32> {
    let is_there = |part: &[Op]| part.iter().any(|op| op.row == row);
    let stays = |part: &[Op]| {
        let mut closed = part.to_vec();
        model.close(&mut closed);
        is_there(&closed)
    };
    if !stays(part) {
        return vec![row];
    }
    let (kept, _) = shrink::smallest(part, limits, |part| model.close(part), stays);
    kept.iter().map(|op| op.row).collect()
}

fn rows(part: &[Op]) -> FxHashSet<u32> {
    part.iter().map(|op| op.row).collect()
}
