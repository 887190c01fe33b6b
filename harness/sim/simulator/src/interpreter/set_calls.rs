//! The calls of the workload quorum-set, as workloads/quorum_set.py has them: inserts on a few nodes,
//! which take turns, and reads on all.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::interpreter::generator::{Call, Context, Event, Firm, Generator, Step};
use crate::interpreter::workers::{Seat, Worker};
use crate::interpreter::{Failure, Kind};
use crate::seed::Seed;
use crate::world::Ns;

/// What may be chosen, and the workload's own numbers.
pub struct Rules {
    pub keys: u64,
    pub ops_per_key: u64,
    /// Replicas that insert at a time at most.
    pub writers: u64,
    pub refused_pause_ns: Ns,
    pub pause_ns: Ns,
    pub burst_inserts: i64,
    pub paced_inserts: i64,
    pub hanging_ns: Ns,
}

pub struct SetCalls {
    rules: Rules,
    seed: Seed,
    insert: Rc<str>,
    read: Rc<str>,
    /// Those that insert now, by their places.
    nodes: Vec<usize>,
    /// How many times they were drawn.
    turn: u64,
    /// They are drawn anew when so many inserts were made.
    turn_end: i64,
    /// In this turn, after an insert.
    pause_ns: Ns,
    /// Of the next insert.
    due_ns: Ns,
    /// Inserts in flight: node and since when.
    inserting: Vec<(usize, Ns)>,
    /// Processes whose call was refused, and until when they rest.
    resting: Vec<(i64, Ns)>,
    calls: u64,
    /// How many of them insert; the next value.
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
            resting: Vec::new(),
            calls: 0,
            inserts: 0,
        }
    }

    fn inserts_on(&self, node: usize) -> bool {
        self.inserting.iter().any(|&(busy, _)| busy == node)
    }

    /// Whether each node that inserts now has one in flight.
    fn all_insert(&self) -> bool {
        self.nodes.iter().all(|&node| self.inserts_on(node))
    }

    /// Whether its last call was not refused just now.
    fn is_awake(&self, worker: &Worker) -> bool {
        let mut resting = self.resting.iter();
        resting.all(|&(process, _)| process != worker.process)
    }

    /// Some nodes drawn anew among the idle.
    #[cold]
    fn take_turn(&mut self, context: &Context<'_>) {
        let workers = context.workers;
        let every = (0..workers.nemesis()).filter(|&seat| context.sees(seat));
        let every: BTreeSet<usize> = every.map(|seat| workers.of(seat).place).collect();
        let idle = every.into_iter().filter(|&node| !self.inserts_on(node));
        let mut idle: Vec<usize> = idle.collect();
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

    /// The next insert, if one of the nodes that insert has a worker for it.
    #[inline(never)]
    fn insert(&mut self, context: &Context<'_>, key: Option<i64>) -> Option<Step> {
        if self.all_insert() {
            return None;
        }
        let workers = context.workers;
        let writes = |&seat: &Seat| {
            let worker = workers.of(seat);
            self.nodes.contains(&worker.place)
                && !self.inserts_on(worker.place)
                && self.is_awake(worker)
        };
        let writers: Vec<Seat> = context.free_clients().filter(writes).collect();
        if writers.is_empty() {
            return None;
        }
        let seat = writers[self.seed.choice(-1 - self.inserts, writers.len())];
        let place = workers.of(seat).place;
        self.inserting.push((place, context.time_ns));
        let value = Some(self.inserts);
        self.inserts += 1;
        Some(Step::Ready(seat, call(&self.insert, value, key)))
    }

    /// Keys go by rounds of `keys` x `ops_per_key` calls; in a round each is as likely.
    fn key(&self) -> i64 {
        let turn = self.calls / (self.rules.keys * self.rules.ops_per_key);
        (turn * self.rules.keys + self.seed.below(self.calls, self.rules.keys)) as i64
    }
}

impl Generator for SetCalls {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let (now_ns, workers) = (context.time_ns, context.workers);
        self.resting.retain(|&(_, until_ns)| until_ns > now_ns);
        let mut free = context.free_clients();
        let Some(awake) = free.find(|&seat| self.is_awake(workers.of(seat))) else {
            let until_ns = self.resting.iter().map(|&(_, until_ns)| until_ns).min();
            return Ok(Step::Pending(until_ns, Firm::ForFree));
        };
        let hanging_ns = self.rules.hanging_ns;
        let waits = self
            .inserting
            .iter()
            .any(|&(_, since_ns)| now_ns - since_ns <= hanging_ns);
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

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        if event.f == &*self.insert {
            let mut workers = context.workers.clients().iter();
            let on = workers.find(|worker| *worker.node == *event.node);
            let place = on.map(|worker| worker.place);
            self.inserting.retain(|&(node, _)| Some(node) != place);
            self.due_ns = event.time_ns + self.pause_ns;
        }
        if event.kind == Kind::Fail {
            let until_ns = event.time_ns + self.rules.refused_pause_ns;
            self.resting.push((event.process, until_ns));
        }
        Ok(true)
    }

    fn listens(&self) -> bool {
        true
    }
}

fn call(f: &Rc<str>, value: Option<i64>, key: Option<i64>) -> Call {
    Call {
        f: f.clone(),
        value,
        key,
        foreign: None,
    }
}
