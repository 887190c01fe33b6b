//! Keeps connections between replicas' servers open for a while.
//!
//! Source: the pool of HTTP connections between replicas (ClickHouse#3594), keep_alive_timeout.

use std::cell::RefCell;

use crate::network::Node;
use crate::world::{Ns, SECOND};

/// Time for which an unused connection stays open.
const KEEP_ALIVE_NS: Ns = 3 * SECOND;

struct Idle {
    to: Node,
    /// The life of the server at the other end.
    life: u64,
    since_ns: Ns,
}

/// The connections of a server that no fetch uses, in the order of their last use.
#[derive(Default)]
pub struct IdleConnections(RefCell<Vec<Idle>>);

impl IdleConnections {
    /// Take the connection to a life of a server that was used last. Return whether there is one.
    pub fn take(&self, to: Node, life: u64, now_ns: Ns) -> bool {
        let mut idle = self.0.borrow_mut();
        idle.retain(|one| one.since_ns > now_ns - KEEP_ALIVE_NS);
        let own = |one: &Idle| one.to == to && one.life == life;
        let found = idle.iter().rposition(own);
        found.map(|at| idle.remove(at)).is_some()
    }

    /// Keep a connection open that was used until now.
    pub fn keep(&self, to: Node, life: u64, since_ns: Ns) {
        self.0.borrow_mut().push(Idle { to, life, since_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_used_again_in_time_and_in_the_same_life() {
        let idle = IdleConnections::default();
        idle.keep(1, 1, 0);
        assert!(!idle.take(1, 2, SECOND));
        assert!(!idle.take(2, 1, SECOND));
        assert!(idle.take(1, 1, SECOND));
        assert!(!idle.take(1, 1, SECOND), "a fetch uses it");
        idle.keep(1, 1, SECOND);
        assert!(!idle.take(1, 1, SECOND + KEEP_ALIVE_NS));
    }
}
