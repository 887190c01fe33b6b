//! What the calls after the cluster has come to rest are made of, as harness/generators has it: one
//! phase after the other, the same on every node, each call until it succeeds.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::interpreter::generator::{Call, Context, Event, Firm, Generator, Step, Waits};
use crate::interpreter::{Failure, Kind};
use crate::world::Ns;

/// One after the other, with a barrier between them.
pub struct Phases {
    left: VecDeque<Box<dyn Generator>>,
    /// Whether the first of `left` was asked, the barrier before it passed.
    started: bool,
}

impl Phases {
    pub fn new(left: VecDeque<Box<dyn Generator>>) -> Phases {
        Phases {
            left,
            started: false,
        }
    }
}

impl Generator for Phases {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        while let Some(phase) = self.left.front_mut() {
            if !self.started && context.busy().next().is_some() {
                return Ok(Step::Pending(None, Firm::No));
            }
            let step = phase.op(context)?;
            self.started = !matches!(step, Step::Exhausted);
            if self.started {
                return Ok(step);
            }
            self.left.pop_front();
        }
        Ok(Step::Exhausted)
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        match self.left.front_mut() {
            Some(phase) => phase.update(context, event),
            None => Ok(false),
        }
    }

    fn listens(&self) -> bool {
        self.left.iter().any(|phase| phase.listens())
    }
}

/// The same on every node, at the same time.
pub struct EachNode(pub Vec<(Rc<str>, Box<dyn Generator>)>);

impl EachNode {
    fn place(&self, node: &str) -> Option<usize> {
        self.0.iter().position(|(own, _)| **own == *node)
    }
}

impl Generator for EachNode {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let place = |seat| self.place(&context.workers.of(seat).node);
        let start = context.free().find_map(place).unwrap_or(0);
        let mut waits = Waits::default();
        for at in (start..self.0.len()).chain(0..start) {
            let (node, part) = &mut self.0[at];
            let context = Context {
                node: Some(node),
                ..*context
            };
            match part.op(&context)? {
                Step::Pending(wake_ns, firm) => waits.add(wake_ns, firm),
                Step::Exhausted => {}
                step => return Ok(step),
            }
        }
        Ok(waits.step())
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        match self.place(event.node) {
            Some(at) => self.0[at].1.update(context, event),
            None => Ok(false),
        }
    }

    fn listens(&self) -> bool {
        self.0.iter().any(|(_, part)| part.listens())
    }
}

/// A call that is to succeed.
struct Try {
    call: Call,
    /// Made so far.
    tries: u64,
}

/// Clients' calls, each repeated until it succeeds.
pub struct UntilOk {
    fresh: VecDeque<Call>,
    tries_max: u64,
    pause_ns: Ns,
    /// Not before that time.
    waiting: Vec<(Ns, Try)>,
    /// By process.
    in_flight: Vec<(i64, Try)>,
}

impl UntilOk {
    pub fn new(calls: VecDeque<Call>, tries_max: u64, pause_ns: Ns) -> UntilOk {
        UntilOk {
            fresh: calls,
            tries_max,
            pause_ns,
            waiting: Vec::new(),
            in_flight: Vec::new(),
        }
    }
}

impl Generator for UntilOk {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let is_due = |(due_ns, _): &(Ns, Try)| *due_ns <= context.time_ns;
        let due = self.waiting.iter().position(is_due);
        if let Some(call) = due
            .map(|at| &self.waiting[at].1.call)
            .or(self.fresh.front())
        {
            if let Some(seat) = context.free_clients().next() {
                let mut next = match due {
                    Some(at) => self.waiting.remove(at).1,
                    None => Try {
                        call: self.fresh.pop_front().expect("it was seen"),
                        tries: 0,
                    },
                };
                next.tries += 1;
                let call = next.call.clone();
                let process = context.workers.of(seat).process;
                self.in_flight.push((process, next));
                return Ok(Step::Ready(seat, call));
            }
            if context.busy().all(|seat| seat == context.workers.nemesis()) {
                let why = format!("call {}: no client's worker takes part", call.f);
                return Err(why.into());
            }
        }
        let later = self.waiting.iter().map(|(due_ns, _)| *due_ns);
        let later = later.filter(|&due_ns| due_ns > context.time_ns).min();
        Ok(match later {
            Some(_) if self.fresh.is_empty() => Step::Pending(later, Firm::No),
            _ if self.fresh.is_empty() && self.waiting.is_empty() && self.in_flight.is_empty() => {
                Step::Exhausted
            }
            _ => Step::Pending(None, Firm::No),
        })
    }

    fn update(&mut self, _: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        let mut in_flight = self.in_flight.iter();
        let Some(at) = in_flight.position(|(process, _)| *process == event.process) else {
            return Ok(false);
        };
        let (_, ended) = self.in_flight.remove(at);
        if event.kind != Kind::Ok && ended.tries < self.tries_max {
            let due_ns = event.time_ns + self.pause_ns;
            self.waiting.push((due_ns, ended));
        }
        Ok(true)
    }

    fn listens(&self) -> bool {
        true
    }
}
