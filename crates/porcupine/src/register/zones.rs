//! Finds what is wrong with a register whose written values are all different; see
//! [`super::clusters`].

use super::clusters::{interleaved, Cluster, Zone};
use super::{Action, RegisterOp, Value};

const NONE: u32 = u32::MAX;

/// A violation, with the indices of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Read a value that is not written.
    NeverWritten { read: u32 },
    /// The read returned before the write of its value was called.
    Future { read: u32, write: u32 },
    /// Two values whose clusters must each come before the other.
    Interleaved { first: Value, second: Value },
}

/// The zones of a history.
pub struct Zones {
    /// By value: the operation that wrote it.
    write: Vec<u32>,
    /// The violation, if there is one.
    pub broken: Option<Broken>,
}

impl Zones {
    /// Returns `None` if a value is written twice or there is a compare-and-set. O(n) if
    /// [`interleaved`] is.
    pub fn new(ops: &[RegisterOp], initial: Value, values: usize) -> Option<Self> {
        let mut clusters = vec![Cluster::EMPTY; values];
        let mut write = vec![NONE; values];
        for (i, op) in (0u32..).zip(ops) {
            let (value, read) = match op.action {
                Action::Read(value) => (value as usize, true),
                Action::Write(value) => (value as usize, false),
                Action::Cas(..) | Action::CasFailed(_) => return None,
            };
            clusters[value].add(read, op.call, op.ret);
            write[value] = if read { write[value] } else { i };
        }
        let first = initial as usize;
        if clusters[first].writes > 0 || clusters.iter().any(|c| c.writes > 1) {
            return None;
        }
        let mut zones: Vec<Zone> = Vec::with_capacity(values);
        for (value, cluster) in (0u32..).zip(&clusters) {
            let zone = match value == initial {
                true => cluster.initial_zone(),
                false => cluster.zone(),
            };
            let Some(zone) = zone else {
                let broken = misread(ops, initial, &write);
                return Some(Self { write, broken });
            };
            zones.extend(zone.map(|(least, greatest)| (least, greatest, value)));
        }
        let broken = interleaved(&mut zones);
        let broken = broken.map(|(first, second)| Broken::Interleaved { first, second });
        Some(Self { write, broken })
    }

    /// Returns of each value's cluster the write, the operation that returned first and the one
    /// called last.
    pub fn bounding_operations(&self, ops: &[RegisterOp], values: &[Value]) -> Vec<RegisterOp> {
        let mut bounding_operations: Vec<RegisterOp> = Vec::new();
        for &value in values {
            let on = |o: &&RegisterOp| o.action.sets().or(o.action.needs()) == Some(value);
            bounding_operations.extend(ops.iter().filter(on).min_by_key(|o| (o.ret, o.row)));
            bounding_operations.extend(ops.iter().filter(on).max_by_key(|o| (o.call, o.row)));
            bounding_operations.extend(ops.get(self.write[value as usize] as usize));
        }
        bounding_operations.sort_unstable_by_key(|o| (o.call, o.row));
        bounding_operations.dedup();
        bounding_operations
    }
}

/// Finds the first read of a value that is never written, otherwise the first that returned too
/// early.
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
