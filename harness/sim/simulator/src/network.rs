//! Packets between servers: delayed, in order on each link, held back where a link is cut.
//!
//! Connections are TCP's. A packet that is lost, or cut off, is sent again: it comes late, not
//! never, and no later packet of that link overtakes it. What ends a connection is a timeout of its
//! ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::world::{Act, Gate, Ns, Process, World, MS};

/// A server: its place in the topology.
pub type Node = usize;

/// Between two servers of one machine room, median.
const DELAY_NS: Ns = 200_000;
/// TCP's least time until it sends again (Linux: TCP_RTO_MIN).
const RETRANSMIT_NS: Ns = 200 * MS;
const RETRANSMIT_NS_MAX: Ns = 3_000 * MS;
const NEVER_NS: Ns = 1 << 62;

/// A packet that waits for the end of a cut.
type Held = (Option<Rc<Process>>, Act);

/// One direction between two nodes.
struct Wire {
    world: Rc<World>,
    me: std::rc::Weak<Wire>,
    cut: Cell<bool>,
    cut_ns: Cell<Ns>,
    /// When the last packet arrives: none overtakes it.
    free_ns: Cell<Ns>,
    /// After a cut: when what was held arrives, and nothing before it.
    opens_ns: Cell<Ns>,
    held: RefCell<Vec<Held>>,
    /// Of a thousand packets.
    loss: Cell<u64>,
}

impl Gate for Wire {
    fn opens_ns(&self) -> Ns {
        self.opens_ns.get()
    }

    /// Keeps a packet until the cut ends, and what was held before it has come.
    fn hold(&self, of: Option<Rc<Process>>, act: Act) {
        if self.cut.get() {
            self.held.borrow_mut().push((of, act));
        } else {
            self.through(self.opens_ns.get(), of, act);
        }
    }
}

impl Wire {
    fn through(&self, at_ns: Ns, of: Option<Rc<Process>>, act: Act) {
        let me = self.me.upgrade().expect("the network keeps its wires");
        self.world.through(me, at_ns, of, act);
    }
}

/// Every directed link.
pub struct Network {
    world: Rc<World>,
    nodes: usize,
    /// None: the two are not linked.
    wires: Vec<Option<Rc<Wire>>>,
}

impl Network {
    /// `links` in an order, which that of `mend` is.
    pub fn new(world: &Rc<World>, nodes: usize, links: &[(Node, Node)]) -> Network {
        let mut wires: Vec<Option<Rc<Wire>>> = vec![None; nodes * nodes];
        for (source, target) in links {
            wires[source * nodes + target] = Some(Rc::new_cyclic(|me| Wire {
                world: world.clone(),
                me: me.clone(),
                cut: Cell::new(false),
                cut_ns: Cell::new(0),
                free_ns: Cell::new(0),
                opens_ns: Cell::new(0),
                held: RefCell::default(),
                loss: Cell::new(0),
            }));
        }
        Network {
            world: world.clone(),
            nodes,
            wires,
        }
    }

    fn wire(&self, source: Node, target: Node) -> &Rc<Wire> {
        let wire = self.wires[source * self.nodes + target].as_ref();
        wire.expect("they are linked")
    }

    /// Acts at the target, in the life of its process `to`, when the packet arrives.
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
    pub fn send_later(
        &self,
        took_ns: Ns,
        source: Node,
        target: Node,
        to: Option<&Rc<Process>>,
        act: impl FnOnce() + 'static,
    ) {
        let (world, act) = (&self.world, Act::call(act));
        if source == target {
            return world.after(took_ns, to, act);
        }
        let wire = self.wire(source, target);
        let mut at_ns = world.now_ns() + took_ns + world.around(DELAY_NS);
        if wire.loss.get() > 0 && world.below(1000) < wire.loss.get() {
            at_ns += RETRANSMIT_NS;
        }
        at_ns = at_ns.max(wire.free_ns.get());
        wire.free_ns.set(at_ns);
        world.through(wire.clone(), at_ns, to.cloned(), act);
    }

    /// Drops every packet of these links, from now on and what is under way.
    pub fn cut(&self, links: &[(Node, Node)]) {
        for (source, target) in links {
            let wire = self.wire(*source, *target);
            if !wire.cut.replace(true) {
                wire.cut_ns.set(self.world.now_ns());
                wire.opens_ns.set(NEVER_NS);
            }
        }
    }

    /// Ends every cut. What was held comes when its sender tries again.
    pub fn mend(&self) {
        let now_ns = self.world.now_ns();
        for wire in self.wires.iter().flatten() {
            if !wire.cut.replace(false) {
                continue;
            }
            wire.opens_ns.set(now_ns);
            let held = wire.held.take();
            if held.is_empty() {
                continue;
            }
            let wait = (now_ns - wire.cut_ns.get()).clamp(RETRANSMIT_NS, RETRANSMIT_NS_MAX);
            let opens_ns = now_ns + self.world.below(wait as u64) as Ns;
            wire.opens_ns.set(opens_ns);
            // What is under way is put off until then, and what is sent now comes after it.
            wire.free_ns.set(wire.free_ns.get().max(opens_ns + 1));
            for (to, act) in held {
                wire.through(opens_ns, to, act);
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
        !self.wire(source, target).cut.get()
    }
}
