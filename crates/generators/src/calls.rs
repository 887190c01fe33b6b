//! Makes calls: every other generator wraps these.

use std::collections::VecDeque;

use seed::Seed;

use crate::generator::{assign, Call, Context, Event, Generator, MakeCall, Step, WakeCondition};
use crate::workers::Slot;
use crate::{Failure, Kind, Ns};

/// Calls without end, each a function of its number.
#[derive(Clone)]
pub struct Numbered {
    pub make: MakeCall,
    pub number: u64,
}

impl Generator for Numbered {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let call = (self.make)(self.number)?;
        Ok(match assign(&call, context)? {
            Some(slot) => {
                self.number += 1;
                Step::Ready(slot, call)
            }
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

/// One call without end.
#[derive(Clone)]
pub struct Repeat(pub Call);

impl Generator for Repeat {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        Ok(match assign(&self.0, context)? {
            Some(slot) => Step::Ready(slot, self.0.clone()),
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

/// Calls without end, each a function of its number, a limited number of them in flight, on workers
/// that the seed draws.
#[derive(Clone)]
pub struct AtMostInFlight {
    make: MakeCall,
    most: usize,
    /// Minimum time between an end and the next call.
    pause_ns: Ns,
    seed: Seed,
    number: u64,
    due_ns: Ns,
    /// Processes.
    in_flight: Vec<i64>,
}

impl AtMostInFlight {
    /// `first_ns` is the time before which no call is made.
    pub fn new(
        make: MakeCall,
        most: usize,
        pause_ns: Ns,
        seed: Seed,
        first_ns: Ns,
    ) -> AtMostInFlight {
        AtMostInFlight {
            make,
            most,
            pause_ns,
            seed,
            number: 0,
            due_ns: first_ns,
            in_flight: Vec::new(),
        }
    }
}

impl Generator for AtMostInFlight {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let workers: Vec<Slot> = context.free_clients().collect();
        if self.in_flight.len() >= self.most || workers.is_empty() {
            return Ok(Step::Pending(None, WakeCondition::AnyEvent));
        }
        if context.time_ns < self.due_ns {
            return Ok(Step::Pending(Some(self.due_ns), WakeCondition::AnyEvent));
        }
        let call = (self.make)(self.number)?;
        let slot = workers[self.seed.choice(self.number as i64, workers.len())];
        self.number += 1;
        self.in_flight.push(context.workers.of(slot).process);
        Ok(Step::Ready(slot, call))
    }

    fn update(&mut self, _: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        let mut in_flight = self.in_flight.iter();
        let Some(at) = in_flight.position(|process| *process == event.process) else {
            return Ok(false);
        };
        self.in_flight.remove(at);
        self.due_ns = event.time_ns + self.pause_ns;
        Ok(true)
    }

    fn listens(&self) -> bool {
        true
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}
