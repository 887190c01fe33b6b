//! Divides workers among generators: clients and the nemesis, shares by number, nodes.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::generator::{Call, Context, Event, Generator, Step, UsageError, Waits, WakeCondition};
use crate::{Failure, Ns};

/// Restricts a generator to clients.
#[derive(Clone)]
pub struct OnClients(pub Box<dyn Generator>);

impl Generator for OnClients {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        self.0.op(&Context {
            nemesis: false,
            ..*context
        })
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        Ok(!event.is_fault && self.0.update(context, event)?)
    }

    fn listens(&self) -> bool {
        self.0.listens()
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

/// Restricts a generator to the nemesis.
#[derive(Clone)]
pub struct OnNemesis {
    pub generator: Box<dyn Generator>,
    /// The generator has no call for a free nemesis before this.
    pub quiet_ns: Option<Ns>,
    /// It had no call for a busy nemesis. Nothing that it sees will change until that call has
    /// ended, which is reported to it.
    pub waits: bool,
}

impl Generator for OnNemesis {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        if self.waits {
            return Ok(Step::Pending(None, WakeCondition::FreedWorker));
        }
        if let Some(quiet_ns) = self.quiet_ns.filter(|&quiet_ns| context.time_ns < quiet_ns) {
            return Ok(Step::Pending(Some(quiet_ns), WakeCondition::TimeOnly));
        }
        let step = self.generator.op(&Context {
            clients: false,
            ..*context
        })?;
        self.quiet_ns = None;
        let is_free = context.nemesis && context.workers.nemesis_is_free();
        let is_busy = context.nemesis && context.workers.nemesis_is_busy();
        Ok(match step {
            Step::Pending(Some(wake_ns), _) if is_free => {
                self.quiet_ns = Some(wake_ns);
                Step::Pending(Some(wake_ns), WakeCondition::TimeOnly)
            }
            Step::Pending(None, _) if is_busy && self.generator.listens() => {
                self.waits = true;
                Step::Pending(None, WakeCondition::FreedWorker)
            }
            step => step,
        })
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        if !event.is_fault {
            return Ok(false);
        }
        self.waits = false;
        let changed = self.generator.update(context, event)?;
        if changed {
            self.quiet_ns = None;
        }
        Ok(changed)
    }

    fn listens(&self) -> bool {
        self.generator.listens()
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

/// Generators that run at the same time.
#[derive(Clone)]
pub struct Together {
    parts: Vec<Box<dyn Generator>>,
    /// Number of calls made.
    turn: usize,
    /// The part that is asked first; it advances in a circle with `turn`.
    first: usize,
    /// Indices of the parts that are exhausted and will be removed.
    exhausted: Vec<usize>,
}

impl Together {
    pub fn new(parts: Vec<Box<dyn Generator>>, turn: usize) -> Together {
        Together {
            first: turn % parts.len().max(1),
            parts,
            turn,
            exhausted: Vec::new(),
        }
    }

    #[cold]
    fn remove_exhausted(&mut self) {
        self.exhausted.sort_unstable();
        while let Some(at) = self.exhausted.pop() {
            self.parts.remove(at);
        }
        self.first = self.turn % self.parts.len().max(1);
    }

    fn after(&self, at: usize) -> usize {
        match at + 1 {
            next if next < self.parts.len() => next,
            _ => 0,
        }
    }
}

impl Generator for Together {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        if self.parts.is_empty() {
            return Ok(Step::Exhausted);
        }
        let (mut at, mut waits) = (self.first, Waits::default());
        let step = loop {
            let step = self.parts[at].op(context);
            match step {
                Ok(Step::Pending(wake_ns, condition)) => waits.add(wake_ns, condition),
                Ok(Step::Exhausted) => self.exhausted.push(at),
                Ok(Step::Ready(..)) => {
                    self.turn += 1;
                    self.first = self.after(self.first);
                    break step;
                }
                Err(_) => return step,
            }
            at = self.after(at);
            if at == self.first {
                break Ok(waits.step());
            }
        };
        if !self.exhausted.is_empty() {
            self.remove_exhausted();
        }
        step
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        let mut changed = false;
        for part in &mut self.parts {
            changed |= part.update(context, event)?;
        }
        Ok(changed)
    }

    fn listens(&self) -> bool {
        self.parts.iter().any(|part| part.listens())
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

/// Generators that have workers of their own.
#[derive(Clone)]
pub struct Reserve {
    /// Each with the number of its first worker, ascending from 0; the last part has all workers
    /// from its first on.
    pub parts: Vec<(i64, Box<dyn Generator>)>,
}

impl Reserve {
    fn context<'a>(&self, at: usize, context: &Context<'a>) -> Context<'a> {
        let next = self.parts.get(at + 1);
        context.numbered(self.parts[at].0, next.map_or(i64::MAX, |(first, _)| *first))
    }
}

impl Generator for Reserve {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        // The part of the preferred worker is asked first.
        let start = context.free_clients().next().map_or(0, |slot| {
            let number = context.workers.of(slot).number;
            self.parts.partition_point(|(first, _)| *first <= number) - 1
        });
        let mut waits = Waits::default();
        for at in (start..self.parts.len()).chain(0..start) {
            let own = self.context(at, context);
            match self.parts[at].1.op(&own)? {
                Step::Pending(wake_ns, condition) => waits.add(wake_ns, condition),
                Step::Exhausted => {}
                step => return Ok(step),
            }
        }
        Ok(waits.step())
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        let mut changed = false;
        for (_, part) in &mut self.parts {
            changed |= part.update(context, event)?;
        }
        Ok(changed)
    }

    fn listens(&self) -> bool {
        self.parts.iter().any(|(_, part)| part.listens())
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
            return Err(UsageError::failure(text.into()));
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
