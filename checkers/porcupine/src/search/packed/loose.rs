//! The operations in flight that have no bit, and calls that never returned.

use crate::search::machine::{ones, Machine};

pub(super) struct Loose {
    /// By action: how many there are.
    count: Vec<u32>,
    /// The states that those lead to that overwrite; by state, the states that the others lead to.
    writes: u64,
    moves: Vec<u64>,
    /// By seat: how many operations had returned at the call.
    called: Vec<u32>,
    /// By state: how many had returned when it was last possible.
    possible: Vec<Option<u32>>,
}

impl Loose {
    pub fn new(machine: &Machine, seats: usize) -> Self {
        Self {
            count: vec![0; machine.acts.len()],
            writes: 0,
            moves: vec![0; machine.states],
            called: vec![0; seats],
            possible: vec![None; machine.states],
        }
    }

    pub fn call(&mut self, machine: &Machine, seat: usize, action: u32, returned: u32) {
        self.called[seat] = returned;
        self.lose(machine, action);
    }

    /// One that never returns was called.
    pub fn lose(&mut self, machine: &Machine, action: u32) {
        self.count[action as usize] += 1;
        if self.count[action as usize] == 1 {
            self.open(machine, action);
        }
    }

    fn open(&mut self, machine: &Machine, action: u32) {
        let act = machine.act(action);
        for state in ones(act.fits & !act.stays) {
            let after = machine.after(state as u64, action).expect("it fits");
            if act.blind && act.overwrites {
                self.writes |= 1 << after;
            } else {
                self.moves[state] |= 1 << after;
            }
        }
    }

    /// It returned. False: it was not possible at any time since its call.
    pub fn ret(&mut self, machine: &Machine, seat: usize, action: u32) -> bool {
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
        let called = Some(self.called[seat]);
        ones(machine.act(action).fits).any(|state| self.possible[state] >= called)
    }

    /// The state was possible when so many had returned.
    pub fn seen(&mut self, state: u64, returned: u32) {
        self.possible[state as usize] = Some(returned);
    }

    /// The states after one of them, and whether it overwrites.
    #[inline(always)]
    pub fn after(&self, state: u64) -> impl Iterator<Item = (u64, bool)> + use<> {
        let writes = self.writes;
        let all = writes | self.moves[state as usize];
        ones(all).map(move |after| (after as u64, writes >> after & 1 == 1))
    }
}
