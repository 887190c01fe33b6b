//! Finds strongly connected components.

use super::graph::{Graph, Kinds, RW};
use super::history::NONE;

/// The part of a graph in which cycles are searched for: edges of some kinds.
///
/// With kinds `apart`, no edge of kind rw may follow an edge of these kinds. Then a state is a vertex
/// and whether the edge before it was one of them: a cycle of states is a cycle in which an rw edge
/// never follows one of these kinds, also across its ends.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub graph: &'a Graph,
    pub kinds: Kinds,
    pub apart: Kinds,
}

impl View<'_> {
    pub fn states(&self) -> usize {
        self.graph.len() << u32::from(self.apart != 0)
    }

    #[inline]
    pub fn vertex(&self, state: u32) -> u32 {
        state >> u32::from(self.apart != 0)
    }

    /// Iterates over the states of a vertex.
    pub fn states_of(&self, vertex: u32) -> std::ops::Range<u32> {
        let count = 1 << u32::from(self.apart != 0);
        vertex * count..(vertex + 1) * count
    }

    /// Returns the state after the edge at a position, if it may follow the state.
    #[inline]
    pub fn step(&self, state: u32, at: usize) -> Option<(u32, Kinds)> {
        let (to, kind) = self.graph.edge(at);
        if kind & (self.kinds | super::graph::FREE) == 0 {
            return None;
        }
        if self.apart == 0 {
            return Some((to, kind));
        }
        let was_apart = state & 1 == 1;
        // A further vertex hands on what entered it.
        let is_apart = match kind {
            super::graph::FREE => was_apart,
            RW if was_apart => return None,
            _ => kind & self.apart != 0,
        };
        Some((2 * to + u32::from(is_apart), kind))
    }
}

/// The components of more than one state, with the states of each.
pub struct Components {
    /// By state: its component, or [`NONE`] if no cycle leads through it.
    of: Vec<u32>,
    /// Each component's states. The order of components is that of their ends: an edge between
    /// two leads from the later to the earlier.
    pub all: Vec<Vec<u32>>,
}

impl Components {
    #[inline]
    pub fn of(&self, state: u32) -> Option<u32> {
        let found = self.of[state as usize];
        (found != NONE).then_some(found)
    }

    /// Whether both states are in the same component.
    pub fn joins(&self, a: u32, b: u32) -> bool {
        self.of(a).is_some() && self.of(a) == self.of(b)
    }
}

/// A depth-first search that has not ended.
struct Search<'a> {
    view: View<'a>,
    /// By state: when it was reached, from 1; 0 if it was not.
    reached: Vec<u32>,
    /// By state: the earliest state on the stack that is reachable from it.
    low: Vec<u32>,
    clock: u32,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    /// The path to the current state: each state with its next edge.
    path: Vec<(u32, u32)>,
    found: Components,
}

/// Returns the components that can be reached from vertices (Tarjan 1972, without recursion).
pub fn components(view: View<'_>, vertices: &[u32]) -> Components {
    let states = view.states();
    let mut search = Search {
        view,
        reached: vec![0; states],
        low: vec![0; states],
        clock: 0,
        on_stack: vec![false; states],
        stack: Vec::new(),
        path: Vec::new(),
        found: Components {
            of: vec![NONE; states],
            all: Vec::new(),
        },
    };
    for &vertex in vertices {
        for state in view.states_of(vertex) {
            if search.reached[state as usize] == 0 {
                search.from(state);
            }
        }
    }
    search.found
}

impl Search<'_> {
    fn enter(&mut self, state: u32) {
        self.clock += 1;
        self.reached[state as usize] = self.clock;
        self.low[state as usize] = self.clock;
        self.on_stack[state as usize] = true;
        self.stack.push(state);
        let row = self.view.graph.row(self.view.vertex(state));
        self.path.push((state, row.start as u32));
    }

    fn from(&mut self, state: u32) {
        self.enter(state);
        while let Some((state, edge)) = self.path.last_mut() {
            let (state, at) = (*state, *edge as usize);
            if at < self.view.graph.row(self.view.vertex(state)).end {
                *edge += 1;
                let Some((to, _)) = self.view.step(state, at) else {
                    continue;
                };
                if self.reached[to as usize] == 0 {
                    self.enter(to);
                } else if self.on_stack[to as usize] {
                    let low = self.reached[to as usize];
                    self.low[state as usize] = self.low[state as usize].min(low);
                }
                continue;
            }
            self.path.pop();
            if let Some(&(above, _)) = self.path.last() {
                let low = self.low[state as usize];
                self.low[above as usize] = self.low[above as usize].min(low);
            }
            if self.low[state as usize] == self.reached[state as usize] {
                self.close(state);
            }
        }
    }

    /// Removes a component from the stack, of which `state` was reached first.
    fn close(&mut self, state: u32) {
        let from = self.stack.iter().rposition(|&s| s == state);
        let states = self.stack.split_off(from.expect("it is on the stack"));
        for &state in &states {
            self.on_stack[state as usize] = false;
        }
        if states.len() > 1 {
            for &state in &states {
                self.found.of[state as usize] = self.found.all.len() as u32;
            }
            self.found.all.push(states);
        }
    }
}
