//! Takes resources away from servers, sets their clocks, and decides whether a server accepts a
//! client's connection.
//!
//! Source: cgroups of Linux (`cpu.max`, the OOM killer), Poco's servers of 18.16.1.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::ServerError;
use crate::network::Node;
use crate::server::Server;
use crate::simulation::{Host, Life, Simulation, UNSENT};
use crate::world::{Action, Ns, Resource, MS, SECOND};

/// The period of a quota of CPU time, and the quota: 2 % of a CPU.
const PERIOD_NS: Ns = 100 * MS;
const QUOTA_NS: Ns = 2 * MS;
/// Time between two starts of a server by its service manager.
const RESTART_NS: Ns = SECOND;

impl Simulation {
    // --- clocks ---------------------------------------------------------------------------------

    /// Sets the clock rate of a server, for all its lives.
    pub fn skew(&self, node: Node, rate: f64) {
        if let Host::Keeper { rate: own, .. } = &self.hosts[node] {
            own.set(rate);
            return self.keeper(node).skew(rate);
        }
        self.world.machine(node).rate.set(rate);
        self.life(node).process().set_rate(rate);
    }

    // --- resources ------------------------------------------------------------------------------

    /// Takes a resource away from a server.
    pub fn starve(self: &Rc<Self>, node: Node, resource: Resource) {
        let had = !self.world.lacks(node, resource);
        self.world.set_lack(node, resource, true);
        match resource {
            Resource::Memory => {
                self.strike(node);
                let is_replica = matches!(self.hosts[node], Host::Replica { .. });
                if had && is_replica && self.common.deployment.bugs.has(Bug::StartUnfinished) {
                    self.supervise(node);
                }
            }
            Resource::Cpu if had => self.throttle(node, self.limits(node)),
            _ => {}
        }
    }

    /// Gives a resource back to a server; no-op if it does not lack it.
    pub fn feed(&self, node: Node, resource: Resource) {
        if self.world.lacks(node, resource) {
            self.world.set_lack(node, resource, false);
            if resource == Resource::Cpu {
                self.limits(node);
                self.world.unthrottle(self.life(node).process());
            }
        }
    }

    /// Kills a server that runs and lacks memory, as the kernel's OOM killer does.
    pub(super) fn strike(&self, node: Node) {
        if self.world.lacks(node, Resource::Memory) && self.running(node) {
            self.kill(node);
            self.world.machine(node).killed.set(true);
        }
    }

    /// Starts a replica's server that lacks memory once a second, as a service manager does. A killed
    /// start leaves nothing behind unless a bug is planted, so that without one there are none.
    fn supervise(self: &Rc<Self>, node: Node) {
        let me = self.clone();
        let act = Action::call(move || {
            if me.world.lacks(node, Resource::Memory) {
                if !me.running(node) {
                    me.make(node);
                    me.begin(node);
                }
                me.supervise(node);
            }
        });
        self.world.after(RESTART_NS, None, act);
    }

    /// Counts that the limit of a server's CPU time was set or lifted; returns how often it was.
    fn limits(&self, node: Node) -> u64 {
        let machine = self.world.machine(node);
        machine.limits.set(machine.limits.get() + 1);
        machine.limits.get()
    }

    /// Takes the CPU from a server for the rest of each period, as long as this limit is in force.
    fn throttle(self: &Rc<Self>, node: Node, limit: u64) {
        self.world.throttle(self.life(node).process());
        self.later(PERIOD_NS - QUOTA_NS, node, limit, |me, node, limit| {
            if me.world.unthrottle(me.life(node).process()) {
                let throttled = &me.world.machine(node).throttled;
                throttled.set(throttled.get() + 1);
            }
            me.later(QUOTA_NS, node, limit, |me, node, limit| {
                me.throttle(node, limit);
            });
        });
    }

    /// Does something after a delay, unless the limit has been lifted by then.
    fn later(
        self: &Rc<Self>,
        delay_ns: Ns,
        node: Node,
        limit: u64,
        act: fn(&Rc<Simulation>, Node, u64),
    ) {
        let me = self.clone();
        let act = Action::call(move || {
            if me.world.machine(node).limits.get() == limit {
                act(&me, node, limit);
            }
        });
        self.world.after(delay_ns, None, act);
    }

    /// Whether a ZooKeeper server answers on a new connection.
    pub fn accepts(&self, node: Node) -> bool {
        self.answers(node) && self.world.refuses(node, Ns::MAX).is_none()
    }

    // --- clients --------------------------------------------------------------------------------

    /// Returns the server if it takes a query on a client's connection that was opened then;
    /// `None` if it does not answer.
    pub(super) fn reached(
        &self,
        node: Node,
        opened_ns: Ns,
    ) -> Result<Option<Rc<Server>>, ServerError> {
        let Life::Server(server) = self.life(node) else {
            panic!("{} is no replica", self.name(node));
        };
        if !server.host.process.alive() || !server.answers.get() {
            return Err(self.error(UNSENT, node, "connection refused"));
        }
        // A connection ends with the life of the server that accepted it.
        let opened_ns = if opened_ns < server.host.begun_ns {
            Ns::MAX
        } else {
            opened_ns
        };
        match self.world.refuses(node, opened_ns) {
            Some(Resource::Connections) => {
                Err(self.error(UNSENT, node, "the server closed the connection"))
            }
            Some(_) => Ok(None),
            None => Ok(Some(server).filter(|server| !server.host.process.paused())),
        }
    }

    #[cold]
    pub(super) fn error(&self, code: i32, node: Node, text: &str) -> ServerError {
        ServerError::new(code, format!("{}: {text}", self.name(node)))
    }
}
