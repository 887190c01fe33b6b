//! The interpreter on simulated time: which worker does what next, and what the history says of it.
//!
//! The same rules as harness/run/scheduler.py, with the servers' events on the same wheels. A call
//! that is one statement never leaves this module: who asks, what is answered and the two lines of
//! the history. Every other call, and every fault, is its `Host`'s.

mod asker;
mod counts;
mod ended;
pub mod finals;
pub mod generator;
pub mod generators;
pub mod host;
mod kind;
pub mod lines;
pub mod set_calls;
pub mod statements;
pub mod workers;

use std::any::Any;
use std::collections::BTreeSet;
use std::error::Error;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::network::Node;
use crate::simulation::Simulation;
use crate::world::{Act, Ns};
use asker::{Asker, Question};
use counts::Counts;
pub use ended::Ended;
use generator::{Call, Context, Firm, Generator, Step};
use host::{Begun, Host};
pub use kind::Kind;
use lines::{line, Index, Line};
use statements::{Outcomes, Statement};
use workers::{Seat, Workers};

/// What a generator or a host raises.
pub type Failure = Box<dyn Error>;

/// Why the servers stand still.
pub enum Stop {
    /// Something of the host's is due.
    Due(u64),
    /// There are lines to be written, or it is over.
    Pause,
}

struct InFlight {
    call: Call,
    node: Rc<str>,
    /// What is asked in its place, and which of the nodes.
    asked: Option<(Rc<Statement>, usize)>,
}

/// A server that may be asked.
pub struct Named {
    name: Rc<str>,
    node: Node,
    /// As lines say it.
    written: Vec<u8>,
}

impl Named {
    pub fn new(name: &str, node: Node) -> Named {
        Named {
            name: name.into(),
            node,
            written: lines::node(name),
        }
    }
}

/// Numbers of events that are not the host's: a worker asks, it is answered, or (with a number of
/// the interpreter's) the generator is asked.
const OURS: u64 = 1 << 63;
const ANSWER: u64 = 1 << 62;
const WAKE: u64 = 1 << 61;

/// Whether what is due is an interpreter's. One that is over may have left some.
pub fn is_own(number: u64) -> bool {
    number & OURS != 0
}

const NEVER_NS: Ns = 1 << 62;
/// Lines wait no longer.
const PAUSE: Duration = Duration::from_millis(20);

pub struct Interpreter {
    simulation: Rc<Simulation>,
    nodes: Vec<Named>,
    /// By seat: which of the nodes its worker is on, if it is on one.
    homes: Vec<Option<usize>>,
    generator: Box<dyn Generator>,
    told: bool,
    workers: Workers,
    in_flight: Vec<Option<InFlight>>,
    statements: Vec<Rc<Statement>>,
    outcomes: Outcomes,
    /// By seat.
    askers: Vec<Asker>,
    index: Index,
    time_ns: Ns,
    zero_ns: Ns,
    /// What the generator said last.
    wait_ns: Ns,
    firm: Firm,
    /// How many have become free since.
    freed: usize,
    /// The number of its own question.
    wake: u64,
    wake_ns: Option<Ns>,
    exhausted: bool,
    lines: Vec<u8>,
    counts: Counts,
    keys: BTreeSet<i64>,
    /// That was named, which most name again.
    last_key: Option<i64>,
    paused: Instant,
}

/// How far a history has come.
#[derive(Clone, Copy)]
pub struct Place {
    /// Of the next op.
    pub index: u64,
    /// Of the last op.
    pub time_ns: Ns,
    /// The world's time when the run's was 0.
    pub zero_ns: Ns,
}

impl Interpreter {
    pub fn new(
        simulation: Rc<Simulation>,
        nodes: Vec<Named>,
        generator: Box<dyn Generator>,
        workers: Workers,
        statements: Vec<Rc<Statement>>,
        outcomes: Outcomes,
        place: Place,
    ) -> Interpreter {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let wake = OURS | WAKE | MADE.fetch_add(1, Ordering::Relaxed);
        simulation.world.after(0, None, Act::due(wake, false));
        let seats = workers.seats();
        let asker = |seat| Asker::new(&simulation, OURS | ANSWER | seat as u64);
        let home = |seat| {
            nodes
                .iter()
                .position(|own| own.name == workers.of(seat).node)
        };
        Interpreter {
            homes: (0..seats).map(home).collect(),
            askers: (0..seats).map(asker).collect(),
            told: generator.listens(),
            simulation,
            nodes,
            generator,
            workers,
            in_flight: (0..seats).map(|_| None).collect(),
            statements,
            outcomes,
            index: Index::new(place.index),
            time_ns: place.time_ns,
            zero_ns: place.zero_ns,
            wait_ns: 0,
            firm: Firm::No,
            freed: 0,
            wake,
            wake_ns: None,
            exhausted: false,
            lines: Vec::new(),
            counts: Counts::default(),
            keys: BTreeSet::new(),
            last_key: None,
            paused: Instant::now(),
        }
    }

