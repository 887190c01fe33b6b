//! Runs virtual time: events in order, tasks that wait, processes that are paused and killed.
//!
//! Nothing here is concurrent. A task is a future: it runs until it waits, and then the next event
//! runs. Events of one time run in the order in which they were scheduled, so that one seed is one
//! run.
//!
//! The caller that runs the world has events and tasks of its own. They are identified by numbers,
//! and `step` returns the number of the next one that is due.

mod action;
mod events;
mod gate;
mod machine;
mod process;
mod promise;
mod wall_clock;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustc_hash::FxHashMap;

use seed::{scaled, Seed};

pub use action::Action;
use action::Run;
use events::{Events, Number};
pub use gate::Gate;
pub use machine::{Machine, Resource};
use process::Turn;
pub use process::{Process, Task};
pub use promise::{Guard, Lock, Promise};
use wall_clock::WallClock;

/// Nanoseconds of virtual time.
pub type Ns = i64;

/// The first of the due numbers that only callers in Rust use. Python does not see them.
pub const RESERVED_NUMBERS: u64 = 1 << 63;

pub const MS: Ns = 1_000_000;
pub const SECOND: Ns = 1_000_000_000;

/// Number of idle events at which they are removed.
const IDLE_EVENTS_MIN: usize = 32;

/// The awaited value did not arrive in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

#[derive(Default)]
struct Event {
    /// The life in which the event happens.
    of: Option<Rc<Process>>,
    act: Option<Action>,
}

impl Event {
    /// Whether the event does nothing when it is due.
    fn is_idle(&self) -> bool {
        self.act.as_ref().is_some_and(Action::is_idle)
    }
}

/// A scheduled event that has no action yet.
#[must_use]
pub struct PendingEvent(Number);

/// Resumes a task.
struct Resume(Rc<Task>);

impl Run for Resume {
    fn run(self, world: &World) {
        world.resume(self.0);
    }
}

/// Resumes a task if this wait has not ended.
struct EndWait(Rc<Task>, Turn);

impl Run for EndWait {
    fn run(self, world: &World) {
        world.end_wait(self.0, self.1);
    }

    fn is_idle(&self) -> bool {
        !self.0.waits(self.1)
    }
}

/// The scheduled events, and the time.
pub struct World {
    now_ns: Cell<Ns>,
    /// Wall clocks that were ever wrong, by node.
    walls: RefCell<FxHashMap<usize, WallClock>>,
    /// Machines with which anything was ever wrong, by node.
    machines: RefCell<FxHashMap<usize, Rc<Machine>>>,
    events: Cell<u64>,
    seed: Seed,
    drawn: Cell<u64>,
    coming: RefCell<Events<Event>>,
    /// Number of waits that ended before their timeout, whose events may still be scheduled.
    idle: Cell<usize>,
    /// By number, from 1.
    gates: RefCell<Vec<Rc<Gate>>>,
    /// The running task.
    current: Cell<Option<Rc<Task>>>,
    /// Whether a task runs, possibly one of the caller's.
    busy: Cell<bool>,
    /// The caller's events and tasks that are due.
    due: RefCell<VecDeque<(u64, bool)>>,
}

impl World {
    pub fn new(seed: Seed) -> Rc<World> {
        Rc::new(World {
            now_ns: Cell::new(0),
            walls: RefCell::default(),
            machines: RefCell::default(),
            events: Cell::new(0),
            seed,
            drawn: Cell::new(0),
            coming: RefCell::default(),
            idle: Cell::new(0),
            gates: RefCell::default(),
            current: Cell::default(),
            busy: Cell::new(false),
            due: RefCell::default(),
        })
    }

    pub fn now_ns(&self) -> Ns {
        self.now_ns.get()
    }

    /// Returns the number of events that have happened.
    pub fn events(&self) -> u64 {
        self.events.get()
    }

    // --- chance ---------------------------------------------------------------------------------

    fn draw(&self) -> u64 {
        let counter = self.drawn.get();
        self.drawn.set(counter + 1);
        self.seed.draw(counter)
    }

    /// Returns the next draw, uniform in [0, bound).
    pub fn below(&self, bound: u64) -> u64 {
        scaled(self.draw(), bound)
    }

    /// Draws a duration with the median `ns`: at least half of it, seldom ten times it.
    pub fn around(&self, ns: Ns) -> Ns {
        let draw = scaled(self.draw(), 1000) as Ns;
        if draw >= 990 {
            ns * (2 + (draw - 990))
        } else {
            ns / 2 + ns * draw / 1000
        }
    }

    /// Returns the items in random order.
    pub fn shuffled<T>(&self, mut items: Vec<T>) -> Vec<T> {
        Seed(self.draw()).shuffle(&mut items);
        items
    }

    // --- events ---------------------------------------------------------------------------------

    /// Creates a gate.
    pub fn gate(&self) -> Rc<Gate> {
        let mut gates = self.gates.borrow_mut();
        let gate = Rc::new(Gate::new(gates.len() as u32 + 1));
        gates.push(gate.clone());
        gate
    }

