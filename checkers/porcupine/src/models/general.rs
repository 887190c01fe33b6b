//! The decision of one object by search, whatever the model.

use crate::order::Consistency;
use crate::request::Request;
use crate::search::{lanes, search, Ended, Model, Op};
use crate::shrink;
use crate::verdict::Verdict;

/// Decides the operations of one object. `process` tells the process of a row.
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
            return (vec![at], true);
        }
        let (part, smallest) = witness(model, ops, request, at, process);
        (part.iter().map(|op| op.row).collect(), smallest)
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

/// Operations that fail, of which none can be dropped; `false` where the time
/// did not suffice for that. As long as it can be, the failure is kept at the row `at`.
fn witness<M: Model>(
    model: &mut M,
    ops: &[Op],
    request: &Request,
    at: u32,
    process: impl Fn(u32) -> i64 + Copy,
) -> (Vec<Op>, bool) {
    let linearizable = request.consistency == Consistency::Linearizable;
    let stuck = ops
        .iter()
        .find(|op| op.row == at)
        .expect("a row of the object");
    // In real time nothing called later was looked at.
    let looked_at = |op: &&Op| !linearizable || op.call <= stuck.ret;
    let mut part: Vec<Op> = ops.iter().filter(looked_at).copied().collect();
    part.sort_unstable_by_key(|op| (op.call, op.row));
    let fails = |model: &mut M, part: &[Op], at: Option<u32>| {
        let ended = run(model, part, request, false, process);
        matches!(ended, Ended::Stuck { at: row, .. } if at.is_none_or(|at| at == row))
    };
    model.suspect(&part);
    let mut closed = part.clone();
    model.close(&mut closed);
    if closed.len() < part.len() && !fails(model, &closed, None) {
        // It fails for what comes from nowhere.
        let gone = |op: &&Op| !closed.contains(op);
        let gone: Vec<Op> = part.iter().filter(gone).take(1).copied().collect();
        if fails(model, &gone, None) {
            return (gone, true);
        }
    } else {
        part = closed;
    }
    let mut kept = part;
    let goals = [linearizable.then_some(at), None];
    let mut smallest = true;
    for goal in goals {
        let model = std::cell::RefCell::new(&mut *model);
        (kept, smallest) = shrink::smallest(
            &kept,
            request.limits,
            |part| model.borrow().close(part),
            |part| fails(&mut model.borrow_mut(), part, goal),
        );
    }
    (kept, smallest)
}
