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
use crate::order::{sort_nearly, NEVER};

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

/// The operations on one value.
#[derive(Clone, Copy)]
struct Cluster {
    /// Least return and greatest call of its reads.
    ret: i64,
    call: i64,
    write: u32,
    writes: u32,
}

impl Zones {
    /// O(n).
    pub fn new(ops: &[RegisterOp], initial: Value, values: usize) -> Option<Self> {
        let clusters = clusters(ops, values)?;
        let first = initial as usize;
        if clusters[first].writes > 0 || clusters.iter().any(|c| c.writes > 1) {
            return None;
        }
        let mut fits = true;
        let mut zone = Vec::with_capacity(values);
        for (value, c) in clusters.iter().enumerate() {
            let read = c.call != START;
            let (mut least, mut greatest) = (c.ret, c.call);
            if value == first {
                least = START;
            } else if c.write == NONE {
                fits &= !read;
            } else {
                let write = &ops[c.write as usize];
                fits &= c.ret >= write.call;
                if read || write.ret != NEVER {
                    (least, greatest) = (least.min(write.ret), greatest.max(write.call));
                }
            }
            zone.push((least, greatest));
        }
        let write: Vec<u32> = clusters.iter().map(|c| c.write).collect();
        let broken = match fits {
            true => None,
            false => misread(ops, initial, &write),
        };
        Some(Self {
            write,
            zone,
            broken,
        })
    }

    /// What is wrong, if anything. O(n) where values first appear nearly in the order in which their
    /// operations return, else O(n log n).
    pub fn broken(&self) -> Option<Broken> {
        if self.broken.is_some() {
            return self.broken;
        }
        let there = (0u32..).zip(&self.zone).filter(|(_, z)| z.1 != START);
        let mut zones: Vec<(i64, i64, Value)> = there.map(|(v, z)| (z.0, z.1, v)).collect();
        sort_nearly(&mut zones);
        // By place: which of the zones up to here has the greatest call.
        let mut latest: Vec<u32> = Vec::with_capacity(zones.len());
        for (i, &(f, s, v)) in zones.iter().enumerate() {
            // Zones before this one, of f less than its s: which is called last?
            let most = if s > f {
                i
            } else {
                less_before(&zones[..i], s)
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

/// By value; none if a value is compared. Which is a read and which a write is as good as random, so
/// that a branch on it would be mispredicted every other time: there is none.
fn clusters(ops: &[RegisterOp], values: usize) -> Option<Vec<Cluster>> {
    let none = Cluster {
        ret: NEVER,
        call: START,
        write: NONE,
        writes: 0,
    };
    let mut clusters = vec![none; values];
    for (i, op) in (0u32..).zip(ops) {
        let (value, write) = match op.action {
            Action::Read(value) => (value, false),
            Action::Write(value) => (value, true),
            Action::Cas(..) | Action::CasFailed(_) => return None,
        };
        let c = &mut clusters[value as usize];
        c.ret = c.ret.min(if write { NEVER } else { op.ret });
        c.call = c.call.max(if write { START } else { op.call });
        c.write = if write { i } else { c.write };
        c.writes += u32::from(write);
    }
    Some(clusters)
}

/// The first read of a value that is never written, else the first that returned too early.
fn misread(ops: &[RegisterOp], initial: Value, write: &[u32]) -> Option<Broken> {
    let reads = || {
        (0u32..).zip(ops).filter_map(|(i, op)| match op.action {
            Action::Read(value) if value != initial => Some((i, op, write[value as usize])),
            _ => None,
        })
    };
    let never = reads().find(|&(_, _, write)| write == NONE);
    if let Some((read, _, _)) = never {
        return Some(Broken::NeverWritten { read });
    }
    let future = reads().find(|&(_, op, write)| op.ret < ops[write as usize].call);
    future.map(|(read, _, write)| Broken::Future { read, write })
}

/// How many of the sorted zones have an f less than `s`. O(log k) where all but k have.
fn less_before(zones: &[(i64, i64, Value)], s: i64) -> usize {
    let mut back = 1;
    while back <= zones.len() && zones[zones.len() - back].0 >= s {
        back *= 2;
    }
    let from = zones.len() - back.min(zones.len());
    from + zones[from..].partition_point(|zone| zone.0 < s)
}
