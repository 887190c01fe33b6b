//! Schedules one history: which worker does what next, and the index of each operation.
//!
//! This is a state machine without threads, clocks or I/O. The caller passes the time and the calls
//! that ended; the scheduler asks the generator and numbers operations and processes. It outlives
//! generators, so that the phases of one run form one history.

use std::any::Any;
use std::rc::Rc;

use histories::journal::{Index, Kind};

use crate::generator::{Call, Context, Event, Generator, Step, WakeCondition};
use crate::workers::{Slot, Workers};
use crate::{Failure, Ns};

/// What to do at the time that was passed to `poll`.
pub enum Next {
    /// This worker's call has begun.
    Begun(Slot),
    /// Nothing now. Poll again at this time, or (`None`) when some call has ended.
    Wait(Option<Ns>),
    /// The generator has no more calls; some may still be in flight.
    Exhausted,
}

/// A call in flight.
pub struct InFlight {
    /// The index of its invocation in the history.
    pub index: u64,
    pub time_ns: Ns,
    pub call: Call,
    /// A client's server, or the node that a fault names.
    pub node: Option<Rc<str>>,
}

/// A call that has ended.
pub struct Ended {
    /// The index of its end in the history.
    pub index: u64,
    pub time_ns: Ns,
    pub is_fault: bool,
    pub process: i64,
    pub kind: Kind,
    pub call: Call,
    pub node: Option<Rc<str>>,
}

/// Schedules the calls of one history.
pub struct Scheduler {
    /// `None` before the first one.
    generator: Option<Box<dyn Generator>>,
    listens: bool,
    workers: Workers,
    /// By slot.
    in_flight: Vec<Option<InFlight>>,
    /// The index of the last operation.
    index: Index,
    /// The time of the last operation.
    time_ns: Ns,
    /// The last wait that the generator requested: until when (`None`: until a call ends), what may
    /// end it early, and how many workers have become free since.
    wait: Option<Option<Ns>>,
    condition: WakeCondition,
    freed: usize,
    exhausted: bool,
}

impl Scheduler {
    pub fn new(workers: Workers) -> Scheduler {
        Scheduler {
            generator: None,
            listens: false,
            in_flight: (0..workers.slots()).map(|_| None).collect(),
            workers,
            index: Index::before(0),
            time_ns: 0,
            wait: None,
            condition: WakeCondition::AnyEvent,
            freed: 0,
            exhausted: false,
        }
    }

    /// Takes all further calls from this generator. The history continues.
    pub fn follow(&mut self, generator: Box<dyn Generator>) {
        self.listens = generator.listens();
        self.generator = Some(generator);
        self.wait = None;
        self.exhausted = false;
    }

    /// Returns the current generator in its current state.
    pub fn generator(&self) -> &dyn Generator {
        &**self.generator.as_ref().expect("follow a generator first")
    }

    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Returns the worker's call in flight.
    pub fn in_flight(&self, slot: Slot) -> Option<&InFlight> {
        self.in_flight[slot].as_ref()
    }

    /// Returns the index of the last operation.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Starts no more calls of this generator. Those in flight go on.
    pub fn exhaust(&mut self) {
        self.exhausted = true;
    }

    /// Returns whether nothing is in flight and nothing will be.
    pub fn is_over(&self) -> bool {
        self.exhausted && self.workers.all_free()
    }

    /// Begins the generator's next call, if it has one now. `prefer` is the worker that asks: if it
    /// is free, the generator sees it before all others.
    ///
    /// Fails if the generator waits for a call to end although none is in flight, if it waits for a
    /// time that has passed, or if it gives a call to a worker that is not free.
    pub fn poll(&mut self, now_ns: Ns, prefer: Option<Slot>) -> Result<Next, Failure> {
        if self.exhausted {
            return Ok(Next::Exhausted);
        }
        if let Some(wake_ns) = self
            .wait
            .filter(|&wake_ns| self.still_waits(wake_ns, now_ns))
        {
            return self.checked_wait(wake_ns);
        }
        let nemesis = self.workers.nemesis();
        let prefer = prefer.filter(|slot| *slot != nemesis && self.workers.free().contains(slot));
        let context = Context {
            prefer,
            ..Context::of(now_ns, &self.workers)
        };
        let generator = self.generator.as_mut().expect("follow a generator first");
        match generator.op(&context)? {
            Step::Ready(slot, call) => {
                self.begin(slot, call, now_ns)?;
                Ok(Next::Begun(slot))
            }
            Step::Exhausted => {
                self.exhausted = true;
                Ok(Next::Exhausted)
            }
            Step::Pending(wake_ns, condition) => {
                (self.wait, self.condition, self.freed) = (Some(wake_ns), condition, 0);
                if let Some(wake_ns) = wake_ns.filter(|&wake_ns| wake_ns <= now_ns) {
                    let name = generator.name();
                    let text = format!(
                        "the generator waits until {wake_ns} ns, and it is {now_ns} ns already: a \
                         wait must end later than now; see its {name}"
                    );
                    return Err(text.into());
                }
                self.checked_wait(wake_ns)
            }
        }
    }

