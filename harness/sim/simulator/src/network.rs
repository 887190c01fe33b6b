//! Packets between servers: delayed, in order on each link, held back where a link is cut.
//!
//! Connections are TCP's. A packet that is lost, or cut off, is sent again: it comes late, not
//! never, and no later packet of that link overtakes it. What ends a connection is a timeout of its
//! ends.

use std::cell::Cell;
use std::rc::Rc;

use crate::world::{Act, Coming, Gate, Ns, Process, World, MS};

/// A server: its place in the topology.
pub type Node = usize;

/// Between two servers of one machine room, median.
const DELAY_NS: Ns = 200_000;
/// TCP's least time until it sends again (Linux: TCP_RTO_MIN).
const RETRANSMIT_NS: Ns = 200 * MS;
const RETRANSMIT_NS_MAX: Ns = 3_000 * MS;

/// One direction between two nodes.
struct Wire {
    /// Shut by a cut. After it: opens when what was held arrives, and nothing before it.
    gate: Rc<Gate>,
    cut_ns: Cell<Ns>,
    /// When the last packet arrives: none overtakes it.
    free_ns: Cell<Ns>,
    /// Of a thousand packets.
    loss: Cell<u64>,
}

impl Wire {
    fn new(world: &World) -> Wire {
        Wire {
            gate: world.gate(),
            cut_ns: Cell::new(0),
            free_ns: Cell::new(0),
            loss: Cell::new(0),
        }
    }
}

/// Every directed link.
pub struct Network {
    world: Rc<World>,
    nodes: usize,
    /// None: the two are not linked.
    wires: Vec<Option<Wire>>,
}

impl Network {
    /// `links` in an order, which that of `mend` is.
    pub fn new(world: &Rc<World>, nodes: usize, links: &[(Node, Node)]) -> Network {
        let mut wires: Vec<_> = (0..nodes * nodes).map(|_| None).collect();
        for (source, target) in links {
            wires[source * nodes + target] = Some(Wire::new(world));
        }
        Network {
            world: world.clone(),
            nodes,
            wires,
        }
    }

    fn wire(&self, source: Node, target: Node) -> &Wire {
        let wire = self.wires[source * self.nodes + target].as_ref();
        wire.expect("they are linked")
    }

    /// Acts at the target, in the life of its process `to`, when the packet arrives.
    #[inline(always)]
    pub fn send(
        &self,
        source: Node,
        target: Node,
        to: Option<&Rc<Process>>,
        act: impl FnOnce() + 'static,
    ) {
        self.send_later(0, source, target, to, act);
    }

    /// The same; `took_ns` passes before it is sent.
    #[inline(always)]
    pub fn send_later(
        &self,
        took_ns: Ns,
        source: Node,
        target: Node,
        to: Option<&Rc<Process>>,
        act: impl FnOnce() + 'static,
    ) {
        let packet = self.packet(took_ns, source, target, to);
        self.world.does(packet, Act::call(act));
    }

    #[inline(never)]
    fn packet(&self, took_ns: Ns, source: Node, target: Node, to: Option<&Rc<Process>>) -> Coming {
        let world = &self.world;
        if source == target {
            return world.later(took_ns, to);
        }
        let wire = self.wire(source, target);
        let mut at_ns = world.now_ns() + took_ns + world.around(DELAY_NS);
        if wire.loss.get() > 0 && world.below(1000) < wire.loss.get() {
            at_ns += RETRANSMIT_NS;
        }
        at_ns = at_ns.max(wire.free_ns.get());
        wire.free_ns.set(at_ns);
        world.through(&wire.gate, at_ns, to)
    }

    /// Drops every packet of these links, from now on and what is under way.
    pub fn cut(&self, links: &[(Node, Node)]) {
        for (source, target) in links {
            let wire = self.wire(*source, *target);
            if !wire.gate.is_shut() {
                wire.cut_ns.set(self.world.now_ns());
                wire.gate.shut();
            }
        }
    }

    /// Ends every cut. What was held comes when its sender tries again.
    pub fn mend(&self) {
        let now_ns = self.world.now_ns();
        for wire in self.wires.iter().flatten() {
            if !wire.gate.is_shut() {
                continue;
            }
            let held = wire.gate.open(now_ns);
            if held.is_empty() {
                continue;
            }
            let wait = (now_ns - wire.cut_ns.get()).clamp(RETRANSMIT_NS, RETRANSMIT_NS_MAX);
            let opens_ns = now_ns + self.world.below(wait as u64) as Ns;
            wire.gate.open(opens_ns);
            // What is under way is put off until then, and what is sent now comes after it.
            wire.free_ns.set(wire.free_ns.get().max(opens_ns + 1));
            for (to, act) in held {
                let event = self.world.through(&wire.gate, opens_ns, to.as_ref());
                self.world.does(event, act);
            }
        }
    }

    /// So many of a thousand packets are lost; 0 ends that.
    pub fn lose(&self, links: &[(Node, Node)], per_thousand: u64) {
        for (source, target) in links {
            self.wire(*source, *target).loss.set(per_thousand);
        }
    }

    /// Whether some of its packets are lost.
    pub fn loses(&self, source: Node, target: Node) -> bool {
        self.wire(source, target).loss.get() > 0
    }

    /// Whether packets pass.
    pub fn alive(&self, source: Node, target: Node) -> bool {
        !self.wire(source, target).gate.is_shut()
    }
}
