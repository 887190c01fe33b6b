//! Interprets a generator on simulated time: clients' calls and faults are events of the simulated
//! world.
//!
//! `Scheduler` decides what to do; here its calls share the timing wheels with the servers' events.
//! A call that is one statement is executed entirely in this crate: the request, its answer and the
//! two lines of the history. `Host` executes every other call, and every fault.

mod client_task;
pub mod statements;

#[cfg(feature = "python")]
pub mod python;

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use generators::scheduler::{Ended, Next, Scheduler};
use generators::workers::Slot;
use generators::{Failure, Kind};
use histories::journal::{self, line, Line, Process, Value};
use simulator::block::Block;
use simulator::errors::ServerError;
use simulator::network::Node;
use simulator::simulation::Simulation;
use simulator::table::parts;
use simulator::world::{Action, Ns, RESERVED_NUMBERS};

use client_task::{ClientTask, Request};
use statements::Statement;

/// Executes the calls that are not statements: those of the workload's own clients, and the
/// nemesis's. It must not use the scheduler while it is called.
pub trait Host {
    /// Starts the worker's call in flight. Returns its line of the history.
    fn begin(&self, scheduler: &Scheduler, slot: Slot) -> Result<Vec<u8>, Failure>;
    /// Returns how a statement ended that failed, and the error of its op.
    fn failed(&self, is_write: bool, error: &ServerError) -> Result<(Kind, String), Failure>;
    /// Closes the worker's client, because its process was retired.
    fn retired(&self, number: i64) -> Result<(), Failure>;
    /// Returns the operation of a line.
    fn op(&self, line: &[u8]) -> Result<Rc<dyn Any>, Failure>;
}

/// Why the simulation stopped.
pub enum Stop {
    /// The host must handle this event.
    Due(u64),
    /// There are lines to write, or the run is over.
    Pause,
}

/// Numbers of the clients' calls since they were last taken.
#[derive(Default)]
pub struct Counts {
    pub begun: u64,
    /// Numbers of ended calls by f and kind. There are few combinations.
    pub ended: Vec<(Rc<str>, Kind, u64)>,
}

impl Counts {
    fn end(&mut self, call: &Ended) {
        if call.is_fault {
            return;
        }
        let (f, kind) = (&call.call.f, call.kind);
        let same = |one: &Rc<str>| Rc::ptr_eq(one, f) || one == f;
        let mut ended = self.ended.iter_mut();
        match ended.find(|(one, of, _)| *of == kind && same(one)) {
            Some((.., count)) => *count += 1,
            None => self.ended.push((f.clone(), kind, 1)),
        }
    }
}

/// A server that clients may call.
pub struct ServerNode {
    name: Rc<str>,
    node: Node,
    /// The node's part of a line.
    written: Vec<u8>,
}

impl ServerNode {
    pub fn new(name: &str, node: Node) -> ServerNode {
        ServerNode {
            name: name.into(),
            node,
            written: journal::node(Some(name)),
        }
    }
}

/// Marks the events that the interpreter handles itself: a worker's request is due, its answer has
/// arrived, or (with an interpreter's number) the generator must be polled.
const INTERPRETER: u64 = RESERVED_NUMBERS;
const ANSWER: u64 = 1 << 62;
const WAKE: u64 = 1 << 61;

const NEVER_NS: Ns = 1 << 62;
/// Maximum time for which lines wait to be taken.
const PAUSE: Duration = Duration::from_millis(20);

pub struct Interpreter {
    simulation: Rc<Simulation>,
    nodes: Vec<ServerNode>,
    /// By slot: the node that its worker uses, if it is bound to one.
    homes: Vec<Option<usize>>,
    scheduler: Rc<RefCell<Scheduler>>,
    statements: Vec<Rc<Statement>>,
    /// By slot: the statement of its call in flight, and the node to which it is sent.
    requested: Vec<Option<(Rc<Statement>, usize)>>,
    /// By slot.
    clients: Vec<ClientTask>,
    /// The world's time at the run's time 0.
    zero_ns: Ns,
    /// The number of the event that polls the scheduler, and its time.
    wake: u64,
    wake_ns: Option<Ns>,
    lines: Vec<u8>,
    counts: Counts,
    keys: BTreeSet<i64>,
    /// The key that was inserted last, which most calls name again.
    last_key: Option<i64>,
    paused: Instant,
}

