//! Finds rw edges that other kinds of edges close to cycles.

use std::collections::BTreeMap;

use super::graph::{Graph, Kinds, FREE, RW};
use super::paths::Edge;
use crate::budget::Limits;

/// A component in which edges without rw form no cycle.
pub struct Single {
    /// The edges without rw, by places in an order in which they lead forward.
    edges: Vec<(u32, u32)>,
    /// The rw edges, by places, and as they are in the graph.
    rw: Vec<(u32, u32, Edge)>,
    vertices: usize,
}

/// Number of edges that are followed at once.
const BATCH: usize = 64;
/// Number of edges with which a search for a witness begins.
const FOUND_MAX: usize = 16;

impl Single {
    /// `kinds` are those without rw.
    pub fn new(graph: &Graph, kinds: Kinds, vertices: &[u32]) -> Self {
        let order = topological(graph, kinds, vertices);
        let mut edges = Vec::new();
        let mut rw = Vec::new();
        for (vertex, &place) in &order {
            for (to, kind) in graph.out(*vertex, kinds | RW) {
                let Some(&end) = order.get(&to) else {
                    continue;
                };
                match kind {
                    RW => rw.push((place, end, (*vertex, to, RW))),
                    _ => edges.push((place, end)),
                }
            }
        }
        edges.sort_unstable();
        Self {
            edges,
            rw,
            vertices: order.len(),
        }
    }

    /// Returns some of the edges of kind rw that are part of a cycle whose other edges are not.
    /// Follows 64 edges in one pass over the component; the error says why it gave up.
    pub fn find(&self, limits: &Limits) -> Result<Vec<Edge>, &'static str> {
        let mut found = Vec::new();
        let mut reached = vec![0u64; self.vertices];
        for batch in self.rw.chunks(BATCH) {
            if let Some(why) = limits.out_of_time() {
                return if found.is_empty() {
                    Err(why)
                } else {
                    Ok(found)
                };
            }
            reached.fill(0);
            for (bit, &(_, to, _)) in batch.iter().enumerate() {
                reached[to as usize] |= 1 << bit;
            }
            for &(from, to) in &self.edges {
                reached[to as usize] |= reached[from as usize];
            }
            let closed = batch.iter().enumerate();
            let closed = closed.filter(|(bit, rw)| reached[rw.0 as usize] >> bit & 1 == 1);
            found.extend(closed.map(|(_, rw)| rw.2));
            if found.len() >= FOUND_MAX {
                break;
            }
        }
        Ok(found)
    }
}

/// Returns the place of each vertex in an order in which all edges without rw lead forward.
fn topological(graph: &Graph, kinds: Kinds, vertices: &[u32]) -> BTreeMap<u32, u32> {
    let mut predecessors: BTreeMap<u32, u32> = vertices.iter().map(|&v| (v, 0)).collect();
    for &vertex in vertices {
        for (to, _) in graph.out(vertex, kinds | FREE) {
            if let Some(count) = predecessors.get_mut(&to) {
                *count += 1;
            }
        }
    }
    let free = predecessors.iter().filter(|(_, &count)| count == 0);
    let mut ready: Vec<u32> = free.map(|(&vertex, _)| vertex).collect();
    let mut order = BTreeMap::new();
    while let Some(vertex) = ready.pop() {
        order.insert(vertex, order.len() as u32);
        for (to, _) in graph.out(vertex, kinds | FREE) {
            let Some(count) = predecessors.get_mut(&to) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                ready.push(to);
            }
        }
    }
    assert_eq!(order.len(), vertices.len(), "no cycle without rw");
    order
}
