//! A register whose written values are all different, and what is wrong with it: [`super::clusters`].

use super::clusters::{interleaved, Cluster, Zone};
use super::{Action, RegisterOp, Value};

const NONE: u32 = u32::MAX;

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

/// The clusters of a history.
pub struct Zones {
    /// By value: the operation that wrote it.
    write: Vec<u32>,
    /// What is wrong, if anything.
    pub broken: Option<Broken>,
}

impl Zones {
    /// None if a value is written twice or compared. O(n) as [`interleaved`] is.
    pub fn new(ops: &[RegisterOp], initial: Value, values: usize) -> Option<Self> {
        let mut clusters = vec![Cluster::EMPTY; values];
        let mut write = vec![NONE; values];
        for (i, op) in (0u32..).zip(ops) {
            let (value, read) = match op.action {
                Action::Read(value) => (value as usize, true),
                Action::Write(value) => (value as usize, false),
                Action::Cas(..) | Action::CasFailed(_) => return None,
            };
            clusters[value].take(read, op.call, op.ret);
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
