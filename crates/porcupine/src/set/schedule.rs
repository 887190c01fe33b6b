//! Decides process order with values added more than once, by constructing the order.
//!
//! The contents C₁ ⊂ C₂ ⊂ … of the reads are a chain, and a linearization goes through them in
//! turn: all reads of Cₖ come before any add of a value outside Cₖ. While the content is growing to
//! Cₖ or is Cₖ, an add of a value of Cₖ can be taken at once: either it must be in the set before
//! the reads of Cₖ, or it already is. So nothing is ever taken too early, and there is no choice.

use super::chain::Levels;
use super::index::Indexed;
use super::Placed;

#[derive(Clone, Copy)]
enum Node {
    Add(usize),
    Read(usize),
}

/// Whether some order explains the reads. O(n log n).
pub(super) fn explains(indexed: &Indexed, order: &Placed, levels: &Levels) -> bool {
    let lanes = lanes(order);
    let mut at = vec![0; lanes.len()];
    let mut unread: Vec<usize> = vec![0; levels.contents.len() + 1];
    for &level in &levels.read {
        unread[level as usize / 2] += 1;
    }
    let mut unfilled: Vec<usize> = vec![0; levels.contents.len() + 1];
    for &level in levels.value.iter().filter(|&&l| l != super::chain::UNSEEN) {
        unfilled[level as usize / 2 + 1] += 1;
    }
    let mut added = vec![false; indexed.values.len()];
    for k in 1..=levels.contents.len() {
        let mut moved = true;
        while moved {
            moved = false;
            for (lane, at) in lanes.iter().zip(&mut at) {
                while *at < lane.len() {
                    let may = match lane[*at] {
                        Node::Add(a) => {
                            let v = indexed.of_add[a] as usize;
                            let may = levels.value[v] < 2 * k as u32;
                            if may && !std::mem::replace(&mut added[v], true) {
                                unfilled[levels.value[v] as usize / 2 + 1] -= 1;
                            }
                            may
                        }
                        Node::Read(r) => {
                            let may = levels.read[r] == 2 * k as u32 && unfilled[k] == 0;
                            unread[k] -= usize::from(may);
                            may
                        }
                    };
                    if !may {
                        break;
                    }
                    *at += 1;
                    moved = true;
                }
            }
        }
        if unread[k] > 0 || unfilled[k] > 0 {
            return false;
        }
    }
    true
}

/// Returns the operations of each process in order. One that never returned is the last of its
/// process.
fn lanes(order: &Placed) -> Vec<Vec<Node>> {
    let adds = order.add_at.iter().enumerate();
    let reads = order.read_at.iter().enumerate();
    let mut all: Vec<_> = adds
        .map(|(a, at)| (at, Node::Add(a)))
        .chain(reads.map(|(r, at)| (at, Node::Read(r))))
        .collect();
    all.sort_by_key(|(at, _)| (at.group, at.call));
    let mut lanes: Vec<Vec<Node>> = vec![Vec::new(); order.groups];
    for (at, node) in all {
        lanes[at.group as usize].push(node);
    }
    lanes
}
