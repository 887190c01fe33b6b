//! What says what is to be done next, and what it may look at: harness/core/protocols.py in Rust.

use std::any::Any;
use std::rc::Rc;

use crate::interpreter::workers::{Seat, Workers};
use crate::interpreter::{Failure, Kind};
use crate::world::Ns;

/// What a generator wants done next.
#[derive(Clone)]
pub struct Call {
    pub f: Rc<str>,
    pub value: Option<i64>,
    pub key: Option<i64>,
    /// As a host knows it; without, there is no more to know.
    pub foreign: Option<Box<Foreign>>,
}

/// A call of the host's own.
#[derive(Clone)]
pub struct Foreign {
    pub call: Rc<dyn Any>,
    /// Where a worker that roams is to make it.
    pub node: Option<Rc<str>>,
    /// Whether `value` and `key` are all that it holds.
    pub plain: bool,
}

pub enum Step {
    /// A call for a free worker, now.
    Ready(Seat, Call),
    /// Nothing now; ask again then, or (None) when some call has ended.
    Pending(Option<Ns>, Firm),
    Exhausted,
}

/// What may change a wait before its time.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Firm {
    /// Whatever begins or ends.
    No,
    /// Workers that become free: there is nothing for those that are free now, and what begins
    /// does not change the time.
    ForFree,
    /// Nothing.
    #[default]
    Yes,
}

/// One wait for several generators: until the earliest time that is named.
#[derive(Default)]
pub struct Waits {
    any: bool,
    firm: Firm,
    soonest_ns: Option<Ns>,
}

impl Waits {
    pub fn add(&mut self, wake_ns: Option<Ns>, firm: Firm) {
        self.any = true;
        self.firm = self.firm.min(firm);
        if let Some(wake_ns) = wake_ns {
            let known_ns = self.soonest_ns.unwrap_or(wake_ns);
            self.soonest_ns = Some(known_ns.min(wake_ns));
        }
    }

    /// What they all say: none has a call.
    pub fn step(&self) -> Step {
        match self.any {
            true => Step::Pending(self.soonest_ns, self.firm),
            false => Step::Exhausted,
        }
    }
}

/// What a generator may look at.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub time_ns: Ns,
    pub workers: &'a Workers,
    /// Whether it sees clients' workers, and the nemesis.
    pub clients: bool,
    pub nemesis: bool,
    /// Only those of this node.
    pub node: Option<&'a str>,
}

impl<'a> Context<'a> {
    /// With all workers.
    pub fn of(time_ns: Ns, workers: &'a Workers) -> Context<'a> {
        Context {
            time_ns,
            workers,
            clients: true,
            nemesis: true,
            node: None,
        }
    }

    pub fn sees(&self, seat: Seat) -> bool {
        let kind = match seat == self.workers.nemesis() {
            true => self.nemesis,
            false => self.clients,
        };
        kind && self.is_here(seat)
    }

    fn is_here(&self, seat: Seat) -> bool {
        let on = |node: &str| *self.workers.of(seat).node == *node;
        self.node.is_none_or(on)
    }

    /// The preferred one first.
    pub fn free(&self) -> impl Iterator<Item = Seat> + '_ {
        let free = self.workers.free().iter().copied();
        free.filter(|&seat| self.sees(seat))
    }

    pub fn busy(&self) -> impl Iterator<Item = Seat> + '_ {
        let busy = self.workers.busy().iter().copied();
        busy.filter(|&seat| self.sees(seat))
    }

    pub fn free_clients(&self) -> impl Iterator<Item = Seat> + '_ {
        let seen = match self.clients {
            true => self.workers.free_clients(),
            false => &[],
        };
        seen.iter().copied().filter(|&seat| self.is_here(seat))
    }
}

/// How a call ended.
pub struct Event<'a> {
    pub seat: Seat,
    pub process: i64,
    pub kind: Kind,
    pub f: &'a str,
    pub node: &'a str,
    pub time_ns: Ns,
    /// The same as the host knows it.
    pub op: &'a dyn Fn() -> Result<Rc<dyn Any>, Failure>,
}

/// Says what to do next.
pub trait Generator {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure>;

    /// Learns how a call ended; whether that changed anything. Those that do not listen do nothing.
    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure>;

    /// Whether events matter to it.
    fn listens(&self) -> bool;
}
