//! The search where only each process's own order counts.

use rustc_hash::FxHashSet;

use super::{Ended, Model, Op};
use crate::budget::Limits;
use crate::order::NEVER;

/// An operation of a process.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Position in the history that was given.
    pub row: u32,
    pub action: u32,
    /// May be left out; then it is the last of its process.
    pub optional: bool,
}

impl Turn {
    pub fn new(op: &Op) -> Self {
        Self {
            row: op.row,
            action: op.action,
            optional: op.ret == NEVER,
        }
    }
}

/// Decides whether the processes' operations can be interleaved. Depth first; each configuration
/// (how far each process is, and the state) is tried once, so time and memory are at most the
/// product of the processes' lengths times the number of states. Deciding this is NP-complete
/// (Gibbons & Korach 1997, theorem 4.9), even with different values.
pub fn interleave<M: Model>(model: &mut M, lanes: &[Vec<Turn>], limits: Limits) -> Ended {
    let state = model.initial();
    let mut walk = Walk {
        model,
        lanes,
        limits,
        seen: FxHashSet::default(),
        order: Vec::new(),
        longest: Vec::new(),
        explored: 0,
    };
    walk.run(state)
}

struct Walk<'a, M> {
    model: &'a mut M,
    lanes: &'a [Vec<Turn>],
    limits: Limits<'a>,
    /// Positions and state.
    seen: FxHashSet<Box<[u32]>>,
    /// Lanes that were advanced.
    order: Vec<u32>,
    longest: Vec<u32>,
    explored: u64,
}

/// A choice that is still open: the lanes from `lane` on are to be tried.
struct Choice {
    state: u64,
    lane: u32,
    /// Length of the order when the choice came up.
    depth: usize,
    /// Successors of `lane - 1` that are to be tried yet.
    states: Vec<u64>,
}

impl<M: Model> Walk<'_, M> {
    fn run(&mut self, initial: u64) -> Ended {
        let mut at: Vec<u32> = vec![0; self.lanes.len()];
        let mut choices: Vec<Choice> = Vec::new();
        let mut entered = Some(initial);
        loop {
            if let Some(state) = entered.take() {
                let state = self.settle(&mut at, state);
                if self.order.len() > self.longest.len() {
                    self.longest = self.order.clone();
                }
                if self.finished(&at) {
                    let order = self.rows(&self.order);
                    return Ended::Explained { order };
                }
                self.explored += 1;
                if let Some(why) = self.exhausted() {
                    return self.gave_up(why);
                }
                if self.seen.insert(key(&at, state)) {
                    choices.push(Choice {
                        state,
                        lane: 0,
                        depth: self.order.len(),
                        states: Vec::new(),
                    });
                }
            }
            let Some(choice) = choices.last_mut() else {
                if let Some(why) = self.model.halted() {
                    return self.gave_up(why);
                }
                return Ended::Stuck {
                    at: self.next_row(),
                    order: self.rows(&self.longest),
                    others: Vec::new(),
                };
            };
            while self.order.len() > choice.depth {
                let lane = self.order.pop().expect("longer");
                at[lane as usize] -= 1;
            }
            if choice.states.is_empty() {
                if choice.lane as usize == self.lanes.len() {
                    choices.pop();
                    continue;
                }
                let lane = choice.lane as usize;
                choice.lane += 1;
                if let Some(turn) = self.lanes[lane].get(at[lane] as usize) {
                    self.model
                        .steps(choice.state, turn.action, &mut choice.states);
                }
            }
            if let Some(state) = choice.states.pop() {
                let lane = choice.lane - 1;
                at[lane as usize] += 1;
                self.order.push(lane);
                entered = Some(state);
            }
        }
    }

    fn gave_up(&self, why: &'static str) -> Ended {
        Ended::GaveUp {
            why,
            at: self.next_row(),
            explored: self.explored,
        }
    }

    /// Advances past operations that change nothing, or that it is always right to take.
    fn settle(&mut self, at: &mut [u32], mut state: u64) -> u64 {
        let mut moved = true;
        while moved {
            moved = false;
            for (lane, turns) in self.lanes.iter().enumerate() {
                while let Some(turn) = turns.get(at[lane] as usize) {
                    if !self.model.pure(turn.action) && !self.model.eager(turn.action) {
                        break;
                    }
                    let Some(next) = self.model.step(state, turn.action) else {
                        break;
                    };
                    state = next;
                    at[lane] += 1;
                    self.order.push(lane as u32);
                    moved = true;
                }
            }
        }
        state
    }

    fn finished(&self, at: &[u32]) -> bool {
        let done = |(turns, &at): (&Vec<Turn>, &u32)| {
            turns[at as usize..].iter().all(|turn| turn.optional)
        };
        self.lanes.iter().zip(at).all(done)
    }

    fn exhausted(&self) -> Option<&'static str> {
        if self.model.halted().is_some() {
            return self.model.halted();
        }
        let late = (self.explored % 256 == 0)
            .then(|| self.limits.late())
            .flatten();
        late.or_else(|| self.limits.full(self.model.bytes_elsewhere()))
    }

    fn rows(&self, order: &[u32]) -> Vec<u32> {
        let mut at = vec![0; self.lanes.len()];
        let mut row = |&lane: &u32| {
            at[lane as usize] += 1;
            self.lanes[lane as usize][at[lane as usize] - 1].row
        };
        order.iter().map(&mut row).collect()
    }

    /// The first operation that the longest order does not have.
    fn next_row(&self) -> u32 {
        let placed: FxHashSet<u32> = self.rows(&self.longest).into_iter().collect();
        let turns = self.lanes.iter().flatten();
        let left = turns.filter(|t| !t.optional && !placed.contains(&t.row));
        left.map(|t| t.row).min().unwrap_or_default()
    }
}

fn key(at: &[u32], state: u64) -> Box<[u32]> {
    let state = [state as u32, (state >> 32) as u32];
    at.iter().copied().chain(state).collect()
}
