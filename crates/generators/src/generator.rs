//! Defines what a generator is: it is asked for a step, and learns how calls end. Generators
//! change in place.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::rc::Rc;

use crate::workers::{Slot, Workers};
use crate::{Failure, Kind, Ns};

/// A call that a generator requests.
#[derive(Clone)]
pub struct Call {
    pub f: Rc<str>,
    /// The value, if it is a number.
    pub value: Option<i64>,
    pub key: Option<i64>,
    /// The node on which it must run; `None` for that of whichever worker takes it.
    pub node: Option<Rc<str>>,
    /// Whether it is a fault for the nemesis.
    pub nemesis: bool,
    /// The host's form of any other value.
    pub foreign: Option<Rc<dyn Any>>,
}

/// An error of whoever combined the generators, as opposed to one of the harness.
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Error for UsageError {}

impl UsageError {
    pub fn failure(text: String) -> Failure {
        Box::new(UsageError(text))
    }
}

/// Makes the call of a number; pure.
pub type MakeCall = Rc<dyn Fn(u64) -> Result<Call, Failure>>;
/// Makes the generator of a number; pure.
pub type MakeGenerator = Rc<dyn Fn(u64) -> Result<Box<dyn Generator>, Failure>>;

/// Returns the first free worker that may take the call; `None` if all of those are busy. Fails if
/// no worker, free or busy, could ever take it.
pub fn assign(call: &Call, context: &Context<'_>) -> Result<Option<Slot>, Failure> {
    let suits = |&slot: &Slot| match slot == context.workers.nemesis() {
        true => call.nemesis,
        false => {
            let node = call.node.as_ref();
            !call.nemesis && node.is_none_or(|node| *node == context.workers.of(slot).node)
        }
    };
    if let Some(slot) = context.free().find(suits) {
        return Ok(Some(slot));
    }
    if context.busy().any(|slot| suits(&slot)) {
        return Ok(None);
    }
    let who = match (call.nemesis, &call.node) {
        (true, _) => "the nemesis".into(),
        (false, Some(node)) => format!("a worker on {node}"),
        (false, None) => "a worker on any node".into(),
    };
    let text = format!(
        "call {}: wants {who}, and no such worker takes part; start at least one worker for each \
         node (concurrency), and give a generator the workers that it needs",
        call.f
    );
    Err(UsageError::failure(text))
}

pub enum Step {
    /// A call for a free worker, now.
    Ready(Slot, Call),
    /// No call now. Ask again at this time, or (`None`) when some call has ended.
    Pending(Option<Ns>, WakeCondition),
    Exhausted,
}

/// What may end a wait early.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeCondition {
    /// Any call that begins or ends.
    AnyEvent,
    /// A worker that becomes free. The generator has nothing for the workers that are free now, and
    /// a beginning call does not change its time.
    FreedWorker,
    /// Nothing.
    #[default]
    TimeOnly,
}

/// Combines the waits of several generators: until the earliest time.
#[derive(Default)]
pub struct Waits {
    any: bool,
    condition: WakeCondition,
    soonest_ns: Option<Ns>,
}

impl Waits {
    pub fn add(&mut self, wake_ns: Option<Ns>, condition: WakeCondition) {
        self.any = true;
        self.condition = self.condition.min(condition);
        if let Some(wake_ns) = wake_ns {
            let known_ns = self.soonest_ns.unwrap_or(wake_ns);
            self.soonest_ns = Some(known_ns.min(wake_ns));
        }
    }

    /// Whether no generator waits.
    pub fn is_empty(&self) -> bool {
        !self.any
    }

    /// Returns the combined wait, in which no generator has a call.
    pub fn step(&self) -> Step {
        match self.any {
            true => Step::Pending(self.soonest_ns, self.condition),
            false => Step::Exhausted,
        }
    }
}

/// What a generator may see.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub time_ns: Ns,
    pub workers: &'a Workers,
    /// Whether clients' workers are visible, and whether the nemesis is.
    pub clients: bool,
    pub nemesis: bool,
    /// Only clients' workers with numbers from the first up to, not including, the second are
    /// visible.
    pub numbers: (i64, i64),
    /// If given, only the workers of this node are visible.
    pub node: Option<&'a str>,
    /// The client's worker that asks, if it is free: it comes first.
    pub prefer: Option<Slot>,
    /// Processes that make no call now, as if they had one in flight.
    pub resting: Option<&'a Resting<'a>>,
}