impl Interpreter {
    /// Follows the scheduler's generator. `zero_ns` is the world's time at the run's time 0.
    pub fn new(
        simulation: Rc<Simulation>,
        nodes: Vec<ServerNode>,
        scheduler: Rc<RefCell<Scheduler>>,
        statements: Vec<Rc<Statement>>,
        zero_ns: Ns,
    ) -> Interpreter {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let wake = INTERPRETER | WAKE | MADE.fetch_add(1, Ordering::Relaxed);
        simulation.world.after(0, None, Action::due(wake, false));
        let held = scheduler.borrow();
        let workers = held.workers();
        let slots = workers.slots();
        let client = |slot| ClientTask::new(&simulation, INTERPRETER | ANSWER | slot as u64);
        let home = |slot| {
            let node = &workers.of(slot).node;
            nodes.iter().position(|own| own.name == *node)
        };
        Interpreter {
            homes: (0..slots).map(home).collect(),
            clients: (0..slots).map(client).collect(),
            requested: vec![None; slots],
            scheduler: scheduler.clone(),
            simulation,
            nodes,
            statements,
            zero_ns,
            wake,
            wake_ns: None,
            lines: Vec::new(),
            counts: Counts::default(),
            keys: BTreeSet::new(),
            last_key: None,
            paused: Instant::now(),
        }
    }

    /// Returns whether nothing is in flight and nothing will be.
    pub fn over(&self) -> bool {
        self.scheduler.borrow().is_over()
    }

    /// Starts no more calls. Those in flight go on.
    pub fn exhaust(&mut self) {
        self.scheduler.borrow_mut().exhaust();
    }

    /// Takes the history's lines since the last call.
    pub fn take_lines<T>(&mut self, copied: impl FnOnce(&[u8]) -> T) -> T {
        self.paused = Instant::now();
        let out = copied(&self.lines);
        self.lines.clear();
        out
    }

    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Returns every key that clients named.
    pub fn keys(&self) -> &BTreeSet<i64> {
        &self.keys
    }

    /// Runs the simulation until the host must handle an event.
    pub fn step(&mut self, host: &dyn Host) -> Result<Stop, Failure> {
        for turn in 1.. {
            if self.over() || (turn % 32 == 1 && self.paused.elapsed() > PAUSE) {
                break;
            }
            let due = self.simulation.world.step(NEVER_NS);
            let number = due.ok_or("nothing will ever happen again, and it is not over")?;
            if number < RESERVED_NUMBERS {
                return Ok(Stop::Due(number));
            }
            let slot = (number & !INTERPRETER & !ANSWER) as Slot;
            if number == self.wake {
                self.pump(host)?;
            } else if number & ANSWER != 0 {
                self.answered(slot, host)?;
                self.pump(host)?;
            } else if number & WAKE == 0 {
                self.request(slot);
            }
        }
        Ok(Stop::Pause)
    }

    fn now_ns(&self) -> Ns {
        self.simulation.world.now_ns() - self.zero_ns
    }

    /// Starts every call that is due now.
    pub fn pump(&mut self, host: &dyn Host) -> Result<(), Failure> {
        let now_ns = self.now_ns();
        loop {
            let next = self.scheduler.borrow_mut().poll(now_ns, None)?;
            match next {
                Next::Begun(slot) => self.begun(slot, host)?,
                Next::Wait(Some(wake_ns)) => {
                    self.wake_at(wake_ns, now_ns);
                    return Ok(());
                }
                Next::Wait(None) | Next::Exhausted => return Ok(()),
            }
        }
    }

    fn wake_at(&mut self, wake_ns: Ns, now_ns: Ns) {
        let is_sooner = |known| known <= now_ns || wake_ns < known;
        if self.wake_ns.is_none_or(is_sooner) {
            self.wake_ns = Some(wake_ns);
            let act = Action::due(self.wake, false);
            self.simulation.world.after(wake_ns - now_ns, None, act);
        }
    }