    /// Schedules an event without an action. `gate` is a gate's number, or 0.
    #[inline(always)]
    fn event(&self, time_ns: Ns, of: Option<&Rc<Process>>, gate: u32) -> PendingEvent {
        assert!(time_ns >= self.now_ns(), "no event is in the past");
        let slot = self.coming.borrow_mut().add(time_ns, gate, |event| {
            // A free slot holds nothing that would have to be dropped.
            mem::forget(mem::replace(&mut event.of, of.cloned()));
        });
        PendingEvent(slot)
    }

    /// Sets the action of a scheduled event in place.
    #[inline(always)]
    pub fn set_action(&self, PendingEvent(slot): PendingEvent, act: Action) {
        let mut coming = self.coming.borrow_mut();
        mem::forget(coming.at(slot).act.replace(act));
    }

    /// Schedules an event after a delay, in the life of the process `of`.
    #[inline(never)]
    pub fn schedule(&self, delay_ns: Ns, of: Option<&Rc<Process>>) -> PendingEvent {
        self.event(self.now_ns() + delay_ns, of, 0)
    }

    /// Schedules an event that the gate may hold back when it is due.
    #[inline(always)]
    pub fn schedule_through(
        &self,
        gate: &Gate,
        time_ns: Ns,
        of: Option<&Rc<Process>>,
    ) -> PendingEvent {
        self.event(time_ns, of, gate.number)
    }

    /// Schedules an action after a delay, in the life of the process `of`.
    #[inline(always)]
    pub fn after(&self, delay_ns: Ns, of: Option<&Rc<Process>>, act: Action) {
        self.set_action(self.schedule(delay_ns, of), act);
    }

    /// Resumes a task after a delay.
    #[inline(never)]
    fn resume_after(&self, delay_ns: Ns, task: Rc<Task>) {
        let event = self.event(self.now_ns() + delay_ns, task.of.as_ref(), 0);
        self.set_action(event, Action::new(Resume(task)));
    }

    /// Starts a task at the current time, after everything that is due already.
    pub fn spawn(&self, of: Option<&Rc<Process>>, work: impl Future<Output = ()> + 'static) {
        self.resume_after(0, Task::new(of, Box::pin(work)));
    }

    /// Starts a task without a process at once, for the caller. Not allowed within a task of this
    /// world.
    pub fn begin(&self, work: impl Future<Output = ()> + 'static) {
        self.resume(Task::new(None, Box::pin(work)));
    }

    /// Creates a task without a process. The caller resumes it to start it, and after each
    /// `suspend`.
    pub fn create_task(&self, work: impl Future<Output = ()> + 'static) -> Rc<Task> {
        Task::new(None, Box::pin(work))
    }

    /// Resumes the caller's task at once. Not allowed within a task of this world.
    pub fn resume_task(&self, task: &Rc<Task>) {
        self.resume(task.clone());
    }

    fn resume(&self, task: Rc<Task>) {
        let Some(mut work) = task.work.take() else {
            return;
        };
        let outside = self.current.replace(Some(task));
        assert!(outside.is_none(), "a task cannot run in another");
        let busy = self.busy.replace(true);
        let polled = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.busy.set(busy);
        let task = self.current.take().expect("it runs");
        match polled {
            Poll::Pending => task.work.set(Some(work)),
            Poll::Ready(()) => task.end(),
        }
    }

    /// Resumes a task, at once if no other task runs.
    fn wake(&self, task: Rc<Task>) {
        let may = task.of.as_ref().is_none_or(|of| of.runs());
        if may && !self.busy.get() {
            self.resume(task);
        } else {
            self.resume_after(0, task);
        }
    }

    /// Returns the number of the caller's next due event or task; `None` if there is none until
    /// `until_ns`, which is then the current time. Whether it is a task is known until the next
    /// call.
    pub fn step(&self, until_ns: Ns) -> Option<u64> {
        self.busy.set(false);
        while self.due.borrow().is_empty() {
            if !self.run_next(until_ns) {
                self.now_ns.set(self.now_ns().max(until_ns));
                return None;
            }
        }
        let (number, task) = self.due.borrow_mut().pop_front()?;
        self.busy.set(task);
        Some(number)
    }

    /// Whether an event that the caller would schedule for now may happen at once instead, because
    /// nothing else of this time is left. If so, it is counted as an event.
    pub fn at_once(&self) -> bool {
        let last = self.due.borrow().is_empty() && !self.coming.borrow().any_at(self.now_ns());
        self.events.set(self.events() + u64::from(last));
        last
    }

    /// Records that none of the caller's tasks runs any more.
    pub fn outside(&self) {
        self.busy.set(false);
    }

