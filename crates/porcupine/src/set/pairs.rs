//! Finds the short cycles of a history whose reads are not a chain, so that the witness is a
//! smallest one.
//!
//! Each search asks of every read whether it has all of certain values, and answers by counting
//! those that it has. Only if the count is too small does it look for the missing value.

use super::index::{Indexed, NONE};
use super::witness::Cycle;
use super::Placed;
use crate::order::Interval;

/// Returns a cycle of two operations, otherwise one of three, otherwise `None`. O((n + v) log n).
pub(super) fn shortest(indexed: &Indexed, order: &Placed) -> Option<Cycle> {
    let returns = Returns::new(indexed, order);
    let reads = 0..indexed.reads();
    reads
        .clone()
        .find_map(|r| future(indexed, order, r))
        .or_else(|| {
            reads
                .clone()
                .find_map(|r| stale(indexed, order, &returns, r))
        })
        .or_else(|| backwards(indexed, order))
        .or_else(|| skipped(indexed, order, &returns))
}

/// For each value whose add returned, the first return, sorted by (group, time).
struct Returns {
    sorted: Vec<(u32, i64, u32)>,
}

impl Returns {
    fn new(indexed: &Indexed, order: &Placed) -> Self {
        let mut sorted: Vec<_> = (0u32..)
            .zip(&indexed.values)
            .filter(|(_, value)| value.returned != NONE)
            .map(|(v, value)| (order.add_at[value.returned as usize], v))
            .map(|(at, v)| (at.group, at.ret, v))
            .collect();
        sorted.sort_unstable();
        Self { sorted }
    }

    /// Returns the values that were added in a group before a time.
    fn before(&self, group: u32, time: i64) -> &[(u32, i64, u32)] {
        let from = self.sorted.partition_point(|&(g, _, _)| g < group);
        let to = self
            .sorted
            .partition_point(|&(g, t, _)| (g, t) < (group, time));
        &self.sorted[from..to]
    }

    /// Returns the first of those values that the read does not have.
    fn missing(&self, indexed: &Indexed, r: usize, group: u32, time: i64) -> u32 {
        let mut has: Vec<u32> = indexed.read(r).collect();
        has.sort_unstable();
        let lacks = |v: &u32| has.binary_search(v).is_err();
        let values = self.before(group, time).iter().map(|&(_, _, v)| v);
        values.clone().find(lacks).expect("the count was short")
    }
}

fn future(indexed: &Indexed, order: &Placed, r: usize) -> Option<Cycle> {
    let firsts = indexed.read(r).map(|v| indexed.values[v as usize].first);
    firsts
        .filter(|&a| order.read_at[r].precedes(&order.add_at[a as usize]))
        .min()
        .map(|add| Cycle::Future { r: r as u32, add })
}

fn stale(indexed: &Indexed, order: &Placed, returns: &Returns, r: usize) -> Option<Cycle> {
    let at = order.read_at[r];
    let has = indexed.read(r).filter(|&v| {
        let returned = indexed.values[v as usize].returned;
        returned != NONE && order.add_at[returned as usize].precedes(&at)
    });
    if has.count() == returns.before(at.group, at.call).len() {
        return None;
    }
    let v = returns.missing(indexed, r, at.group, at.call);
    let add = indexed.values[v as usize].returned;
    Some(Cycle::Stale { add, r: r as u32 })
}

/// Compares within each group; for each value with the read that saw it and returned first.
fn backwards(indexed: &Indexed, order: &Placed) -> Option<Cycle> {
    let mut by_group: Vec<usize> = (0..indexed.reads()).collect();
    by_group.sort_by_key(|&r| order.read_at[r].group);
    let mut first_seen: Vec<u32> = vec![NONE; indexed.values.len()];
    let same = |r: &usize, s: &usize| order.read_at[*r].group == order.read_at[*s].group;
    for reads in by_group.chunk_by(same) {
        let mut seen: Vec<u32> = Vec::new();
        for &r in reads {
            for v in indexed.read(r) {
                let slot = &mut first_seen[v as usize];
                if *slot == NONE {
                    seen.push(v);
                }
                if *slot == NONE || order.read_at[r].ret < order.read_at[*slot as usize].ret {
                    *slot = r as u32;
                }
            }
        }
        let found = reads_back(indexed, order, reads, &seen, &first_seen);
        if found.is_some() {
            return found;
        }
        for v in seen {
            first_seen[v as usize] = NONE;
        }
    }
    None
}

fn reads_back(
    indexed: &Indexed,
    order: &Placed,
    reads: &[usize],
    seen: &[u32],
    first_seen: &[u32],
) -> Option<Cycle> {
    let time = |v: u32| order.read_at[first_seen[v as usize] as usize].ret;
    let mut times: Vec<i64> = seen.iter().map(|&v| time(v)).collect();
    times.sort_unstable();
    for &r in reads {
        let at: Interval = order.read_at[r];
        let must = times.partition_point(|&t| t < at.call);
        if indexed.read(r).filter(|&v| time(v) < at.call).count() == must {
            continue;
        }
        let mut has: Vec<u32> = indexed.read(r).collect();
        has.sort_unstable();
        let lacks = |v: u32| time(v) < at.call && has.binary_search(&v).is_err();
        let v = seen.iter().copied().filter(|&v| lacks(v)).min();
        let v = v.expect("the count was short") as usize;
        return Some(Cycle::Backwards {
            early: first_seen[v],
            late: r as u32,
            add: indexed.values[v].first,
        });
    }
    None
}

/// For each read and group, takes the last called add that the read sees; the read must see
/// everything added before that.
fn skipped(indexed: &Indexed, order: &Placed, returns: &Returns) -> Option<Cycle> {
    let mut latest: Vec<u32> = vec![NONE; order.groups];
    let mut has: Vec<usize> = vec![0; order.groups];
    for r in 0..indexed.reads() {
        let mut groups: Vec<u32> = Vec::new();
        for v in indexed.read(r) {
            let first = indexed.values[v as usize].first;
            let at = order.add_at[first as usize];
            let slot = &mut latest[at.group as usize];
            if *slot == NONE {
                groups.push(at.group);
            }
            if *slot == NONE || order.add_at[*slot as usize].call < at.call {
                *slot = first;
            }
        }
        for v in indexed.read(r) {
            let returned = indexed.values[v as usize].returned;
            if returned == NONE {
                continue;
            }
            let at = order.add_at[returned as usize];
            let last = latest[at.group as usize];
            if last != NONE && at.precedes(&order.add_at[last as usize]) {
                has[at.group as usize] += 1;
            }
        }
        for group in groups {
            let g = group as usize;
            let add = std::mem::replace(&mut latest[g], NONE);
            let count = std::mem::take(&mut has[g]);
            let time = order.add_at[add as usize].call;
            if count != returns.before(group, time).len() {
                let v = returns.missing(indexed, r, group, time);
                let missed = indexed.values[v as usize].returned;
                let r = r as u32;
                return Some(Cycle::Skipped { missed, add, r });
            }
        }
    }
    None
}
