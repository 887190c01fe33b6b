//! Decides one object by search, whatever its model.

use crate::order::Consistency;
use crate::search::{lanes, search, Ended, Model, Op};
use crate::shrink;
use crate::verdict::{Request, Verdict};

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

/// Returns operations that cannot be explained. The flag is `true` if none of them can be dropped,
/// `false` if time ran out before. The failure stays at row `at` as long as possible.
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
    // In real time the search did not look at operations that were called later.
    let was_considered = |op: &&Op| !linearizable || op.call <= stuck.ret;
    let mut part: Vec<Op> = ops.iter().filter(was_considered).copied().collect();
    part.sort_unstable_by_key(|op| (op.call, op.row));
    let fails = |model: &mut M, part: &[Op], at: Option<u32>| {
        let ended = run(model, part, request, false, process);
        matches!(ended, Ended::Stuck { at: row, .. } if at.is_none_or(|at| at == row))
    };
    model.suspect(&part);
    let mut closed = part.clone();
    model.close(&mut closed);
    if closed.len() < part.len() && !fails(model, &closed, None) {
        // This part fails for operations whose values come from nowhere.
        let was_dropped = |op: &&Op| !closed.contains(op);
        let was_dropped: Vec<Op> = part.iter().filter(was_dropped).take(1).copied().collect();
        if fails(model, &was_dropped, None) {
            return (was_dropped, true);
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