/// Processes that rest, each until a time, and those that rest for other reasons.
pub struct Resting<'a> {
    pub processes: &'a [(i64, Ns)],
    pub others: Option<&'a Resting<'a>>,
}

impl Resting<'_> {
    fn has(&self, process: i64) -> bool {
        self.processes.iter().any(|&(own, _)| own == process)
            || self.others.is_some_and(|others| others.has(process))
    }
}

impl<'a> Context<'a> {
    /// Creates a context in which all workers are visible.
    pub fn of(time_ns: Ns, workers: &'a Workers) -> Context<'a> {
        Context {
            time_ns,
            workers,
            clients: true,
            nemesis: true,
            numbers: (i64::MIN, i64::MAX),
            node: None,
            prefer: None,
            resting: None,
        }
    }

    /// Returns the context restricted to the workers of one node.
    pub fn on(&self, node: &'a str) -> Context<'a> {
        Context {
            clients: self.clients && self.node.is_none_or(|own| own == node),
            node: Some(node),
            ..*self
        }
    }

    /// Returns the context restricted to clients' workers with numbers in this range.
    pub fn numbered(&self, from: i64, until: i64) -> Context<'a> {
        let (first, end) = self.numbers;
        Context {
            nemesis: false,
            numbers: (first.max(from), end.min(until)),
            ..*self
        }
    }

    pub fn sees(&self, slot: Slot) -> bool {
        match slot == self.workers.nemesis() {
            true => self.nemesis && self.node.is_none(),
            false => self.clients && self.is_here(slot),
        }
    }

    /// Whether a client's worker is visible, if clients are.
    fn is_here(&self, slot: Slot) -> bool {
        let worker = self.workers.of(slot);
        let (first, end) = self.numbers;
        (first..end).contains(&worker.number) && self.node.is_none_or(|node| *worker.node == *node)
    }

    fn rests(&self, slot: Slot) -> bool {
        let process = self.workers.of(slot).process;
        self.resting.is_some_and(|resting| resting.has(process))
    }

    /// Iterates over the free workers, the preferred one first.
    pub fn free(&self) -> impl Iterator<Item = Slot> + '_ {
        let (first, free) = (self.prefer, self.workers.free().iter().copied());
        let others = free.filter(move |&slot| Some(slot) != first);
        let free = first.into_iter().chain(others);
        free.filter(|&slot| self.sees(slot) && !self.rests(slot))
    }

    /// Iterates over the workers that have a call in flight or rest.
    pub fn busy(&self) -> impl Iterator<Item = Slot> + '_ {
        let busy = self.workers.busy().iter().copied();
        let free = self.workers.free().iter().copied();
        let resting = free.filter(|&slot| self.rests(slot));
        busy.chain(resting).filter(|&slot| self.sees(slot))
    }

    pub fn free_clients(&self) -> impl Iterator<Item = Slot> + '_ {
        let first = self.prefer.filter(|_| self.clients);
        let seen = match self.clients {
            true => self.workers.free_clients(),
            false => &[],
        };
        let others = seen
            .iter()
            .copied()
            .filter(move |&slot| Some(slot) != first);
        let free = first.into_iter().chain(others);
        free.filter(|&slot| self.is_here(slot) && !self.rests(slot))
    }

    /// Iterates over all workers of clients, by number.
    pub fn clients(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.workers.nemesis()).filter(|&slot| self.sees(slot))
    }
}

/// The end of a call.
pub struct Event<'a> {
    pub is_fault: bool,
    /// The nemesis is -1.
    pub process: i64,
    pub kind: Kind,
    pub f: &'a str,
    pub key: Option<i64>,
    pub node: &'a str,
    pub time_ns: Ns,
    /// Returns the operation as the host represents it.
    pub op: &'a dyn Fn() -> Result<Rc<dyn Any>, Failure>,
}

/// Says what to do next.
pub trait Generator {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure>;

    /// Learns how a call ended; returns whether that changed anything. Generators that do not
    /// listen ignore it.
    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure>;

    /// Returns the kind of generator, for error messages.
    fn name(&self) -> String {
        let path = std::any::type_name::<Self>();
        path.rsplit("::").next().unwrap_or(path).to_string()
    }

    /// Whether events matter to the generator.
    fn listens(&self) -> bool;

    /// Returns an independent copy.
    fn copied(&self) -> Box<dyn Generator>;

    /// Returns the generator without its time limit, if it is a time limit.
    fn unlimited(&self) -> Option<Box<dyn Generator>> {
        None
    }
}

impl Clone for Box<dyn Generator> {
    fn clone(&self) -> Self {
        self.copied()
    }
}