    /// Runs the next event if it is due until then.
    #[inline(always)]
    fn run_next(&self, until_ns: Ns) -> bool {
        let mut coming = self.coming.borrow_mut();
        let Some((time_ns, gate, event)) = coming.pop(until_ns) else {
            return false;
        };
        let (of, act) = (event.of.take(), event.act.take());
        drop(coming);
        assert!(time_ns >= self.now_ns.get(), "time does not go back");
        self.now_ns.set(time_ns);
        let act = act.expect("an event does something");
        let held = gate > 0 && self.gates.borrow()[gate as usize - 1].holds(time_ns);
        if held || of.as_ref().is_some_and(|of| !of.runs()) {
            self.defer(of, held.then_some(gate), act);
        } else {
            drop(of);
            self.events.set(self.events() + 1);
            act.run(self);
        }
        true
    }

    /// Keeps an event that came too early until its gate opens or lets it pass, or until its
    /// process resumes.
    #[cold]
    #[inline(never)]
    fn defer(&self, of: Option<Rc<Process>>, held_by: Option<u32>, act: Action) {
        let held_by = held_by.map(|gate| self.gates.borrow()[gate as usize - 1].clone());
        match (held_by, of) {
            (Some(gate), of) if gate.is_shut() => gate.hold(of, act),
            (Some(gate), of) => {
                self.set_action(
                    self.schedule_through(&gate, gate.opens_ns(), of.as_ref()),
                    act,
                );
            }
            (None, Some(of)) => of.defer(act),
            (None, None) => unreachable!("an event is put off for a reason"),
        }
    }

    /// Reports an event or a task of the caller's as due.
    pub fn report_due(&self, number: u64, task: bool) {
        self.due.borrow_mut().push_back((number, task));
    }

    /// Drops all scheduled events.
    pub fn clear(&self) {
        self.coming.take();
    }

    // --- waiting --------------------------------------------------------------------------------

    fn running(&self) -> Rc<Task> {
        let current = self.current.take();
        self.current.set(current.clone());
        current.expect("only a task waits")
    }

    /// Waits until the caller resumes the task.
    pub async fn suspend(&self) {
        Pause(false).await;
    }

    /// Waits for a duration by the clock of the task's process.
    pub async fn sleep(&self, ns: Ns) {
        let task = self.running();
        self.resume_after(task.timer_ns(ns), task);
        Pause(false).await;
    }

    /// Waits while something takes its time, whatever a clock shows.
    pub async fn work(&self, ns: Ns) {
        self.resume_after(ns, self.running());
        Pause(false).await;
    }

    /// Waits for the promised value.
    pub fn wait<'a, T>(&'a self, promise: &'a Promise<T>) -> impl Future<Output = T> + 'a {
        poll_fn(|_| self.poll(promise))
    }

    /// Returns the value if it is there; otherwise the running task resumes when it is.
    pub fn poll<T>(&self, promise: &Promise<T>) -> Poll<T> {
        if promise.is_done() {
            return Poll::Ready(promise.take());
        }
        promise.register(self.running());
        Poll::Pending
    }

    /// Waits for the value until the timeout, by the clock of the task's process.
    pub async fn wait_for<T>(&self, promise: &Promise<T>, timeout_ns: Ns) -> Result<T, TimedOut> {
        if !promise.is_done() {
            let task = self.running();
            let turn = promise.register(task.clone());
            let event = self.schedule(task.timer_ns(timeout_ns), task.of.as_ref());
            self.set_action(event, Action::new(EndWait(task, turn)));
            Pause(false).await;
            if !promise.is_done() {
                return Err(TimedOut);
            }
            self.ended_in_time();
        }
        Ok(promise.take())
    }

    /// Ends the wait, if it has not ended.
    fn end_wait(&self, task: Rc<Task>, turn: Turn) {
        if task.waits(turn) {
            task.turn();
            self.wake(task);
        }
    }

    /// Counts a wait that ended in time, and removes idle events when they may be half of all.
    fn ended_in_time(&self) {
        self.idle.set(self.idle.get() + 1);
        let mut coming = self.coming.borrow_mut();
        if self.idle.get() > IDLE_EVENTS_MIN.max(coming.len() / 2) {
            coming.retain(|event| !event.is_idle());
            self.idle.set(0);
        }
    }

    // --- processes ------------------------------------------------------------------------------

    /// Kills a process: ends its tasks and drops everything that it has scheduled.
    pub fn kill(&self, process: &Process) {
        process.end();
    }

    /// Pauses a process: its events are deferred.
    pub fn pause(&self, process: &Process) {
        process.pause();
    }

    /// Resumes a process: its deferred events happen now, in their order.
    pub fn resume_process(&self, process: &Rc<Process>) {
        for act in process.resume() {
            self.after(0, Some(process), act);
        }
    }

    /// Takes the CPU from a process, unless it is paused: its events are deferred.
    pub fn throttle(&self, process: &Process) {
        process.throttle();
    }

    /// Gives the CPU back to a process. Returns whether it had something to do meanwhile.
    pub fn unthrottle(&self, process: &Rc<Process>) -> bool {
        let deferred = process.unthrottle();
        let waited = !deferred.is_empty();
        for act in deferred {
            self.after(0, Some(process), act);
        }
        waited
    }
}

/// Waits once; whatever resumes the task has its reason.
struct Pause(bool);

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
