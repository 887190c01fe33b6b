//! Finds short cycles in a component.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::components::{Components, View};
use super::graph::{Kinds, FREE};
use crate::budget::Limits;

/// An edge: from a vertex to another, and its kind.
pub type Edge = (u32, u32, Kinds);

/// Number of states from which a cycle is searched for.
const STARTS_MAX: usize = 64;

/// Returns the edges of the shortest cycle through some of the states that are transactions.
pub fn shortest_cycle(
    view: View,
    states: impl Iterator<Item = u32>,
    components: &Components,
    limits: &Limits,
) -> Vec<Edge> {
    let fits = |&state: &u32| {
        view.graph.is_transaction(view.vertex(state)) && components.of(state).is_some()
    };
    let mut best = Vec::new();
    for start in states.filter(fits).take(STARTS_MAX) {
        if limits.out_of_time().is_some() {
            break;
        }
        let within = |state| components.joins(state, start);
        shorten(&mut best, path(view, start, start, within));
    }
    best
}

/// Returns the edges of the shortest cycle that consists of one of the edges and a path.
pub fn shortest_closed(
    view: View,
    first: &[Edge],
    components: &Components,
    limits: &Limits,
) -> Vec<Edge> {
    let mut best = Vec::new();
    for &(from, to, kind) in first {
        if limits.out_of_time().is_some() {
            break;
        }
        let within = |state| components.joins(state, from);
        let found = path(view, to, from, within).map(|path| {
            let mut cycle = vec![(from, to, kind)];
            cycle.extend(path);
            cycle
        });
        shorten(&mut best, found);
    }
    best
}

/// Keeps the shorter of two cycles, by the number of its transactions.
fn shorten(best: &mut Vec<Edge>, found: Option<Vec<Edge>>) {
    let length = |edges: &[Edge]| edges.iter().filter(|edge| edge.2 != FREE).count();
    if let Some(found) = found {
        if best.is_empty() || length(&found) < length(best) {
            *best = found;
        }
    }
}

/// Returns the edges of the shortest path of at least one edge. An edge that is free continues the
/// one before, so it is not counted.
fn path(view: View, from: u32, to: u32, within: impl Fn(u32) -> bool) -> Option<Vec<Edge>> {
    // By state: its distance, and the state and the kind of the edge before it.
    let mut reached: FxHashMap<u32, (u32, u32, Kinds)> = FxHashMap::default();
    let mut queue = VecDeque::from([(from, 0u32)]);
    let mut last: Option<(u32, u32, Kinds)> = None;
    while let Some((state, distance)) = queue.pop_front() {
        if last.is_some_and(|(best, _, _)| best <= distance) {
            break;
        }
        let known = reached.get(&state).map_or(0, |known| known.0);
        if state != from && known < distance {
            continue;
        }
        for at in view.graph.row(view.vertex(state)) {
            let Some((next, kind)) = view.step(state, at) else {
                continue;
            };
            let further = distance + u32::from(kind != FREE);
            if next == to {
                if last.is_none_or(|(best, _, _)| further < best) {
                    last = Some((further, state, kind));
                }
                continue;
            }
            if next == from || !within(next) {
                continue;
            }
            if reached.get(&next).is_some_and(|known| known.0 <= further) {
                continue;
            }
            reached.insert(next, (further, state, kind));
            match kind {
                FREE => queue.push_front((next, further)),
                _ => queue.push_back((next, further)),
            }
        }
    }
    let (_, mut before, kind) = last?;
    let mut edges = vec![(view.vertex(before), view.vertex(to), kind)];
    while before != from {
        let (_, earlier, kind) = reached[&before];
        edges.push((view.vertex(earlier), view.vertex(before), kind));
        before = earlier;
    }
    edges.reverse();
    Some(edges)
}

/// Joins the edges through further vertices to edges between transactions.
pub fn between_transactions(edges: &[Edge]) -> Vec<Edge> {
    let mut joined: Vec<Edge> = Vec::new();
    for &(from, to, kind) in edges {
        match joined.last_mut() {
            Some(last) if kind == FREE => last.1 = to,
            _ => joined.push((from, to, kind)),
        }
    }
    joined
}
