//! Finds violations of causal consistency: a transaction that misses a write of one that it depends
//! on (Cerone, Bernardi & Gotsman, "A Framework for Transactional Consistency Models with Atomic
//! Visibility", CONCUR 2015).
//!
//! There, a transaction sees all that those saw which it sees. At the least it sees what it read
//! and, with the order of processes, what came before; so it is enough that no rw edge closes a path
//! of wr and process edges. An rw edge leads to every later write of the key, not only to the next
//! one: a path through the next writer would need a ww edge, and what is written after what one sees
//! need not be seen.

use super::components::{components, View};
use super::graph::{Edges, Kinds, Size, FREE, PROCESS, RW, WR};
use super::history::NONE;
use super::paths::{self, Edge};
use super::single::Single;
use crate::budget::Limits;

/// Edges of which paths are visibility, each twice: a transaction that an rw edge leads to is a copy
/// of it, which only edges of visibility leave. So the path back has at least one of them, also
/// where a transaction missed what it wrote itself.
struct Visibility<'a> {
    sources: &'a [&'a dyn Edges],
    transactions: u32,
    /// By transaction: the place among those that are part of cycles, or [`NONE`].
    places: Vec<u32>,
    copies: u32,
}

impl Visibility<'_> {
    /// Returns the copy of a transaction, and the place of a further vertex behind all copies.
    fn target(&self, vertex: u32) -> Option<u32> {
        if vertex >= self.transactions {
            return Some(vertex + self.copies);
        }
        let place = self.places[vertex as usize];
        (place != NONE).then(|| self.transactions + place)
    }

    fn is_known(&self, vertex: u32) -> bool {
        vertex >= self.transactions || self.places[vertex as usize] != NONE
    }
}

impl Edges for Visibility<'_> {
    fn each(&self, vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        let mut next = vertices;
        for source in self.sources {
            next = source.each(next, &mut |from, to, kind| {
                if !self.is_known(from) || !self.is_known(to) {
                    return;
                }
                match kind {
                    WR | PROCESS => {
                        edge(from, to, kind);
                        let copy = self.target(from).expect("it is known");
                        edge(copy, to, kind);
                    }
                    RW => edge(from, self.target(to).expect("it is known"), RW),
                    FREE => {
                        let from = self.target(from).expect("a further vertex");
                        edge(from, self.target(to).expect("it is known"), FREE);
                    }
                    _ => {}
                }
            });
        }
        next + self.copies
    }
}

/// Returns the edges of a cycle of one rw edge and edges of visibility, which form no cycle without
/// it; none if there is no such cycle. `members` are the transactions that are part of cycles.
pub fn find(
    sources: &[&dyn Edges],
    transactions: usize,
    members: &[u32],
    limits: &Limits,
) -> Result<Vec<Edge>, &'static str> {
    let mut places = vec![NONE; transactions];
    for (place, &member) in (0u32..).zip(members) {
        places[member as usize] = place;
    }
    let visibility = Visibility {
        sources,
        transactions: transactions as u32,
        places,
        copies: members.len() as u32,
    };
    let sources: [&dyn Edges; 1] = [&visibility];
    let size = Size::new(transactions, &sources).ok_or("there are more than 2^32 dependencies")?;
    if let Some(why) = limits.out_of_memory(size.bytes()) {
        return Err(why);
    }
    let graph = size.build(&sources);
    let further = transactions as u32..graph.len() as u32;
    let vertices: Vec<u32> = members.iter().copied().chain(further).collect();
    let kinds = WR | PROCESS;
    let first = Single::new(&graph, kinds, &vertices).find(limits)?;
    if first.is_empty() {
        return Ok(Vec::new());
    }
    let view = |kinds| View {
        graph: &graph,
        kinds,
        apart: 0,
    };
    let within = components(view(kinds | RW), &vertices);
    let cycle = paths::shortest_closed(view(kinds), &first, &within, limits);
    let original = |vertex: u32| match vertex.checked_sub(transactions as u32) {
        Some(place) if (place as usize) < members.len() => members[place as usize],
        _ => vertex,
    };
    let cycle = paths::between_transactions(&cycle).into_iter();
    Ok(cycle
        .map(|(from, to, kind)| (original(from), original(to), kind))
        .collect())
}
