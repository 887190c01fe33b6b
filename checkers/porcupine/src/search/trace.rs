//! How configurations came about, for when a linearization is asked for.

/// The trace of the initial configuration.
pub(super) const START: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    /// Index of the operation, twice; and one more where it could have been placed without effect.
    what: u32,
}

/// A forest of steps, each with the step before it.
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

    /// No more links can be told apart.
    pub fn full(&self) -> bool {
        self.links.len() > u32::MAX as usize / 2
    }

    /// The operation was placed with its effect.
    pub fn placed(&mut self, before: u32, op: u32) -> u32 {
        self.link(before, 2 * op)
    }

    /// The operation could be placed here without effect.
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

    /// The operations in the order in which they were placed. One that was free and not used comes
    /// where it was first free.
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
