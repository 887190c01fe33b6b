//! Implements the combinators between the scheduler and a workload's calls. harness/generators,
//! where Python creates them, documents them.

use crate::interpreter::generator::{Context, Event, Generator, Step, Waits, WakeCondition};
use crate::interpreter::Failure;
use crate::seed::Seed;
use crate::world::Ns;

/// Calls until a time has passed.
#[derive(Clone)]
pub struct TimeLimit {
    pub generator: Box<dyn Generator>,
    pub length_ns: Ns,
    /// `None` before the first question.
    pub end_ns: Option<Ns>,
}

impl Generator for TimeLimit {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let end_ns = *self.end_ns.get_or_insert(context.time_ns + self.length_ns);
        if context.time_ns >= end_ns {
            return Ok(Step::Exhausted);
        }
        let mut step = self.generator.op(context);
        if let Ok(Step::Pending(wake_ns, _)) = &mut step {
            *wake_ns = Some(wake_ns.map_or(end_ns, |wake_ns| wake_ns.min(end_ns)));
        }
        step
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        self.generator.update(context, event)
    }

    fn listens(&self) -> bool {
        self.generator.listens()
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }

    fn unlimited(&self) -> Option<Box<dyn Generator>> {
        Some(self.generator.clone())
    }
}

/// A rate does not make up for a lag beyond this.
const LAG_NS_MAX: Ns = 1_000_000_000;

/// Calls that are spread over time.
#[derive(Clone)]
pub struct Rate {
    pub generator: Box<dyn Generator>,
    pub mean_ns: f64,
    pub seed: Seed,
    pub exponential: bool,
    /// Number of calls made.
    pub number: u64,
    /// When the next call is due; `None` before the first question.
    pub due_ns: Option<Ns>,
    /// The earliest time of the next call, however late it is.
    pub spaced_ns: Ns,
}

impl Rate {
    fn gap_ns(&self, number: u64) -> Ns {
        let u = self.seed.unit(number);
        let of_mean = if self.exponential {
            -(1.0 - u).ln()
        } else {
            2.0 * u
        };
        (self.mean_ns * of_mean) as Ns
    }
}

impl Generator for Rate {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let now_ns = context.time_ns;
        let first_ns = || now_ns + self.gap_ns(0);
        let due_ns = self.due_ns.unwrap_or_else(first_ns);
        self.due_ns = Some(due_ns);
        let at_ns = due_ns.max(self.spaced_ns);
        if now_ns < at_ns {
            return Ok(Step::Pending(Some(at_ns), WakeCondition::TimeOnly));
        }
        let mut step = self.generator.op(context)?;
        match &mut step {
            Step::Ready(..) => {
                self.number += 1;
                let gap_ns = self.gap_ns(self.number);
                self.due_ns = Some(due_ns.max(now_ns - LAG_NS_MAX) + gap_ns);
                self.spaced_ns = now_ns + gap_ns / 2;
            }
            // After a call the wait would be for another time.
            Step::Pending(_, condition) if *condition == WakeCondition::FreedWorker => {
                *condition = WakeCondition::AnyEvent
            }
            _ => {}
        }
        Ok(step)
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        self.generator.update(context, event)
    }

    fn listens(&self) -> bool {
        self.generator.listens()
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

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
