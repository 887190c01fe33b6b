//! Generates the final calls, after quiescence: one phase after the other, the same on every node,
//! each call until it succeeds.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use crate::interpreter::generator::{
    assign, Call, Context, Event, Generator, Step, UsageError, Waits, WakeCondition,
};
use crate::interpreter::workers::Slot;
use crate::interpreter::{Failure, Kind};
use crate::world::Ns;

/// Generators that run one after the other, with a barrier between them.
#[derive(Clone)]
pub struct Phases {
    left: VecDeque<Box<dyn Generator>>,
    /// Whether the first of `left` has been asked, after the barrier before it.
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
                return Ok(Step::Pending(None, WakeCondition::AnyEvent));
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

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

/// A generator that runs on every node at the same time.
#[derive(Clone)]
pub struct EachNode {
    generator: Box<dyn Generator>,
    /// The nodes that workers use; empty before the first question if they are unknown.
    nodes: Vec<Rc<str>>,
    /// One generator per node; empty before the first question.
    parts: Vec<Box<dyn Generator>>,
}

impl EachNode {
    pub fn new(generator: Box<dyn Generator>, nodes: Vec<Rc<str>>) -> EachNode {
        EachNode {
            generator,
            nodes,
            parts: Vec::new(),
        }
    }

    fn begin(&mut self, context: &Context<'_>) -> Result<(), Failure> {
        if self.nodes.is_empty() {
            let workers = context.workers;
            let every = context.free().chain(context.busy());
            let clients = every.filter(|&slot| slot != workers.nemesis());
            let nodes: BTreeSet<Rc<str>> =
                clients.map(|slot| workers.of(slot).node.clone()).collect();
            self.nodes = nodes.into_iter().collect();
        }
        if self.nodes.is_empty() {
            let text = "each_node: no client's worker takes part, so there is no node";
            return Err(Box::new(UsageError(text.into())));
        }
        self.parts = vec![self.generator.clone(); self.nodes.len()];
        Ok(())
    }

    fn place(&self, node: &str) -> Option<usize> {
        self.nodes.iter().position(|own| **own == *node)
    }
}

impl Generator for EachNode {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        if self.parts.is_empty() {
            self.begin(context)?;
        }
        let place = |slot| self.place(&context.workers.of(slot).node);
        let start = context.free().find_map(place).unwrap_or(0);
        let mut waits = Waits::default();
        for at in (start..self.parts.len()).chain(0..start) {
            let node = &self.nodes[at];
            match self.parts[at].op(&context.on(node))? {
                Step::Pending(wake_ns, condition) => waits.add(wake_ns, condition),
                Step::Exhausted => {}
                Step::Ready(slot, call) => {
                    let node = Some(node.clone());
                    return Ok(Step::Ready(slot, Call { node, ..call }));
                }
            }
        }
        Ok(waits.step())
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        match self.place(event.node) {
            Some(at) if !self.parts.is_empty() => self.parts[at].update(context, event),
            _ => Ok(false),
        }
    }

    fn listens(&self) -> bool {
        self.generator.listens()
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

/// Calls, each made once in this order without waiting for the previous one to end.
#[derive(Clone)]
pub struct Sequence(pub VecDeque<Call>);

impl Generator for Sequence {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let Some(call) = self.0.front() else {
            return Ok(Step::Exhausted);
        };
        Ok(match assign(call, context)? {
            Some(slot) => Step::Ready(slot, self.0.pop_front().expect("there is a first call")),
            None => Step::Pending(None, WakeCondition::AnyEvent),
        })
    }

    fn update(&mut self, _: &Context<'_>, _: &Event<'_>) -> Result<bool, Failure> {
        Ok(false)
    }

    fn listens(&self) -> bool {
        false
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

/// A call that must succeed.
#[derive(Clone)]
struct Try {
    call: Call,
    /// Number of tries so far.
    tries: u64,
}

/// Calls, each repeated until it succeeds.
#[derive(Clone)]
pub struct UntilOk {
    fresh: VecDeque<Call>,
    tries_max: u64,
    pause_ns: Ns,
    /// Tries with the time before which they must not be made.
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

    fn called(&mut self, slot: Slot, mut next: Try, context: &Context<'_>) -> Step {
        next.tries += 1;
        let call = next.call.clone();
        let process = context.workers.of(slot).process;
        self.in_flight.push((process, next));
        Step::Ready(slot, call)
    }
}

impl Generator for UntilOk {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        for at in 0..self.waiting.len() {
            let (due_ns, next) = &self.waiting[at];
            if *due_ns <= context.time_ns {
                if let Some(slot) = assign(&next.call, context)? {
                    let (_, next) = self.waiting.remove(at);
                    return Ok(self.called(slot, next, context));
                }
            }
        }
        if let Some(call) = self.fresh.front() {
            let Some(slot) = assign(call, context)? else {
                return Ok(Step::Pending(None, WakeCondition::AnyEvent));
            };
            let call = self.fresh.pop_front().expect("there is a first call");
            return Ok(self.called(slot, Try { call, tries: 0 }, context));
        }
        let later = self.waiting.iter().map(|(due_ns, _)| *due_ns);
        let later = later.filter(|&due_ns| due_ns > context.time_ns).min();
        Ok(match later {
            None if self.waiting.is_empty() && self.in_flight.is_empty() => Step::Exhausted,
            _ => Step::Pending(later, WakeCondition::AnyEvent),
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

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}
