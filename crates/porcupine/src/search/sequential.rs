//! Searches if only each process's own order counts.

use rustc_hash::FxHashSet;

use super::{Ended, Model, Op};
use crate::budget::Limits;
use crate::order::NEVER;

/// An operation of a process.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Position in the given history.
    pub row: u32,
    pub action: u32,
    /// Whether it may be left out, which only the last of a process may.
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
/// (the position in each process, and the state) is tried once, so time and memory are at most the
/// product of the processes' lengths times the number of states. The problem is NP-complete
/// (Gibbons & Korach 1997, theorem 4.9), even if all values are different.
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
    /// Visited configurations: positions and state.
    seen: FxHashSet<Box<[u32]>>,
    /// The lane of each step so far.
    order: Vec<u32>,
    longest: Vec<u32>,
    explored: u64,
}

/// An open choice: the lanes from `lane` on are still to be tried.
struct Choice {
    state: u64,
    lane: u32,
    /// Length of the order at the choice.
    depth: usize,
    /// Successors of `lane - 1` that are still to be tried.
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

    /// Advances past operations that change nothing or that are always right to take.
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
        let out_of_time = (self.explored % 256 == 0)
            .then(|| self.limits.out_of_time())
            .flatten();
        out_of_time.or_else(|| self.limits.out_of_memory(self.model.bytes_elsewhere()))
    }

    fn rows(&self, order: &[u32]) -> Vec<u32> {
        let mut at = vec![0; self.lanes.len()];
        let mut row = |&lane: &u32| {
            at[lane as usize] += 1;
            self.lanes[lane as usize][at[lane as usize] - 1].row
        };
        order.iter().map(&mut row).collect()
    }

    /// Returns the row of the first operation that the longest order lacks.
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
