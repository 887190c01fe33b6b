//! Transports packets between servers: with a delay, in order on each link, held back while a link
//! is cut.
//!
//! Connections behave like TCP. A packet that is lost or held by a cut is sent again: it arrives
//! late, and no later packet of its link overtakes it. Only timeouts at the two ends close a
//! connection.

use std::cell::Cell;
use std::rc::Rc;

use crate::link_quality::{LinkFault, LinkQuality, RETRANSMIT_NS};
use crate::world::{Action, Gate, Ns, PendingEvent, Process, World, MS};

/// A server, by its index in the topology.
pub type Node = usize;

/// Median delay between two servers in one machine room.
const DELAY_NS: Ns = 200_000;
const RETRANSMIT_NS_MAX: Ns = 3_000 * MS;

/// One direction of a link between two nodes.
struct Wire {
    /// A cut shuts the gate. After the cut it opens when the held packets arrive, and nothing
    /// arrives before them.
    gate: Rc<Gate>,
    cut_ns: Cell<Ns>,
    /// Arrival time of the last packet; none overtakes it.
    free_ns: Cell<Ns>,
    quality: LinkQuality,
}

impl Wire {
    fn new(world: &World) -> Wire {
        Wire {
            gate: world.gate(),
            cut_ns: Cell::new(0),
            free_ns: Cell::new(0),
            quality: LinkQuality::default(),
        }
    }
}

/// Every directed link.
pub struct Network {
    world: Rc<World>,
    nodes: usize,
    /// `None` if the two nodes are not linked.
    wires: Vec<Option<Wire>>,
}

impl Network {
    /// Creates the network. The order of `links` is the order in which `mend` retransmits.
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

    /// Sends a packet; when it arrives, `act` runs in the life `to` of the target's process.
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

    /// Sends a packet after `took_ns`.
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
        self.world.set_action(packet, Action::call(act));
    }

    #[inline(never)]
    fn packet(
        &self,
        took_ns: Ns,
        source: Node,
        target: Node,
        to: Option<&Rc<Process>>,
    ) -> PendingEvent {
        let world = &self.world;
        if source == target {
            return world.schedule(took_ns, to);
        }
        let wire = self.wire(source, target);
        let mut at_ns = world.now_ns() + took_ns + world.around(DELAY_NS);
        at_ns += wire.quality.later_ns(world, at_ns);
        at_ns = at_ns.max(wire.free_ns.get());
        assert!(
            at_ns > world.now_ns(),
            "a packet arrives later than it was sent"
        );
        let before_ns = wire.free_ns.replace(at_ns);
        assert!(
            before_ns <= at_ns,
            "no packet overtakes another of its link"
        );
        world.schedule_through(&wire.gate, at_ns, to)
    }

    /// Cuts links: packets under way and future ones do not arrive.
    pub fn cut(&self, links: &[(Node, Node)]) {
        for (source, target) in links {
            let wire = self.wire(*source, *target);
            if !wire.gate.is_shut() {
                wire.cut_ns.set(self.world.now_ns());
                wire.gate.shut();
            }
        }
    }

    /// Ends every cut. Held packets arrive when their sender retransmits.
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
            // Packets under way are deferred until then, and packets sent from now on arrive after
            // them.
            wire.free_ns.set(wire.free_ns.get().max(opens_ns + 1));
            assert!(wire.free_ns.get() > opens_ns, "held packets arrive first");
            for (to, act) in held {
                let event = self
                    .world
                    .schedule_through(&wire.gate, opens_ns, to.as_ref());
                self.world.set_action(event, act);
            }
        }
        let mut wires = self.wires.iter().flatten();
        assert!(wires.all(|wire| !wire.gate.is_shut()), "no cut is left");
    }

    /// Gives links a fault of this amount; 0 ends it.
    pub fn degrade(&self, links: &[(Node, Node)], fault: LinkFault, amount: f64) {
        for (source, target) in links {
            self.wire(*source, *target).quality.set(fault, amount);
        }
    }

    /// Returns the amount of a fault of a link; 0 if it does not have it.
    pub fn amount(&self, source: Node, target: Node, fault: LinkFault) -> f64 {
        self.wire(source, target).quality.amount(fault)
    }

    /// Whether packets pass.
    pub fn alive(&self, source: Node, target: Node) -> bool {
        !self.wire(source, target).gate.is_shut()
    }
}
