//! Lets a few nodes at a time make the calls of one generator, and all other workers those of
//! another. The few nodes take turns.

use std::collections::BTreeSet;
use std::rc::Rc;

use seed::Seed;

use crate::generator::{Context, Event, Generator, Step, WakeCondition};
use crate::workers::Slot;
use crate::{Failure, Ns};

/// A kind of turn.
#[derive(Clone, Copy)]
pub struct Turn {
    /// Number of calls after which nodes are drawn again.
    pub calls: u64,
    /// The pause after a call.
    pub pause_ns: Ns,
}

/// A call of the few in flight.
#[derive(Clone)]
struct InFlight {
    node: Rc<str>,
    process: i64,
    since_ns: Ns,
}

/// The few have one call in flight on each of their nodes. A turn ends after its calls, or when a
/// call hangs on each of its nodes; its successor has other nodes, and a kind that the seed draws.
#[derive(Clone)]
pub struct FewNodes {
    few: Box<dyn Generator>,
    others: Box<dyn Generator>,
    seed: Seed,
    nodes_max: u64,
    kinds: Vec<Turn>,
    hanging_ns: Ns,
    /// The nodes of this turn.
    nodes: Vec<Rc<str>>,
    /// Number of turns.
    turns: u64,
    /// Number of calls at which this turn ends.
    turn_end: u64,
    pause_ns: Ns,
    /// When the next call of the few is due.
    due_ns: Ns,
    in_flight: Vec<InFlight>,
    /// Number of calls of the few.
    calls: u64,
}

impl FewNodes {
    /// A turn has at most `nodes_max` nodes. A call in flight for longer than `hanging_ns` does not
    /// keep a turn from ending.
    pub fn new(
        few: Box<dyn Generator>,
        others: Box<dyn Generator>,
        seed: Seed,
        nodes_max: u64,
        kinds: Vec<Turn>,
        hanging_ns: Ns,
    ) -> FewNodes {
        FewNodes {
            few,
            others,
            seed,
            nodes_max,
            kinds,
            hanging_ns,
            nodes: Vec::new(),
            turns: 0,
            turn_end: 0,
            pause_ns: 0,
            due_ns: 0,
            in_flight: Vec::new(),
            calls: 0,
        }
    }

    fn is_in_flight_on(&self, node: &Rc<str>) -> bool {
        self.in_flight.iter().any(|call| call.node == *node)
    }

    /// Whether each node of the turn has a call in flight.
    fn all_in_flight(&self) -> bool {
        self.nodes.iter().all(|node| self.is_in_flight_on(node))
    }

    fn turn_is_over(&self, now_ns: Ns) -> bool {
        let mut in_flight = self.in_flight.iter();
        let waits = in_flight.any(|call| now_ns - call.since_ns <= self.hanging_ns);
        (!waits || self.nodes.is_empty()) && (self.calls >= self.turn_end || self.all_in_flight())
    }

    /// Draws some nodes among those without a call of the few in flight.
    #[cold]
    fn take_turn(&mut self, context: &Context<'_>) {
        let clients = context.clients();
        let nodes = clients.map(|slot| context.workers.of(slot).node.clone());
        let nodes: BTreeSet<Rc<str>> = nodes.collect();
        let idle = nodes.into_iter().filter(|node| !self.is_in_flight_on(node));
        let mut idle: Vec<Rc<str>> = idle.collect();
        let own = self.seed.child(&format!("turn/{}", self.turns));
        let count = 1 + own.below(1, self.nodes_max) as usize;
        let kind = self.kinds[own.below(2, self.kinds.len() as u64) as usize];
        own.shuffle(&mut idle);
        idle.truncate(count);
        self.nodes = idle;
        self.turns += 1;
        self.pause_ns = kind.pause_ns;
        self.turn_end = self.calls + kind.calls;
    }

    /// Returns the next call of the few, if one of their nodes has a free worker.
    #[inline(never)]
    fn call_of_few(&mut self, context: &Context<'_>) -> Result<Option<Step>, Failure> {
        if self.all_in_flight() {
            return Ok(None);
        }
        let workers = context.workers;
        let is_of_few = |&slot: &Slot| {
            let node = &workers.of(slot).node;
            self.nodes.contains(node) && !self.is_in_flight_on(node)
        };
        let free: Vec<Slot> = context.free_clients().filter(is_of_few).collect();
        if free.is_empty() {
            return Ok(None);
        }
        // Draw the worker; otherwise the one whose call has just ended would make every call.
        let slot = free[self.seed.choice(-1 - self.calls as i64, free.len())];
        let node = &workers.of(slot).node;
        let step = self.few.op(&Context {
            nemesis: false,
            prefer: Some(slot),
            ..context.on(node)
        })?;
        let Step::Ready(slot, _) = step else {
            return Ok(None);
        };
        self.in_flight.push(InFlight {
            node: node.clone(),
            process: workers.of(slot).process,
            since_ns: context.time_ns,
        });
        self.calls += 1;
        Ok(Some(step))
    }

    /// Returns the next time at which the few may have a call although nothing happened.
    fn wake_ns(&self, now_ns: Ns) -> Option<Ns> {
        let calls = self.in_flight.iter();
        let hanging_ns = calls.map(|call| call.since_ns + self.hanging_ns + 1);
        let times = hanging_ns.chain([self.due_ns]);
        times.filter(|&time_ns| time_ns > now_ns).min()
    }
}

impl Generator for FewNodes {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let now_ns = context.time_ns;
        if context.free_clients().next().is_none() {
            return Ok(Step::Pending(None, WakeCondition::FreedWorker));
        }
        if self.turn_is_over(now_ns) {
            self.take_turn(context);
        }
        if self.calls < self.turn_end && now_ns >= self.due_ns {
            if let Some(step) = self.call_of_few(context)? {
                return Ok(step);
            }
        }
        let step = self.others.op(context)?;
        Ok(match step {
            Step::Pending(wake_ns, _) => {
                let wake_ns = wake_ns.into_iter().chain(self.wake_ns(now_ns)).min();
                Step::Pending(wake_ns, WakeCondition::AnyEvent)
            }
            step => step,
        })
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        let mut in_flight = self.in_flight.iter();
        if let Some(at) = in_flight.position(|call| call.process == event.process) {
            self.in_flight.remove(at);
            self.due_ns = event.time_ns + self.pause_ns;
        }
        self.few.update(context, event)?;
        self.others.update(context, event)?;
        Ok(true)
    }

    fn listens(&self) -> bool {
        true
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}
