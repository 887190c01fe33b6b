//! Wall clocks of nodes, which may be wrong.

use super::{Ns, World};

/// What is wrong with a node's wall clock.
#[derive(Clone, Copy)]
pub(super) struct WallClock {
    /// What is added; with a period, in every second period only.
    offset_ns: Ns,
    /// 0: none.
    period_ns: Ns,
    /// Its speed; 0 stops it.
    rate: f64,
    since_ns: Ns,
}

impl WallClock {
    fn shown_ns(&self, now_ns: Ns) -> Ns {
        let taken_ns = now_ns - self.since_ns;
        let back = self.period_ns > 0 && taken_ns / self.period_ns % 2 == 0;
        let offset_ns = if back { 0 } else { self.offset_ns };
        self.since_ns + (taken_ns as f64 * self.rate) as Ns + offset_ns
    }
}

impl World {
    /// Returns what the wall clock of a node shows.
    pub fn wall_ns(&self, node: usize) -> Ns {
        let now_ns = self.now_ns();
        let walls = self.walls.borrow();
        walls
            .get(&node)
            .map_or(now_ns, |wall| wall.shown_ns(now_ns))
    }

    /// Makes the wall clock of a node wrong, or right again.
    pub fn set_wall(&self, node: usize, offset_ns: Ns, period_ns: Ns, rate: f64) {
        let since_ns = self.now_ns();
        let wall = WallClock {
            offset_ns,
            period_ns,
            rate,
            since_ns,
        };
        self.walls.borrow_mut().insert(node, wall);
    }

    /// Whether any wall clock was ever set.
    pub fn walls_set(&self) -> bool {
        !self.walls.borrow().is_empty()
    }
}
