//! Finds operations that make another one possible.
//!
//! Without this, a witness may shrink to an innocent operation: of write 1, cas 1 → 2, read 1, the
//! cas alone has no linearization either, and proves nothing.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::budget::Limits;
use crate::search::{Model, Op};

/// Whether some operations, in whatever order, make another one possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Possible {
    Yes,
    /// None of them do.
    No,
    /// The search reached its limit.
    Unknown,
}

/// Remembers what made operations possible, so that it is searched for once.
#[derive(Default)]
pub struct Support {
    /// By row: rows after which it is possible.
    known: FxHashMap<u32, Vec<u32>>,
}

/// Maximum number of steps of one search, and for each operation of the part; passing over an
/// operation costs a fraction of a step.
const STEPS_MAX: usize = 50_000;
const STEPS_EACH: usize = 4;
const PASSED_PER_STEP: usize = 16;
/// Up to this many operations, every set of them is tried; beyond, only one for each state.
const EXACT_MAX: usize = 12;
const NONE: u32 = u32::MAX;

/// A state after some operations of a part.
struct Node {
    state: u64,
    /// The index in the part of the last of them, and the node before it.
    last: u32,
    before: u32,
}

/// How often a search may place an operation of the part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Once; every set of operations is tried.
    OnceInSets,
    /// Once; one set of operations is tried for each state.
    Once,
    /// Any number of times.
    Repeatedly,
}

enum Found {
    /// The rows of operations after which the action is possible.
    Rows(Vec<u32>),
    Nothing,
    /// The search reached its limit.
    Limit,
}

impl Support {
    /// Whether `op` is possible after some of the others of the part, which is in order of call and
    /// row. `rows` are the part's rows.
    pub fn of<M: Model>(
        &mut self,
        model: &mut M,
        (part, rows): (&[Op], &FxHashSet<u32>),
        op: &Op,
        limits: Limits,
    ) -> Possible {
        let known = self.known.get(&op.row);
        if known.is_some_and(|known| known.iter().all(|row| rows.contains(row))) {
            return Possible::Yes;
        }
        let order = |op: &Op| (op.call, op.row);
        let Ok(at) = part.binary_search_by_key(&order(op), order) else {
            return Possible::Unknown;
        };
        let mut search = |place| find(model, part, at, place, limits);
        let found = match part.len() <= EXACT_MAX {
            true => search(Use::OnceInSets),
            false => match search(Use::Once) {
                // What is impossible after operations in any number is so after any set of them.
                Found::Nothing => match search(Use::Repeatedly) {
                    Found::Rows(_) => Found::Limit,
                    other => other,
                },
                other => other,
            },
        };
        match found {
            Found::Rows(rows) => {
                self.known.insert(op.row, rows);
                Possible::Yes
            }
            Found::Nothing if model.halted().is_none() => Possible::No,
            _ => Possible::Unknown,
        }
    }
}

/// Finds few operations of the part after which the one at `target` is possible; the latest before
/// it, if there are several. Breadth first.
fn find<M: Model>(model: &mut M, part: &[Op], target: usize, place: Use, limits: Limits) -> Found {
    let action = part[target].action;
    let root = Node {
        state: model.initial(),
        last: NONE,
        before: NONE,
    };
    if model.step(root.state, action).is_some() {
        return Found::Rows(Vec::new());
    }
    let most = PASSED_PER_STEP * STEPS_MAX.max(STEPS_EACH * part.len());
    let mut seen = FxHashSet::from_iter([(root.state, 0u64)]);
    let mut nodes = vec![root];
    let (mut after, mut tried) = (Vec::new(), FxHashSet::default());
    let (mut at, mut passed) = (0, 0);
    while at < nodes.len() {
        let state = nodes[at].state;
        let placed: Vec<usize> = match place {
            Use::Repeatedly => Vec::new(),
            _ => path(&nodes, at).collect(),
        };
        tried.clear();
        for i in (0..target).rev().chain((target + 1..part.len()).rev()) {
            passed += 1;
            if placed.contains(&i) || !tried.insert(part[i].action) {
                continue;
            }
            passed += PASSED_PER_STEP;
            if passed > most || (tried.len() % 1024 == 0 && limits.out_of_time().is_some()) {
                return Found::Limit;
            }
            let with = match place {
                Use::OnceInSets => placed.iter().map(|i| 1 << i).sum::<u64>() | 1 << i,
                _ => 0,
            };
            after.clear();
            model.steps(state, part[i].action, &mut after);
            for &next in &after {
                if next == state || !seen.insert((next, with)) {
                    continue;
                }
                nodes.push(Node {
                    state: next,
                    last: i as u32,
                    before: at as u32,
                });
                if model.step(next, action).is_some() {
                    let rows = path(&nodes, nodes.len() - 1).map(|i| part[i].row);
                    return Found::Rows(rows.collect());
                }
            }
        }
        at += 1;
    }
    Found::Nothing
}

/// Iterates over the operations that lead to a node, the last first.
fn path(nodes: &[Node], at: usize) -> impl Iterator<Item = usize> + '_ {
    let nodes = std::iter::successors(Some(&nodes[at]), |node| nodes.get(node.before as usize));
    nodes
        .take_while(|node| node.last != NONE)
        .map(|node| node.last as usize)
}