    fn begun(&mut self, slot: Slot, host: &dyn Host) -> Result<(), Failure> {
        let scheduler = self.scheduler.clone();
        let scheduler = scheduler.borrow();
        let begun = scheduler
            .in_flight(slot)
            .expect("the worker has a call in flight");
        let call = &begun.call;
        if slot != scheduler.workers().nemesis() {
            self.counts.begun += 1;
            if let Some(key) = call.key.filter(|_| call.key != self.last_key) {
                self.keys.insert(key);
                self.last_key = Some(key);
            }
        }
        let is_plain = call.foreign.is_none();
        let mut statements = self.statements.iter();
        let statement = statements.find(|statement| statement.f == call.f);
        let statement = statement.filter(|s| is_plain && s.takes(call.value, call.key));
        let Some(statement) = statement else {
            self.lines.extend(host.begin(&scheduler, slot)?);
            return Ok(());
        };
        let named = || {
            self.nodes
                .iter()
                .position(|own| Some(&own.name) == begun.node.as_ref())
        };
        let at = self.homes[slot].or_else(named);
        let at = at.expect("the node of a statement is a server");
        line(
            &mut self.lines,
            &Line {
                index: scheduler.index(),
                process: Process::Client(scheduler.workers().of(slot).process),
                kind: Kind::Invoke,
                called: &statement.called,
                time_ns: begun.time_ns,
                value: Value::of(call.value),
                key: call.key,
                node: &self.nodes[at].written,
                error: journal::Error::None,
            },
        );
        self.requested[slot] = Some((statement.clone(), at));
        let world = &self.simulation.world;
        match world.at_once() {
            true => self.request(slot),
            false => world.after(0, None, Action::due(INTERPRETER | slot as u64, true)),
        }
        Ok(())
    }

    fn request(&self, slot: Slot) {
        let (statement, at) = self.requested[slot]
            .as_ref()
            .expect("the call is a statement");
        let request = {
            let scheduler = self.scheduler.borrow();
            let begun = scheduler
                .in_flight(slot)
                .expect("the worker has a call in flight");
            let (value, key) = (begun.call.value, begun.call.key);
            let (query, rows) = statement.query(&self.simulation, value, key);
            Request {
                node: self.nodes[*at].node,
                query,
                rows,
                settings: statement.settings(value),
                timeout_ns: statement.timeout_ns,
            }
        };
        self.clients[slot].send(&self.simulation, request);
    }

    fn answered(&mut self, slot: Slot, host: &dyn Host) -> Result<(), Failure> {
        let answer = self.clients[slot].answer();
        let (statement, at) = self.requested[slot]
            .take()
            .expect("the call is a statement");
        let is_write = statement.is_write;
        let (kind, error) = match &answer {
            Ok(_) => (Kind::Ok, None),
            Err(error) => {
                let (kind, text) = host.failed(is_write, error)?;
                (kind, Some(text))
            }
        };
        let now_ns = self.now_ns();
        let ended = self.scheduler.borrow_mut().end(slot, kind, now_ns);
        self.counts.end(&ended);
        let value = match &answer {
            Ok(block) if !is_write => Value::Json(block.written(column)),
            _ => Value::of(ended.call.value),
        };
        let from = self.lines.len();
        line(
            &mut self.lines,
            &Line {
                index: self.scheduler.borrow().index(),
                process: Process::Client(ended.process),
                kind,
                called: &statement.called,
                time_ns: ended.time_ns,
                value,
                key: ended.call.key,
                node: &self.nodes[at].written,
                error: error
                    .as_deref()
                    .map_or(journal::Error::None, journal::Error::Text),
            },
        );
        let mut scheduler = self.scheduler.borrow_mut();
        scheduler.tell(&ended, &|| host.op(&self.lines[from..]))?;
        let number = scheduler.workers().of(slot).number;
        drop(scheduler);
        match kind {
            Kind::Info => {
                self.clients[slot].disconnect();
                host.retired(number)
            }
            _ => Ok(()),
        }
    }

    /// Ends a call of the host's. `tell` must follow.
    pub fn end(&mut self, number: i64, kind: Kind) -> Ended {
        let (now_ns, mut scheduler) = (self.now_ns(), self.scheduler.borrow_mut());
        let slot = scheduler.workers().slot(number);
        let ended = scheduler.end(slot, kind, now_ns);
        self.counts.end(&ended);
        ended
    }

    /// Records the line of a call that `end` ended, and passes it to the generator; `op` is the
    /// operation as the host represents it.
    pub fn tell(&mut self, ended: &Ended, line: &[u8], op: &Rc<dyn Any>) -> Result<(), Failure> {
        self.lines.extend_from_slice(line);
        let mut scheduler = self.scheduler.borrow_mut();
        scheduler.tell(ended, &|| Ok(op.clone()))
    }
}

/// Formats the numbers of a block's first column as a JSON list.
fn column(block: &Block) -> Vec<u8> {
    let rows = block.rows();
    let mut out = Vec::with_capacity(2 + 5 * rows.len());
    let numbers = rows.map(|row| match row[0] {
        parts::Value::Int(value) => value,
        _ => panic!("a set contains only numbers"),
    });
    journal::list(&mut out, numbers);
    out
}
