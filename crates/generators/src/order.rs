//! Puts generators one after the other: phases, rounds, and an end that the caller awaits.

use std::any::Any;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::generator::{Context, Event, Generator, MakeGenerator, Step, UsageError, WakeCondition};
use crate::Failure;

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

/// Rounds without end, each of which begins when the calls of the one before have ended.
#[derive(Clone)]
pub struct Cycle {
    make: MakeGenerator,
    listens: bool,
    /// Number of the next round.
    number: u64,
    round: Option<Box<dyn Generator>>,
}

impl Cycle {
    /// Creates rounds, which all listen to events if round 0 does.
    pub fn new(make: MakeGenerator) -> Result<Cycle, Failure> {
        Ok(Cycle {
            listens: make(0)?.listens(),
            make,
            number: 0,
            round: None,
        })
    }
}

impl Generator for Cycle {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        if let Some(round) = &mut self.round {
            match round.op(context)? {
                Step::Exhausted => self.round = None,
                step => return Ok(step),
            }
        }
        if context.busy().next().is_some() {
            return Ok(Step::Pending(None, WakeCondition::AnyEvent));
        }
        let number = self.number;
        let mut round = (self.make)(number)?;
        if round.listens() && !self.listens {
            return Err(UsageError::failure(format!(
                "cycle: round {number} looks at events and round 0 does not; expected the same \
                 kind of generator for every round"
            )));
        }
        let step = round.op(context)?;
        if matches!(step, Step::Exhausted) {
            return Err(UsageError::failure(format!(
                "cycle: round {number} has no call and no pause; it would spin"
            )));
        }
        (self.number, self.round) = (number + 1, Some(round));
        Ok(step)
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        match &mut self.round {
            Some(round) => round.update(context, event),
            None => Ok(false),
        }
    }

    fn listens(&self) -> bool {
        self.listens
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

/// Says of an operation, as the host represents it, whether it is the awaited end.
pub type IsAwaited = Rc<dyn Fn(&dyn Any) -> Result<bool, Failure>>;

/// A generator that stops when an awaited end has been seen.
#[derive(Clone)]
pub struct StopWhen {
    pub generator: Box<dyn Generator>,
    pub is_awaited: IsAwaited,
    pub over: bool,
}

impl Generator for StopWhen {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        match self.over {
            true => Ok(Step::Exhausted),
            false => self.generator.op(context),
        }
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        if self.over {
            return Ok(false);
        }
        self.over = (self.is_awaited)(&*(event.op)()?)?;
        Ok(self.over || self.generator.update(context, event)?)
    }

    fn listens(&self) -> bool {
        true
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}