    /// Nothing is in flight and nothing will come.
    pub fn over(&self) -> bool {
        self.exhausted && self.workers.all_free()
    }

    /// No calls any more; those in flight go on.
    pub fn exhaust(&mut self) {
        self.exhausted = true;
    }

    pub fn place(&self) -> Place {
        Place {
            index: self.index.number(),
            time_ns: self.time_ns,
            zero_ns: self.zero_ns,
        }
    }

    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// The history's lines since the last call, for whoever copies them.
    pub fn take_lines<T>(&mut self, copied: impl FnOnce(&[u8]) -> T) -> T {
        self.paused = Instant::now();
        let out = copied(&self.lines);
        self.lines.clear();
        out
    }

    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Every key that clients named.
    pub fn keys(&self) -> &BTreeSet<i64> {
        &self.keys
    }

    /// Lets the servers go on until something is the host's to do.
    pub fn step(&mut self, host: &dyn Host) -> Result<Stop, Failure> {
        for turn in 1.. {
            if self.over() || (turn % 32 == 1 && self.paused.elapsed() > PAUSE) {
                break;
            }
            let due = self.simulation.world.step(NEVER_NS);
            let number = due.ok_or("nothing will ever happen again, and it is not over")?;
            if !is_own(number) {
                return Ok(Stop::Due(number));
            }
            let seat = (number & !OURS & !ANSWER) as Seat;
            if number == self.wake {
                self.pump(host)?;
            } else if number & ANSWER != 0 {
                self.answered(seat, host)?;
                self.pump(host)?;
            } else if number & WAKE == 0 {
                self.ask(seat);
            }
        }
        Ok(Stop::Pause)
    }

    fn now_ns(&self) -> Ns {
        self.simulation.world.now_ns() - self.zero_ns
    }

    fn advanced(&mut self, now_ns: Ns) -> Ns {
        self.time_ns = self.time_ns.max(now_ns);
        self.time_ns
    }

    /// Takes every call that there is now.
    pub fn pump(&mut self, host: &dyn Host) -> Result<(), Failure> {
        let now_ns = self.now_ns();
        while !self.exhausted {
            if self.waits(now_ns) {
                return self.wait(now_ns);
            }
            let context = Context::of(now_ns, &self.workers);
            match self.generator.op(&context)? {
                Step::Ready(seat, call) => self.begin(seat, call, now_ns, host)?,
                Step::Exhausted => self.exhausted = true,
                Step::Pending(wake_ns, firm) => {
                    self.wait_ns = wake_ns.unwrap_or(NEVER_NS);
                    (self.firm, self.freed) = (firm, 0);
                    return self.wait(now_ns);
                }
            }
        }
        Ok(())
    }

    /// Whether what the generator said last holds still.
    fn waits(&self, now_ns: Ns) -> bool {
        now_ns < self.wait_ns
            && match self.firm {
                Firm::No => false,
                Firm::ForFree => self.freed == 0,
                Firm::Yes => true,
            }
    }

    fn wait(&mut self, now_ns: Ns) -> Result<(), Failure> {
        if self.wait_ns < NEVER_NS {
            self.wake_at(self.wait_ns, now_ns);
        } else if self.workers.all_free() {
            return Err(
                "the generator waits for a call to end, but none is in flight: it would \
                 wait for ever"
                    .into(),
            );
        }
        Ok(())
    }

    fn wake_at(&mut self, wake_ns: Ns, now_ns: Ns) {
        assert!(wake_ns > now_ns, "a wait must end later than now");
        let is_sooner = |known| known <= now_ns || wake_ns < known;
        if self.wake_ns.is_none_or(is_sooner) {
            self.wake_ns = Some(wake_ns);
            let act = Act::due(self.wake, false);
            self.simulation.world.after(wake_ns - now_ns, None, act);
        }
    }

