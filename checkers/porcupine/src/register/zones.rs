//! A register whose written values are all different: Gibbons & Korach, "Testing shared
//! memories" (SIAM J. Comput. 1997), section 4.
//!
//! All reads of a value come after its write and before any other write, so the operations on a value, its
//! *cluster*, are contiguous in any explanation. Let f be the least return in a
//! cluster and s the greatest call. Cluster A must come before B exactly when f(A) < s(B). The history is linearizable when
//! no read returns before the write of its value is called, and no two clusters must each come before the other:
//! a longer cycle has a shorter in it. (Take the cluster A of least f in a cycle, P before it and Q before P.
//! f(A) ≤ f(Q) < s(P), so A must come before P, too.)
//!
//! The initial value's write returned before everything. A write that never returned and that no
//! read saw did not happen.

use super::{Action, RegisterOp, Value};
use crate::order::NEVER;

const NONE: u32 = u32::MAX;
/// Before all times.
const START: i64 = i64::MIN;

/// Which operations break the rules (indices), and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Saw a value that is not written.
    NeverWritten { read: u32 },
    /// Returned before the write of its value was called.
    Future { read: u32, write: u32 },
    /// Two values whose clusters must each come before the other.
    Interleaved { first: Value, second: Value },
}

/// The clusters of a history; none if a value is written twice or compared.
pub struct Zones {
    pub write: Vec<u32>,
    /// Least return and greatest call.
    zone: Vec<(i64, i64)>,
    broken: Option<Broken>,
}

impl Zones {
    /// O(n).
    pub fn new(ops: &[RegisterOp], initial: Value, values: usize) -> Option<Self> {
        let mut zones = Self {
            write: vec![NONE; values],
            zone: vec![(NEVER, START); values],
            broken: None,
        };
        zones.zone[initial as usize].0 = START;
        for (i, op) in (0u32..).zip(ops) {
            match op.action {
                Action::Write(v) if v != initial && zones.write[v as usize] == NONE => {
                    zones.write[v as usize] = i;
                }
                Action::Read(_) => {}
                _ => return None,
            }
        }
        for (i, op) in (0u32..).zip(ops) {
            let Action::Read(v) = op.action else {
                continue;
            };
            if v != initial {
                let write = zones.write[v as usize];
                if write == NONE {
                    zones.broken = Some(Broken::NeverWritten { read: i });
                    return Some(zones);
                }
                if op.ret < ops[write as usize].call && zones.broken.is_none() {
                    zones.broken = Some(Broken::Future { read: i, write });
                }
            }
            let zone = &mut zones.zone[v as usize];
            *zone = (zone.0.min(op.ret), zone.1.max(op.call));
        }
        for op in ops {
            if let Action::Write(v) = op.action {
                let zone = &mut zones.zone[v as usize];
                let read = zone.1 != START;
                if read || op.ret != NEVER {
                    *zone = (zone.0.min(op.ret), zone.1.max(op.call));
                }
            }
        }
        Some(zones)
    }

    /// What is wrong, if anything. O(n log n).
    pub fn broken(&self) -> Option<Broken> {
        if self.broken.is_some() {
            return self.broken;
        }
        let there = (0u32..).zip(&self.zone).filter(|(_, z)| z.1 != START);
        let mut zones: Vec<(i64, i64, Value)> = there.map(|(v, z)| (z.0, z.1, v)).collect();
        zones.sort_unstable();
        // By place: which of the zones up to here has the greatest call.
        let mut latest: Vec<u32> = Vec::with_capacity(zones.len());
        for (i, &(f, s, v)) in zones.iter().enumerate() {
            // Zones before this one, of f less than its s: which is called last?
            let most = if s > f {
                i
            } else {
                zones[..i].partition_point(|z| z.0 < s)
            };
            if let Some(&other) = most.checked_sub(1).and_then(|m| latest.get(m)) {
                let other = zones[other as usize];
                // Of equal f, each must come before the other only if f is before both calls.
                if other.1 > f && other.0 < s {
                    let (first, second) = (other.2, v);
                    return Some(Broken::Interleaved { first, second });
                }
            }
            let best = latest.last().map_or(i, |&b| {
                if zones[b as usize].1 >= s {
                    b as usize
                } else {
                    i
                }
            });
            latest.push(best as u32);
        }
        None
    }

    /// Of each value's cluster: the write, the operation that returned first and the one called last.
    pub fn few(&self, ops: &[RegisterOp], values: &[Value]) -> Vec<RegisterOp> {
        let mut few: Vec<RegisterOp> = Vec::new();
        for &value in values {
            let on = |o: &&RegisterOp| o.action.sets().or(o.action.needs()) == Some(value);
            few.extend(ops.iter().filter(on).min_by_key(|o| (o.ret, o.row)));
            few.extend(ops.iter().filter(on).max_by_key(|o| (o.call, o.row)));
            few.extend(ops.get(self.write[value as usize] as usize));
        }
        few.sort_unstable_by_key(|o| (o.call, o.row));
        few.dedup();
        few
    }
}
