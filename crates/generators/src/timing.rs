//! Decides when calls are made: rates, limits, pauses.

use seed::Seed;

use crate::generator::{Context, Event, Generator, Resting, Step, WakeCondition};
use crate::{Failure, Kind, Ns};

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

/// Calls as long as some succeed.
#[derive(Clone)]
pub struct WhileAnswered {
    pub generator: Box<dyn Generator>,
    pub patience_ns: Ns,
    /// Time of the last success, or of the first question; `None` before that.
    pub since_ns: Option<Ns>,
}

impl Generator for WhileAnswered {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let end_ns = *self.since_ns.get_or_insert(context.time_ns) + self.patience_ns;
        if context.time_ns >= end_ns {
            return Ok(Step::Exhausted);
        }
        let mut step = self.generator.op(context)?;
        if let Step::Pending(wake_ns, _) = &mut step {
            *wake_ns = Some(wake_ns.map_or(end_ns, |wake_ns| wake_ns.min(end_ns)));
        }
        Ok(step)
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        let changed = self.generator.update(context, event)?;
        let is_answer = event.kind == Kind::Ok;
        if is_answer {
            self.since_ns = Some(event.time_ns);
        }
        Ok(changed || is_answer)
    }

    fn listens(&self) -> bool {
        true
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

/// A limited number of calls.
#[derive(Clone)]
pub struct Limit {
    pub generator: Box<dyn Generator>,
    pub left: u64,
}

impl Generator for Limit {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        if self.left == 0 {
            return Ok(Step::Exhausted);
        }
        let step = self.generator.op(context)?;
        self.left -= u64::from(matches!(step, Step::Ready(..)));
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

/// A pause without a call.
#[derive(Clone)]
pub struct Sleep {
    pub length_ns: Ns,
    /// `None` before the first question.
    pub end_ns: Option<Ns>,
}

impl Generator for Sleep {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let end_ns = *self.end_ns.get_or_insert(context.time_ns + self.length_ns);
        Ok(match context.time_ns >= end_ns {
            true => Step::Exhausted,
            false => Step::Pending(Some(end_ns), WakeCondition::AnyEvent),
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

/// A generator that gives no call to a process for a while after one of the process's calls failed.
/// Otherwise refusals, which cost no time, would crowd out everything else.
#[derive(Clone)]
pub struct RestAfterFail {
    generator: Box<dyn Generator>,
    pause_ns: Ns,
    /// Processes that rest, and until when.
    resting: Vec<(i64, Ns)>,
}

impl RestAfterFail {
    pub fn new(generator: Box<dyn Generator>, pause_ns: Ns) -> RestAfterFail {
        RestAfterFail {
            generator,
            pause_ns,
            resting: Vec::new(),
        }
    }
}

impl Generator for RestAfterFail {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        self.resting
            .retain(|&(_, until_ns)| until_ns > context.time_ns);
        let resting = Resting {
            processes: &self.resting,
            others: context.resting,
        };
        let mut step = self.generator.op(&Context {
            resting: Some(&resting),
            ..*context
        })?;
        if let Step::Pending(wake_ns, _) = &mut step {
            let rested_ns = self.resting.iter().map(|&(_, until_ns)| until_ns);
            *wake_ns = rested_ns.chain(*wake_ns).min();
        }
        Ok(step)
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        let changed = self.generator.update(context, event)?;
        let is_refusal = event.kind == Kind::Fail;
        if is_refusal {
            let until_ns = event.time_ns + self.pause_ns;
            self.resting.push((event.process, until_ns));
        }
        Ok(changed || is_refusal)
    }

    fn listens(&self) -> bool {
        true
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}
