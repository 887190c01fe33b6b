//! Tracks the operations in flight that have no bit, and calls that never returned.

use crate::search::machine::{ones, Machine};

pub(super) struct Loose {
    /// By action: the number of such operations.
    count: Vec<u32>,
    /// The states that overwriting operations lead to; and by state, the states that the others
    /// lead to.
    writes: u64,
    moves: Vec<u64>,
    /// By slot: the number of operations that had returned at the call.
    called: Vec<u32>,
    /// By state: the number of operations that had returned when it was last possible.
    possible: Vec<Option<u32>>,
}

impl Loose {
    pub fn new(machine: &Machine, slots: usize) -> Self {
        Self {
            count: vec![0; machine.effects.len()],
            writes: 0,
            moves: vec![0; machine.states],
            called: vec![0; slots],
            possible: vec![None; machine.states],
        }
    }

    pub fn call(&mut self, machine: &Machine, slot: usize, action: u32, returned: u32) {
        self.called[slot] = returned;
        self.lose(machine, action);
    }

    /// Adds a call that never returns.
    pub fn lose(&mut self, machine: &Machine, action: u32) {
        self.count[action as usize] += 1;
        if self.count[action as usize] == 1 {
            self.open(machine, action);
        }
    }

    fn open(&mut self, machine: &Machine, action: u32) {
        let effect = machine.effect(action);
        for state in ones(effect.fits & !effect.stays) {
            let after = machine.after(state as u64, action).expect("it fits");
            if effect.blind && effect.overwrites {
                self.writes |= 1 << after;
            } else {
                self.moves[state] |= 1 << after;
            }
        }
    }

    /// Removes an operation that returned; returns false if it was not possible at any time since
    /// its call.
    pub fn ret(&mut self, machine: &Machine, slot: usize, action: u32) -> bool {
        self.count[action as usize] -= 1;
        if self.count[action as usize] == 0 {
            self.writes = 0;
            self.moves.fill(0);
            for action in 0..self.count.len() {
                if self.count[action] > 0 {
                    self.open(machine, action as u32);
                }
            }
        }
        let called = Some(self.called[slot]);
        ones(machine.effect(action).fits).any(|state| self.possible[state] >= called)
    }

    /// Records that the state was possible when `returned` operations had returned.
    pub fn seen(&mut self, state: u64, returned: u32) {
        self.possible[state as usize] = Some(returned);
    }

    /// Returns the states reachable from a state by one loose operation, and whether that
    /// overwrites.
    #[inline(always)]
    pub fn after(&self, state: u64) -> impl Iterator<Item = (u64, bool)> + use<> {
        let writes = self.writes;
        let all = writes | self.moves[state as usize];
        ones(all).map(move |after| (after as u64, writes >> after & 1 == 1))
    }
}
