//! Minimizes a part of a register's history that is not linearizable.

use super::{RegisterOp, Value};
use crate::budget::Limits;
use crate::order::NEVER;
use crate::shrink;

/// Returns operations that fail together. The flag is `true` if none of them can be dropped,
/// `false` if time ran out before.
///
/// `fails` decides whether operations fail and, given a row, whether they fail at that row. The
/// failure stays at `at` as long as possible, because without an operation others may fail that
/// were good.
///
/// An operation that needs a value (a read, a compare-and-set) is dropped together with the last
/// operation that sets the value; otherwise a read of a good value would become a failure of its
/// own.
pub fn smallest(
    ops: &[RegisterOp],
    initial: Value,
    values: usize,
    limits: Limits,
    at: Option<u32>,
    fails: impl Fn(&[RegisterOp], Limits, Option<u32>) -> bool,
) -> (Vec<RegisterOp>, bool) {
    let mut start = ops.to_vec();
    start.sort_unstable_by_key(|o| (o.call, o.row));
    close(&mut start, initial, values);
    let unsourced_read = |o: &&RegisterOp| o.ret != NEVER && !start.contains(o);
    if start.len() < ops.len() {
        if let Some(unsourced) = ops.iter().find(unsourced_read) {
            return (vec![*unsourced], true);
        }
    }
    let close = |part: &mut Vec<RegisterOp>| close(part, initial, values);
    if at.is_some() {
        start = shrink::smallest(&start, limits, close, |part| fails(part, limits, at)).0;
    }
    shrink::smallest(&start, limits, close, |part| fails(part, limits, None))
}

/// Drops operations that need a value which nothing sets, until all that are left have their
/// values.
fn close(ops: &mut Vec<RegisterOp>, initial: Value, values: usize) {
    let mut set = vec![false; values];
    loop {
        set.fill(false);
        set[initial as usize] = true;
        for op in ops.iter() {
            if let Some(value) = op.action.sets() {
                set[value as usize] = true;
            }
        }
        let before = ops.len();
        ops.retain(|op| op.action.needs().is_none_or(|v| set[v as usize]));
        if ops.len() == before {
            return;
        }
    }
}
