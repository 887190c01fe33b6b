//! Finds the worst kinds of cycles in a graph of dependencies.
//!
//! Whether there is a cycle of a kind is decided by the components of the graph with the edges of
//! that kind, so in linear time: G0 by ww; G1c by ww and wr; cycles with rw edges apart by states
//! ([`View`]); G2-item by all. Only G-single takes longer, see `single`.

use super::components::{components, Components, View};
use super::graph::{Graph, Kinds, PROCESS, REALTIME, RW, WR, WW};
use super::levels::{Cycle, Time};
use super::paths::{self, Edge};
use super::single::Single;
use crate::budget::Limits;

/// Cycles of one kind.
pub struct Found {
    pub cycle: Cycle,
    pub time: Time,
    /// Number of components whose worst cycles they are.
    pub count: usize,
    /// One cycle, the shortest that was found; empty if time ran out before.
    pub edges: Vec<Edge>,
}

/// What a search found.
#[derive(Default)]
pub struct Cycles {
    pub found: Vec<Found>,
    /// Why cycles of some kinds were not searched for.
    pub undecided: Option<&'static str>,
    /// The vertices of all cycles.
    pub members: Vec<u32>,
}

/// Finds the worst cycle of each component, and then those that order in time makes worse.
/// `core` has all vertices of cycles.
pub fn find(graph: &Graph, core: &[u32], time: Time, limits: &Limits) -> Cycles {
    let mut cycles = Cycles::default();
    let times = [Time::Nothing, Time::Process, Time::RealTime];
    for time in times.into_iter().filter(|&t| t <= time) {
        let out = limits.out_of_time();
        cycles.undecided = out.or_else(|| limits.out_of_memory(Search::bytes(graph)));
        if cycles.undecided.is_some() {
            break;
        }
        let extra = match time {
            Time::Nothing => 0,
            Time::Process => PROCESS,
            Time::RealTime => PROCESS | REALTIME,
        };
        let worst = cycles.found.iter().map(|found| found.cycle).min();
        let search = Search::new(graph, core, extra, limits);
        search.add(time, worst, &mut cycles);
        cycles.members = search.all.all.concat();
    }
    cycles
}

/// Returns a shortest cycle in which each rw edge follows a wr or process edge; nothing if there is
/// none. Prefix consistency forbids it, because what a transaction missed commits after all that it
/// saw, and so does all that overwrites it (Cerone, Gotsman & Yang, "Algebraic Laws for Weak
/// Consistency", CONCUR 2017).
pub fn find_prefix(graph: &Graph, members: &[u32], extra: Kinds, limits: &Limits) -> Vec<Edge> {
    let view = View {
        graph,
        kinds: WW | WR | RW | extra,
        apart: RW | WW,
    };
    let found = components(view, members);
    let states = members.iter().flat_map(|&v| view.states_of(v));
    paths::shortest_cycle(view, states, &found, limits)
}

/// The components of a graph by the kinds of edges that are allowed in it.
struct Search<'a> {
    graph: &'a Graph,
    extra: Kinds,
    limits: &'a Limits<'a>,
    ww: Components,
    wr: Components,
    apart: Components,
    all: Components,
}

/// The components of which one kind of cycle is the worst.
struct Class<'a> {
    cycle: Cycle,
    count: usize,
    /// The smallest of them: its vertices, and edges with which cycles of kind G-single begin.
    vertices: &'a [u32],
    first: Vec<Edge>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, core: &[u32], extra: Kinds, limits: &'a Limits<'a>) -> Self {
        let view = |kinds, apart| View {
            graph,
            kinds: kinds | extra,
            apart,
        };
        Self {
            graph,
            extra,
            limits,
            ww: components(view(WW, 0), core),
            wr: components(view(WW | WR, 0), core),
            apart: components(view(WW | WR | RW, RW), core),
            all: components(view(WW | WR | RW, 0), core),
        }
    }

    /// Returns the memory of the components, of which those of states are twice as large.
    fn bytes(graph: &Graph) -> usize {
        5 * 20 * graph.len()
    }

    /// Adds the cycles that are worse than `worst`.
    fn add(&self, time: Time, worst: Option<Cycle>, cycles: &mut Cycles) {
        let mut classes: Vec<Class> = Vec::new();
        for vertices in &self.all.all {
            let (cycle, first) = self.classify(vertices, &mut cycles.undecided);
            if time != Time::Nothing && worst.is_some_and(|worst| worst <= cycle) {
                continue;
            }
            match classes.iter_mut().find(|class| class.cycle == cycle) {
                None => classes.push(Class {
                    cycle,
                    count: 1,
                    vertices,
                    first,
                }),
                Some(class) => {
                    class.count += 1;
                    if vertices.len() < class.vertices.len() {
                        (class.vertices, class.first) = (vertices, first);
                    }
                }
            }
        }
        classes.sort_by_key(|class| class.cycle);
        for class in classes {
            let edges = self.witness(&class);
            cycles.found.push(Found {
                cycle: class.cycle,
                time,
                count: class.count,
                edges,
            });
        }
    }

    /// Returns the worst kind of cycle in a component.
    fn classify(
        &self,
        vertices: &[u32],
        undecided: &mut Option<&'static str>,
    ) -> (Cycle, Vec<Edge>) {
        if vertices.iter().any(|&v| self.ww.of(v).is_some()) {
            return (Cycle::G0, Vec::new());
        }
        if vertices.iter().any(|&v| self.wr.of(v).is_some()) {
            return (Cycle::G1c, Vec::new());
        }
        let view = self.view(Cycle::GNonadjacent);
        let is_apart = |v: u32| {
            view.states_of(v)
                .any(|state| self.apart.of(state).is_some())
        };
        if !vertices.iter().any(|&v| is_apart(v)) {
            return (Cycle::G2Item, Vec::new());
        }
        let kinds = WW | WR | self.extra;
        match Single::new(self.graph, kinds, vertices).find(self.limits) {
            Ok(first) if first.is_empty() => (Cycle::GNonadjacent, first),
            Ok(first) => (Cycle::GSingle, first),
            Err(why) => {
                *undecided = Some(why);
                (Cycle::GNonadjacent, Vec::new())
            }
        }
    }

    /// Returns the part of the graph in which cycles of a kind are.
    fn view(&self, cycle: Cycle) -> View<'a> {
        let (kinds, apart) = match cycle {
            Cycle::G0 => (WW, 0),
            Cycle::G1c | Cycle::GSingle => (WW | WR, 0),
            Cycle::GNonadjacent => (WW | WR | RW, RW),
            Cycle::G2Item => (WW | WR | RW, 0),
            Cycle::GCausal | Cycle::GPrefix => unreachable!("they are no kind of a component"),
        };
        View {
            graph: self.graph,
            kinds: kinds | self.extra,
            apart,
        }
    }

    fn witness(&self, class: &Class) -> Vec<Edge> {
        let view = self.view(class.cycle);
        let limits = self.limits;
        let components = match class.cycle {
            Cycle::G0 => &self.ww,
            Cycle::G1c => &self.wr,
            Cycle::GNonadjacent => &self.apart,
            Cycle::G2Item => &self.all,
            Cycle::GSingle => {
                return paths::shortest_closed(view, &class.first, &self.all, limits);
            }
            Cycle::GCausal | Cycle::GPrefix => unreachable!("they are no kind of a component"),
        };
        let states = class.vertices.iter().flat_map(|&v| view.states_of(v));
        paths::shortest_cycle(view, states, components, limits)
    }
}
