//! What the machine of a node lacks, and how fast its clock runs.

use std::cell::Cell;
use std::rc::Rc;

use super::{Ns, World};

/// A resource that a server may run out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Memory,
    Cpu,
    Files,
    Connections,
    Names,
}

impl Resource {
    /// Returns the resource that a nemesis takes away.
    pub fn of(nemesis: &str) -> Option<Resource> {
        Some(match nemesis {
            "memory-limit" => Resource::Memory,
            "cpu-limit" => Resource::Cpu,
            "file-limit" => Resource::Files,
            "connection-limit" => Resource::Connections,
            "dns-failure" => Resource::Names,
            _ => return None,
        })
    }
}

/// The machine of a node that ever lacked something, or whose clock ever ran at another speed.
pub struct Machine {
    /// A bit for each resource.
    lacks: Cell<u8>,
    /// Since when the server accepts no new connection.
    since_ns: Cell<Ns>,
    /// The speed of the clock by which the server waits.
    pub rate: Cell<f64>,
    /// Number of periods in which the server had used up its CPU time.
    pub throttled: Cell<u64>,
    /// Number of times that the limit of CPU time was set or lifted.
    pub limits: Cell<u64>,
    /// Whether the last life of the server ended because it lacked memory.
    pub killed: Cell<bool>,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            lacks: Cell::new(0),
            since_ns: Cell::new(0),
            rate: Cell::new(1.0),
            throttled: Cell::new(0),
            limits: Cell::new(0),
            killed: Cell::new(false),
        }
    }

    pub fn lacks(&self, resource: Resource) -> bool {
        self.lacks.get() & (1 << resource as u8) != 0
    }

    /// Takes a resource away, or gives it back.
    pub fn set(&self, resource: Resource, lacks: bool) {
        let bit = 1 << resource as u8;
        let others = self.lacks.get() & !bit;
        self.lacks.set(if lacks { others | bit } else { others });
    }
}

impl World {
    /// Returns the machine of a node.
    pub fn machine(&self, node: usize) -> Rc<Machine> {
        let mut machines = self.machines.borrow_mut();
        let machine = machines.entry(node);
        machine.or_insert_with(|| Rc::new(Machine::new())).clone()
    }

    /// Returns the machine of a node if anything was ever wrong with it.
    fn known_machine(&self, node: usize) -> Option<Rc<Machine>> {
        self.machines.borrow().get(&node).cloned()
    }

    /// Whether a node lacks a resource.
    pub fn lacks(&self, node: usize, resource: Resource) -> bool {
        let machine = self.known_machine(node);
        machine.is_some_and(|machine| machine.lacks(resource))
    }

    /// Takes a resource away from a node, or gives it back.
    pub fn set_lack(&self, node: usize, resource: Resource, lacks: bool) {
        let machine = self.machine(node);
        if lacks && !machine.lacks(Resource::Files) && !machine.lacks(Resource::Connections) {
            machine.since_ns.set(self.now_ns());
        }
        machine.set(resource, lacks);
    }

    /// Returns what keeps a node from accepting a connection of a client that was opened then.
    pub fn refuses(&self, node: usize, opened_ns: Ns) -> Option<Resource> {
        let machine = self.known_machine(node)?;
        let lacked = [Resource::Files, Resource::Connections];
        let lacked = lacked.into_iter().find(|one| machine.lacks(*one));
        lacked.filter(|_| opened_ns >= machine.since_ns.get())
    }

    /// Lets a new life of a node's server begin: limits of its process ended with the last one, and
    /// so did the connections that others held. Returns the speed of its clock.
    pub fn begin_life(&self, node: usize) -> f64 {
        let Some(machine) = self.known_machine(node) else {
            return 1.0;
        };
        machine.set(Resource::Files, false);
        machine.set(Resource::Connections, false);
        machine.killed.set(false);
        machine.rate.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seed::Seed;

    #[test]
    fn new_connections_are_refused_until_the_next_life() {
        let world = World::new(Seed(1));
        assert_eq!(world.refuses(0, Ns::MAX), None);
        assert!(world.step(5).is_none());
        world.set_lack(0, Resource::Connections, true);
        world.set_lack(0, Resource::Cpu, true);
        assert_eq!(world.refuses(0, 4), None, "it was opened before");
        assert_eq!(world.refuses(0, 5), Some(Resource::Connections));
        assert_eq!(world.refuses(1, 5), None, "another machine");
        assert_eq!(world.begin_life(0), 1.0);
        assert_eq!(world.refuses(0, 5), None);
        assert!(world.lacks(0, Resource::Cpu), "it is the machine's limit");
    }
}
