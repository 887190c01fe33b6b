//! Models a lock: "acquire" requires that it is free, "release" that it is held, by any process.

use crate::rows::{BadRow, Rows};
use crate::search::{Model, Op};

const ACQUIRE: u32 = 0;
const RELEASE: u32 = 1;

/// The state is 1 while the lock is held.
pub struct Mutex;

/// Parses the operations. O(n).
pub fn parse(rows: &dyn Rows, object: &[u32]) -> Result<(Mutex, Vec<Op>), BadRow> {
    let mut ops = Vec::with_capacity(object.len());
    for &row in object {
        let timing = rows.timing(row as usize);
        let action = match rows.f(row as usize) {
            "acquire" => ACQUIRE,
            "release" => RELEASE,
            f => return Err(BadRow::f(row as usize, f, "\"acquire\" or \"release\"")),
        };
        ops.push(Op {
            row,
            action,
            call: timing.call,
            ret: timing.ret,
        });
    }
    Ok((Mutex, ops))
}

impl Model for Mutex {
    fn initial(&mut self) -> u64 {
        0
    }

    fn step(&mut self, state: u64, action: u32) -> Option<u64> {
        match (state, action) {
            (0, ACQUIRE) => Some(1),
            (1, RELEASE) => Some(0),
            _ => None,
        }
    }

    fn pure(&self, _action: u32) -> bool {
        false
    }

    fn finite(&self) -> bool {
        true
    }

    /// Drops the last releases for which no acquire is left.
    fn close(&self, part: &mut Vec<Op>) {
        let acquired = part.iter().any(|op| op.action == ACQUIRE);
        part.retain(|op| acquired || op.action == ACQUIRE);
    }
}