    fn begin(
        &mut self,
        seat: Seat,
        call: Call,
        now_ns: Ns,
        host: &dyn Host,
    ) -> Result<(), Failure> {
        let time_ns = self.advanced(now_ns);
        self.workers.begin(seat, &call.f)?;
        self.freed = self.freed.saturating_sub(1);
        let worker = self.workers.of(seat);
        let foreign = call.foreign.as_ref();
        let named = foreign.and_then(|foreign| foreign.node.clone());
        let node = match named {
            Some(node) if worker.roams || seat == self.workers.nemesis() => node,
            _ => worker.node.clone(),
        };
        let plain = foreign.is_none_or(|foreign| foreign.plain);
        let mut statements = self.statements.iter();
        let statement = statements.find(|statement| statement.f == call.f);
        let statement = statement.filter(|s| plain && s.takes(call.value, call.key));
        let asked = statement.map(|statement| {
            let at = self.homes[seat].or_else(|| self.nodes.iter().position(|n| n.name == node));
            (statement.clone(), at.expect("it is a server's name"))
        });
        if let Some((statement, at)) = &asked {
            line(
                &mut self.lines,
                &Line {
                    index: &self.index,
                    process: worker.process,
                    kind: Kind::Invoke,
                    called: &statement.called,
                    time_ns,
                    value: lines::Value::of(call.value),
                    key: call.key,
                    node: &self.nodes[*at].written,
                    error: None,
                },
            );
        } else {
            let begun = Begun {
                index: self.index.number(),
                time_ns,
                number: self.workers.number(seat),
                process: worker.process,
                node: &node,
                call: &call,
            };
            self.lines.extend(host.begin(&begun)?);
        }
        if seat != self.workers.nemesis() {
            self.counts.begun += 1;
            if let Some(key) = call.key.filter(|_| call.key != self.last_key) {
                self.keys.insert(key);
                self.last_key = Some(key);
            }
        }
        self.index.count();
        let asks = asked.is_some();
        self.in_flight[seat] = Some(InFlight { call, node, asked });
        let world = &self.simulation.world;
        if asks && world.at_once() {
            self.ask(seat);
        } else if asks {
            world.after(0, None, Act::due(OURS | seat as u64, true));
        }
        Ok(())
    }

    fn ask(&self, seat: Seat) {
        let in_flight = self.in_flight[seat].as_ref().expect("it was begun");
        let (statement, at) = in_flight.asked.as_ref().expect("it is one");
        let (value, key) = (in_flight.call.value, in_flight.call.key);
        let (query, rows) = statement.asked(&self.simulation, value, key);
        let question = Question {
            node: self.nodes[*at].node,
            query,
            rows,
            settings: statement.settings(value),
            timeout_ns: statement.timeout_ns,
        };
        self.askers[seat].ask(&self.simulation, question);
    }

    fn answered(&mut self, seat: Seat, host: &dyn Host) -> Result<(), Failure> {
        let answer = self.askers[seat].answer();
        let InFlight { call, node, asked } = self.taken(seat);
        let (statement, at) = asked.expect("it is one");
        let time_ns = self.advanced(self.now_ns());
        let is_write = statement.is_write;
        let asked = lines::Value::of(call.value);
        let (kind, value, error) = match &answer {
            Ok(_) if is_write => (Kind::Ok, asked, None),
            Ok(block) => (Kind::Ok, lines::Value::Column(block), None),
            Err(error) => {
                let (kind, said) = self.outcomes.of(is_write, error);
                (kind, asked, Some((said, &error.text)))
            }
        };
        let from = self.lines.len();
        line(
            &mut self.lines,
            &Line {
                index: &self.index,
                process: self.workers.of(seat).process,
                kind,
                called: &statement.called,
                time_ns,
                value,
                key: call.key,
                node: &self.nodes[at].written,
                error: error.as_ref().map(|(said, text)| (&**said, &***text)),
            },
        );
        self.index.count();
        let ended = self.freed(seat, kind, time_ns, (call.f, node));
        if self.told {
            let op = || host.op(&self.lines[from..]);
            ended.tell(&mut *self.generator, &self.workers, &op)?;
        }
        if kind == Kind::Info {
            host.retired(self.workers.number(seat))?;
        }
        Ok(())
    }

    /// A call of the host's has ended so: the place of its end in the history. `told` next.
    pub fn end(&mut self, number: i64, kind: Kind) -> (Ended, u64) {
        let time_ns = self.advanced(self.now_ns());
        let index = self.index.number();
        self.index.count();
        let seat = self.workers.seat(number);
        let InFlight { call, node, .. } = self.taken(seat);
        (self.freed(seat, kind, time_ns, (call.f, node)), index)
    }

    /// The end's line, and the same as the host knows it.
    pub fn told(&mut self, ended: &Ended, line: &[u8], op: &Rc<dyn Any>) -> Result<(), Failure> {
        self.lines.extend_from_slice(line);
        if !self.told {
            return Ok(());
        }
        ended.tell(&mut *self.generator, &self.workers, &|| Ok(op.clone()))
    }

    fn taken(&mut self, seat: Seat) -> InFlight {
        self.in_flight[seat].take().expect("it was begun")
    }

    fn freed(
        &mut self,
        seat: Seat,
        kind: Kind,
        time_ns: Ns,
        (f, node): (Rc<str>, Rc<str>),
    ) -> Ended {
        let process = self.workers.of(seat).process;
        self.workers.end(seat, kind == Kind::Info);
        self.freed += 1;
        if seat != self.workers.nemesis() {
            self.counts.end(&f, kind);
        }
        Ended {
            seat,
            process,
            kind,
            f,
            node,
            time_ns,
        }
    }
}
