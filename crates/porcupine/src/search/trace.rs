//! Records how configurations arose, for when a linearization is requested.

/// The trace of the initial configuration.
pub(super) const START: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    /// The operation's index times two, plus one if it could have been placed without effect.
    what: u32,
}

/// A forest of steps, each linked to its predecessor.
pub(super) struct Traces {
    links: Vec<Link>,
    on: bool,
}

impl Traces {
    pub fn new(on: bool) -> Self {
        Self {
            links: Vec::new(),
            on,
        }
    }

    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Whether no more links can be numbered.
    pub fn is_full(&self) -> bool {
        self.links.len() > u32::MAX as usize / 2
    }

    /// Records that the operation was placed with its effect.
    pub fn placed(&mut self, before: u32, op: u32) -> u32 {
        self.link(before, 2 * op)
    }

    /// Records that the operation could be placed here without effect.
    pub fn freed(&mut self, before: u32, op: u32) -> u32 {
        self.link(before, 2 * op + 1)
    }

    fn link(&mut self, before: u32, what: u32) -> u32 {
        if !self.on {
            return START;
        }
        self.links.push(Link { before, what });
        self.links.len() as u32 - 1
    }

    /// Returns the operations in the order in which they were placed. A free operation that was not
    /// used comes where it first became free.
    pub fn order(&self, mut last: u32, ops: usize) -> Vec<u32> {
        let mut whats = Vec::new();
        while last != START {
            let link = self.links[last as usize];
            whats.push(link.what);
            last = link.before;
        }
        let mut done = vec![false; ops];
        for &what in whats.iter().filter(|&w| w & 1 == 0) {
            done[what as usize / 2] = true;
        }
        let mut order = Vec::new();
        for &what in whats.iter().rev() {
            let op = what / 2;
            if what & 1 == 0 || !std::mem::replace(&mut done[op as usize], true) {
                order.push(op);
            }
        }
        order
    }
}
