//! Generates the calls of the workload quorum-set: inserts on a few nodes, which take turns, and
//! reads on all nodes.
//!
//! Only a few nodes insert, because the server has one quorum insert of a table in flight, and
//! because a ZooKeeper session keeps its requests in order: a node whose write hangs cannot read.
//! Nodes without a write in flight then show old states. Some turns insert as fast as they can,
//! which shows how far a replica lags; others pause, so that sessions become idle.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::interpreter::generator::{Call, Context, Event, Generator, Step, WakeCondition};
use crate::interpreter::workers::{Slot, Worker};
use crate::interpreter::{Failure, Kind};
use crate::seed::Seed;
use crate::world::Ns;

/// The workload's options and constants.
#[derive(Clone)]
pub struct Rules {
    pub keys: u64,
    pub ops_per_key: u64,
    /// Maximum number of replicas that insert at a time.
    pub writers: u64,
    pub refused_pause_ns: Ns,
    pub pause_ns: Ns,
    pub burst_inserts: i64,
    pub paced_inserts: i64,
    pub hanging_ns: Ns,
}

#[derive(Clone)]
pub struct SetCalls {
    rules: Rules,
    seed: Seed,
    insert: Rc<str>,
    read: Rc<str>,
    /// The nodes that insert in this turn.
    nodes: Vec<Rc<str>>,
    /// Number of times that nodes were drawn.
    turn: u64,
    /// Number of inserts at which nodes are drawn again.
    turn_end: i64,
    /// The pause after an insert in this turn.
    pause_ns: Ns,
    /// When the next insert is due.
    due_ns: Ns,
    /// Inserts in flight: the node, and since when.
    inserting: Vec<(Rc<str>, Ns)>,
    /// Processes whose call was refused, and until when they pause.
    pausing: Vec<(i64, Ns)>,
    calls: u64,
    /// The number of inserts, which is the next value.
    inserts: i64,
}

impl SetCalls {
    pub fn new(rules: Rules, seed: Seed) -> SetCalls {
        SetCalls {
            rules,
            seed,
            insert: "insert".into(),
            read: "read".into(),
            nodes: Vec::new(),
            turn: 0,
            turn_end: 0,
            pause_ns: 0,
            due_ns: 0,
            inserting: Vec::new(),
            pausing: Vec::new(),
            calls: 0,
            inserts: 0,
        }
    }

    fn inserts_on(&self, node: &Rc<str>) -> bool {
        self.inserting.iter().any(|(busy, _)| busy == node)
    }

    /// Whether each inserting node has an insert in flight.
    fn all_insert(&self) -> bool {
        self.nodes.iter().all(|node| self.inserts_on(node))
    }

    /// Whether the worker does not pause after a refusal.
    fn is_awake(&self, worker: &Worker) -> bool {
        let mut pausing = self.pausing.iter();
        pausing.all(|&(process, _)| process != worker.process)
    }

    /// Draws some nodes among the idle ones.
    #[cold]
    fn take_turn(&mut self, context: &Context<'_>) {
        let workers = context.workers;
        let every = (0..workers.nemesis()).filter(|&slot| context.sees(slot));
        let every: BTreeSet<Rc<str>> = every.map(|slot| workers.of(slot).node.clone()).collect();
        let idle = every.into_iter().filter(|node| !self.inserts_on(node));
        let mut idle: Vec<Rc<str>> = idle.collect();
        let own = self.seed.child(&format!("turn/{}", self.turn));
        let count = 1 + own.below(1, self.rules.writers) as usize;
        let paced = own.below(2, 2) == 1;
        own.shuffle(&mut idle);
        idle.truncate(count);
        self.nodes = idle;
        self.turn += 1;
        self.pause_ns = if paced { self.rules.pause_ns } else { 0 };
        self.turn_end = self.inserts
            + if paced {
                self.rules.paced_inserts
            } else {
                self.rules.burst_inserts
            };
    }

    /// Returns the next insert, if an inserting node has a free worker.
    #[inline(never)]
    fn insert(&mut self, context: &Context<'_>, key: Option<i64>) -> Option<Step> {
        if self.all_insert() {
            return None;
        }
        let workers = context.workers;
        let writes = |&slot: &Slot| {
            let worker = workers.of(slot);
            self.nodes.contains(&worker.node)
                && !self.inserts_on(&worker.node)
                && self.is_awake(worker)
        };
        let writers: Vec<Slot> = context.free_clients().filter(writes).collect();
        if writers.is_empty() {
            return None;
        }
        // Draw the worker; otherwise the one whose insert just ended would insert forever.
        let slot = writers[self.seed.choice(-1 - self.inserts, writers.len())];
        let node = workers.of(slot).node.clone();
        self.inserting.push((node, context.time_ns));
        let value = Some(self.inserts);
        self.inserts += 1;
        Some(Step::Ready(slot, call(&self.insert, value, key)))
    }

    /// Returns the key of the next call. Keys advance by rounds of `keys` x `ops_per_key` calls;
    /// within a round each key is equally likely.
    fn key(&self) -> i64 {
        let turn = self.calls / (self.rules.keys * self.rules.ops_per_key);
        (turn * self.rules.keys + self.seed.below(self.calls, self.rules.keys)) as i64
    }
}

impl Generator for SetCalls {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let (now_ns, workers) = (context.time_ns, context.workers);
        self.pausing.retain(|&(_, until_ns)| until_ns > now_ns);
        let mut free = context.free_clients();
        let Some(awake) = free.find(|&slot| self.is_awake(workers.of(slot))) else {
            let until_ns = self.pausing.iter().map(|&(_, until_ns)| until_ns).min();
            return Ok(Step::Pending(until_ns, WakeCondition::FreedWorker));
        };
        let hanging_ns = self.rules.hanging_ns;
        let waits = self
            .inserting
            .iter()
            .any(|(_, since_ns)| now_ns - since_ns <= hanging_ns);
        if (!waits || self.nodes.is_empty()) && (self.inserts >= self.turn_end || self.all_insert())
        {
            self.take_turn(context);
        }
        let key = Some(self.key());
        self.calls += 1;
        if self.inserts < self.turn_end && now_ns >= self.due_ns {
            if let Some(step) = self.insert(context, key) {
                return Ok(step);
            }
        }
        Ok(Step::Ready(awake, call(&self.read, None, key)))
    }

    fn update(&mut self, _: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        if event.f == &*self.insert {
            self.inserting.retain(|(node, _)| **node != *event.node);
            self.due_ns = event.time_ns + self.pause_ns;
        }
        if event.kind == Kind::Fail {
            // Retry a moment later; otherwise refusals, which cost no time, would crowd out
            // everything else.
            let until_ns = event.time_ns + self.rules.refused_pause_ns;
            self.pausing.push((event.process, until_ns));
        }
        Ok(true)
    }

    fn listens(&self) -> bool {
        true
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

fn call(f: &Rc<str>, value: Option<i64>, key: Option<i64>) -> Call {
    Call {
        f: f.clone(),
        value,
        key,
        node: None,
        nemesis: false,
        foreign: None,
    }
}
