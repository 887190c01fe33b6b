//! Finds out which versions of registers are later than others.

use rustc_hash::FxHashMap;

use super::{Assumptions, Registers};
use crate::transactions::components::{components, View};
use crate::transactions::graph::{Edges, Kinds, Size, WW};
use crate::transactions::history::{Outcome, NONE};

/// What a transaction says about one key.
#[derive(Clone, Copy)]
struct Interaction {
    transaction: u32,
    /// The version that it found before it wrote, or else the one that it left; [`NONE`] if
    /// nothing is known.
    first: u32,
    /// The version that it left, or else the one that it found.
    last: u32,
}

/// Returns pairs of versions of which the second is later, ascending, each once.
pub fn later(registers: &Registers, by_call: &[u32], assumptions: Assumptions) -> Vec<(u32, u32)> {
    let mut rank = vec![0u32; registers.history.len()];
    for (place, &at) in (0u32..).zip(by_call) {
        rank[at as usize] = place;
    }
    let mut pairs = Vec::new();
    for key in 0..registers.history.keys.len() {
        let mut all = interactions(registers, key);
        all.sort_unstable_by_key(|one| rank[one.transaction as usize]);
        if assumptions.writes_follow_reads {
            pairs.extend(all.iter().map(|one| (one.first, one.last)));
        }
        if assumptions.sequential_keys {
            by_process(registers, &all, &mut pairs);
        }
        if assumptions.linearizable_keys {
            by_time(registers, &all, &mut pairs);
        }
    }
    pairs.retain(|&(a, b)| a != b && a != NONE && b != NONE && !registers.is_initial(a));
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn interactions(registers: &Registers, key: usize) -> Vec<Interaction> {
    let history = registers.history;
    let runs = history.runs(&history.keys[key]);
    let effective = runs.filter(|ops| registers.happened[registers.transaction(ops[0]) as usize]);
    let interaction = |ops: &[u32]| {
        let version = |op: u32| registers.version[op as usize];
        let mut writes = ops.iter().filter(|&&op| !history.is_read[op as usize]);
        let written = writes.next_back().map_or(NONE, |&op| version(op));
        let found = match history.is_committed_read(ops[0]) {
            true => version(ops[0]),
            false => NONE,
        };
        Interaction {
            transaction: registers.transaction(ops[0]),
            first: if found == NONE { written } else { found },
            last: if written == NONE { found } else { written },
        }
    };
    effective.map(interaction).collect()
}

/// Orders the versions that each process met one after the other. O(n).
fn by_process(registers: &Registers, all: &[Interaction], pairs: &mut Vec<(u32, u32)>) {
    let mut before: FxHashMap<i64, u32> = FxHashMap::default();
    for one in all {
        let process = registers.history.process[one.transaction as usize];
        if let Some(last) = before.insert(process, one.last) {
            pairs.push((last, one.first));
        }
    }
}

/// Orders the versions that were met before others, as a transitive reduction. O(n × processes).
fn by_time(registers: &Registers, all: &[Interaction], pairs: &mut Vec<(u32, u32)>) {
    let history = registers.history;
    let call = |one: &Interaction| history.call[one.transaction as usize];
    let ret = |one: &Interaction| history.ret[one.transaction as usize];
    let committed =
        |one: &&Interaction| history.outcome[one.transaction as usize] == Outcome::Committed;
    let mut by_return: Vec<Interaction> = all.iter().filter(committed).copied().collect();
    by_return.sort_unstable_by_key(ret);
    let mut returned = by_return.iter().peekable();
    // Transactions that returned, but not before another was called that returned.
    let mut frontier: Vec<Interaction> = Vec::new();
    for one in all {
        while let Some(&before) = returned.next_if(|before| ret(before) < call(one)) {
            frontier.retain(|earlier| ret(earlier) >= call(&before));
            frontier.push(before);
        }
        pairs.extend(frontier.iter().map(|before| (before.last, one.first)));
    }
}

impl Edges for Registers<'_> {
    fn each(&self, vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        self.dependencies(vertices, edge)
    }
}

/// The order of versions as a graph of versions.
struct Versions<'a>(&'a [(u32, u32)]);

impl Edges for Versions<'_> {
    fn each(&self, vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        for &(a, b) in self.0 {
            edge(a, b, WW);
        }
        vertices
    }
}

impl Registers<'_> {
    /// Drops the order of the keys in which it is a cycle, and returns these keys.
    pub fn drop_cycles(&mut self) -> Vec<usize> {
        let initial = self.later.iter().filter(|pair| self.is_initial(pair.1));
        let mut keys: Vec<usize> = initial.map(|pair| self.key_of(pair.1)).collect();
        let versions = Versions(&self.later);
        let size = Size::new(self.writers.len(), &[&versions]).expect("as many as operations");
        let graph = size.build(&[&versions]);
        let core = graph.core();
        if !core.is_empty() {
            let view = View {
                graph: &graph,
                kinds: WW,
                apart: 0,
            };
            let found = components(view, &core);
            keys.extend(found.all.iter().map(|versions| self.key_of(versions[0])));
        }
        keys.sort_unstable();
        keys.dedup();
        let starts = &self.starts;
        let key_of = |version: u32| starts.partition_point(|&start| start <= version) - 1;
        self.later
            .retain(|pair| keys.binary_search(&key_of(pair.0)).is_err());
        keys
    }

    pub fn key_of(&self, version: u32) -> usize {
        self.starts.partition_point(|&start| start <= version) - 1
    }
}
