//! Checks the order against the levels: if the reads are a chain, a cycle is a pair that goes down
//! in level.

use super::chain::{Levels, UNSEEN};
use super::index::{Indexed, NONE};
use super::witness::{value_apart, Cycle};
use super::Placed;
use crate::order::{Interval, NEVER};

#[derive(Clone, Copy)]
enum Node {
    Add(u32),
    Read(u32),
}

/// Returns a shortest cycle, if there is one. O(n log n).
///
/// Walks through each group in order of call and keeps, of the operations that have returned by
/// then, the read and the add of the highest level. If any of them precedes the called operation at
/// a higher level, these do.
pub(super) fn shortest(indexed: &Indexed, order: &Placed, levels: &Levels) -> Option<Cycle> {
    let mut called = nodes(indexed, order, levels);
    let mut returned: Vec<(Interval, Node)> = called.clone();
    returned.extend(others(indexed, order));
    returned.retain(|(at, _)| at.ret != NEVER);
    called.sort_by_key(|(at, _)| (at.group, at.call));
    returned.sort_by_key(|(at, _)| (at.group, at.ret));
    let mut before = Highest::default();
    let mut done = returned.iter().peekable();
    let mut longer = None;
    let mut group = 0;
    for &(at, node) in &called {
        if at.group != group {
            group = at.group;
            before = Highest::default();
        }
        while let Some(&&(p, early)) = done.peek() {
            if (p.group, p.ret) >= (at.group, at.call) {
                break;
            }
            done.next();
            if p.group == group {
                before.take(early, indexed, levels);
            }
        }
        match before.against(node, indexed, levels) {
            Some(cycle) if cycle.operations() == 2 => return Some(cycle),
            found => longer = longer.or(found),
        }
    }
    longer
}

/// Returns the operations that a level bounds from above: reads, and the first add of each value
/// that was seen.
fn nodes(indexed: &Indexed, order: &Placed, levels: &Levels) -> Vec<(Interval, Node)> {
    let reads = order.read_at.iter().enumerate();
    let mut out: Vec<_> = reads.map(|(r, &at)| (at, Node::Read(r as u32))).collect();
    for (v, value) in indexed.values.iter().enumerate() {
        if levels.value[v] != UNSEEN {
            out.push((order.add_at[value.first as usize], Node::Add(value.first)));
        } else if value.first == value.returned {
            // No level bounds this add from above; it is in the list because of what comes after
            // it.
            out.push((order.add_at[value.first as usize], Node::Add(value.first)));
        }
    }
    out
}

/// Returns of each value the add that returned first, if another one was called first.
fn others<'a>(
    indexed: &'a Indexed,
    order: &'a Placed,
) -> impl Iterator<Item = (Interval, Node)> + 'a {
    indexed
        .values
        .iter()
        .filter(|v| v.returned != NONE && v.returned != v.first)
        .map(|v| (order.add_at[v.returned as usize], Node::Add(v.returned)))
}

/// The highest levels among the operations that returned.
#[derive(Default)]
struct Highest {
    read: Option<u32>,
    add: Option<u32>,
}

impl Highest {
    fn take(&mut self, node: Node, indexed: &Indexed, levels: &Levels) {
        match node {
            Node::Read(r) => {
                let level = |r: u32| levels.read[r as usize];
                if self.read.is_none_or(|s| level(r) > level(s)) {
                    self.read = Some(r);
                }
            }
            Node::Add(a) => {
                let level = |a: u32| levels.value[indexed.of_add[a as usize] as usize];
                if self.add.is_none_or(|b| level(a) > level(b)) {
                    self.add = Some(a);
                }
            }
        }
    }

    /// Returns the shortest cycle of `node` and what returned before it.
    fn against(&self, node: Node, indexed: &Indexed, levels: &Levels) -> Option<Cycle> {
        let add_level = |a: u32| levels.value[indexed.of_add[a as usize] as usize];
        match node {
            Node::Read(r) => {
                let level = levels.read[r as usize];
                if let Some(add) = self.add.filter(|&a| add_level(a) > level) {
                    return Some(Cycle::Stale { add, r });
                }
                let early = self.read.filter(|&s| levels.read[s as usize] > level)?;
                let value = value_apart(indexed, early, r).expect("a higher level has more");
                let add = indexed.values[value as usize].first;
                let late = r;
                Some(Cycle::Backwards { early, late, add })
            }
            Node::Add(add) => {
                let level = add_level(add);
                if let Some(r) = self.read.filter(|&r| levels.read[r as usize] > level) {
                    return Some(Cycle::Future { r, add });
                }
                let missed = self.add.filter(|&a| add_level(a) > level)?;
                let r = levels.contents[(level as usize - 1) / 2];
                Some(Cycle::Skipped { missed, add, r })
            }
        }
    }
}