    fn still_waits(&self, wake_ns: Option<Ns>, now_ns: Ns) -> bool {
        wake_ns.is_none_or(|wake_ns| now_ns < wake_ns)
            && match self.condition {
                WakeCondition::AnyEvent => false,
                WakeCondition::FreedWorker => self.freed == 0,
                WakeCondition::TimeOnly => true,
            }
    }

    fn checked_wait(&self, wake_ns: Option<Ns>) -> Result<Next, Failure> {
        if wake_ns.is_none() && self.workers.all_free() {
            let name = self.generator().name();
            let text = format!(
                "the generator waits for a call to end, but none is in flight: it would wait for \
                 ever; see its {name}"
            );
            return Err(text.into());
        }
        Ok(Next::Wait(wake_ns))
    }

    /// Records a call in the history, in flight on a free worker. `poll` uses it; it also serves
    /// calls that no generator made, such as the healing after a run. A roaming worker makes the
    /// call on the node that the call names, every other worker on its own; a fault may name a node
    /// or none.
    pub fn begin(&mut self, slot: Slot, call: Call, now_ns: Ns) -> Result<(), Failure> {
        let worker = self.workers.of(slot);
        let node = match (slot == self.workers.nemesis(), worker.roams) {
            (false, false) => Some(worker.node.clone()),
            (false, true) if call.node.is_none() => {
                let text = format!("call {} of a worker that roams names no node", call.f);
                return Err(text.into());
            }
            _ => call.node.clone(),
        };
        self.workers.begin(slot, &call.f)?;
        self.freed = self.freed.saturating_sub(1);
        self.stamp(now_ns);
        self.in_flight[slot] = Some(InFlight {
            index: self.index.number(),
            time_ns: self.time_ns,
            call,
            node,
        });
        Ok(())
    }

    /// Records the end of a worker's call in the history and frees the worker. An info retires a
    /// client's process: the worker continues as process + number of clients. `tell` must follow.
    pub fn end(&mut self, slot: Slot, kind: Kind, now_ns: Ns) -> Ended {
        assert!(kind != Kind::Invoke, "a call ends as ok, fail or info");
        let InFlight { call, node, .. } = self.in_flight[slot]
            .take()
            .expect("the worker has a call in flight");
        let process = self.workers.of(slot).process;
        self.workers.end(slot, kind == Kind::Info);
        self.freed += 1;
        self.stamp(now_ns);
        Ended {
            index: self.index.number(),
            time_ns: self.time_ns,
            is_fault: slot == self.workers.nemesis(),
            process,
            kind,
            call,
            node,
        }
    }

    /// Passes the end of a call to the generator, if that listens. `op` returns the operation as
    /// the host represents it.
    pub fn tell(
        &mut self,
        ended: &Ended,
        op: &dyn Fn() -> Result<Rc<dyn Any>, Failure>,
    ) -> Result<(), Failure> {
        let Some(generator) = self.generator.as_mut().filter(|_| self.listens) else {
            return Ok(());
        };
        let event = Event {
            is_fault: ended.is_fault,
            process: ended.process,
            kind: ended.kind,
            f: &ended.call.f,
            key: ended.call.key,
            node: ended.node.as_deref().unwrap_or_default(),
            time_ns: ended.time_ns,
            op,
        };
        let context = Context::of(ended.time_ns, &self.workers);
        generator.update(&context, &event).map(|_| ())
    }

    /// Advances to the next operation's index and time, which never goes back.
    fn stamp(&mut self, now_ns: Ns) {
        self.index.advance();
        self.time_ns = self.time_ns.max(now_ns);
    }
}
