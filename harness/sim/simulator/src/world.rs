//! Virtual time: events in order, tasks that wait, processes that are paused and killed.
//!
//! Nothing here is concurrent. A task is a future: it runs until it waits, and then the next event
//! does. Events of one time come in the order in which they were made, so that one seed is one run.
//!
//! Whoever runs the world has events and tasks of its own. They are known by numbers, and `step`
//! gives back the number of the one whose time has come.

mod act;
mod events;
mod gate;
mod process;
mod promise;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::seed::{scaled, Seed};

pub use act::Act;
use act::Does;
use events::{Events, Number};
pub use gate::Gate;
use process::Turn;
pub use process::{Process, Task};
pub use promise::{Guard, Lock, Promise};

/// Nanoseconds of virtual time.
pub type Ns = i64;

pub const MS: Ns = 1_000_000;
pub const SECOND: Ns = 1_000_000_000;

/// Of idle events, before they are taken out.
const MANY: usize = 32;

/// What was waited for did not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

#[derive(Default)]
struct Event {
    /// In whose life.
    of: Option<Rc<Process>>,
    act: Option<Act>,
}

impl Event {
    /// It does nothing when its time comes.
    fn is_idle(&self) -> bool {
        self.act.as_ref().is_some_and(Act::is_idle)
    }
}

/// An event to come, which does nothing yet.
#[must_use]
pub struct Coming(Number);

/// A task goes on.
struct Resume(Rc<Task>);

impl Does for Resume {
    fn run(self, world: &World) {
        world.resume(self.0);
    }
}

/// A task goes on if that wait still does.
struct EndWait(Rc<Task>, Turn);

impl Does for EndWait {
    fn run(self, world: &World) {
        world.end_wait(self.0, self.1);
    }

    fn is_idle(&self) -> bool {
        !self.0.waits(self.1)
    }
}

/// The events to come, and the time.
pub struct World {
    now_ns: Cell<Ns>,
    events: Cell<u64>,
    seed: Seed,
    drawn: Cell<u64>,
    coming: RefCell<Events<Event>>,
    /// So many waits have ended before their time was over, and their events may be still to come.
    idle: Cell<usize>,
    /// By number, from 1 on.
    gates: RefCell<Vec<Rc<Gate>>>,
    /// The task that runs.
    current: Cell<Option<Rc<Task>>>,
    /// Whether a task runs, one of the caller's perhaps.
    busy: Cell<bool>,
    /// What is due of the caller's.
    due: RefCell<VecDeque<(u64, bool)>>,
}

impl World {
    pub fn new(seed: Seed) -> Rc<World> {
        Rc::new(World {
            now_ns: Cell::new(0),
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

    /// How many have happened.
    pub fn events(&self) -> u64 {
        self.events.get()
    }

    // --- chance ---------------------------------------------------------------------------------

    fn draw(&self) -> u64 {
        let counter = self.drawn.get();
        self.drawn.set(counter + 1);
        self.seed.draw(counter)
    }

    /// The next draw, uniform in [0, bound).
    pub fn below(&self, bound: u64) -> u64 {
        scaled(self.draw(), bound)
    }

    /// A duration: the given one as the median, half of it at least, seldom ten times it.
    pub fn around(&self, ns: Ns) -> Ns {
        let draw = scaled(self.draw(), 1000) as Ns;
        if draw >= 990 {
            ns * (2 + (draw - 990))
        } else {
            ns / 2 + ns * draw / 1000
        }
    }

    /// In an order drawn by chance.
    pub fn shuffled<T>(&self, mut items: Vec<T>) -> Vec<T> {
        Seed(self.draw()).shuffle(&mut items);
        items
    }

    // --- events ---------------------------------------------------------------------------------

    /// One that events may have to pass.
    pub fn gate(&self) -> Rc<Gate> {
        let mut gates = self.gates.borrow_mut();
        let gate = Rc::new(Gate::new(gates.len() as u32 + 1));
        gates.push(gate.clone());
        gate
    }

    /// `gate`: its number; 0: none.
    #[inline(always)]
    fn event(&self, time_ns: Ns, of: Option<&Rc<Process>>, gate: u32) -> Coming {
        let slot = self.coming.borrow_mut().add(time_ns, gate, |event| {
            // A free one has nothing that would have to be dropped.
            mem::forget(mem::replace(&mut event.of, of.cloned()));
        });
        Coming(slot)
    }

    /// Writes what the event does to where it is kept.
    #[inline(always)]
    pub fn does(&self, Coming(slot): Coming, act: Act) {
        let mut coming = self.coming.borrow_mut();
        mem::forget(coming.at(slot).act.replace(act));
    }

    /// Then, in the life of the process `of`.
    #[inline(never)]
    pub fn later(&self, delay_ns: Ns, of: Option<&Rc<Process>>) -> Coming {
        assert!(delay_ns >= 0, "nothing is done earlier than now");
        self.event(self.now_ns() + delay_ns, of, 0)
    }

    /// At that time, unless the gate holds it then.
    #[inline(always)]
    pub fn through(&self, gate: &Gate, time_ns: Ns, of: Option<&Rc<Process>>) -> Coming {
        self.event(time_ns, of, gate.number)
    }

    /// Acts then, in the life of the process `of`.
    #[inline(always)]
    pub fn after(&self, delay_ns: Ns, of: Option<&Rc<Process>>, act: Act) {
        self.does(self.later(delay_ns, of), act);
    }

    /// A task goes on then.
    #[inline(never)]
    fn resume_after(&self, delay_ns: Ns, task: Rc<Task>) {
        let event = self.event(self.now_ns() + delay_ns, task.of.as_ref(), 0);
        self.does(event, Act::new(Resume(task)));
    }

    /// Starts a task at this time, after what is due already.
    pub fn spawn(&self, of: Option<&Rc<Process>>, work: impl Future<Output = ()> + 'static) {
        self.resume_after(0, Task::new(of, Box::pin(work)));
    }

    /// Starts a task of no process at once, for the caller. Only outside of tasks of this world.
    pub fn begin(&self, work: impl Future<Output = ()> + 'static) {
        self.resume(Task::new(None, Box::pin(work)));
    }

    /// A task of no process, which the caller lets go on: to begin, and after each `rest`.
    pub fn kept(&self, work: impl Future<Output = ()> + 'static) -> Rc<Task> {
        Task::new(None, Box::pin(work))
    }

    /// A task that is kept goes on at once. Only outside of tasks of this world.
    pub fn go_on(&self, task: &Rc<Task>) {
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

    /// A task goes on: at once, where it may.
    fn wake(&self, task: Rc<Task>) {
        let may = task.of.as_ref().is_none_or(|of| of.runs());
        if may && !self.busy.get() {
            self.resume(task);
        } else {
            self.resume_after(0, task);
        }
    }

    /// The number of what is due next of the caller's; None: nothing until then, which is now.
    /// Whether it is a task is known until the next call.
    pub fn step(&self, until_ns: Ns) -> Option<u64> {
        self.busy.set(false);
        while self.due.borrow().is_empty() {
            if !self.happen(until_ns) {
                self.now_ns.set(self.now_ns().max(until_ns));
                return None;
            }
        }
        let (number, task) = self.due.borrow_mut().pop_front()?;
        self.busy.set(task);
        Some(number)
    }

    /// Whether what the caller would have due after no time may happen at once instead, for nothing
    /// else is left of this time. It is an event all the same.
    pub fn at_once(&self) -> bool {
        let last = self.due.borrow().is_empty() && !self.coming.borrow().any_at(self.now_ns());
        self.events.set(self.events() + u64::from(last));
        last
    }

    /// None of the caller's tasks runs any more.
    pub fn outside(&self) {
        self.busy.set(false);
    }

    /// The next event, if it comes until then.
    #[inline(always)]
    fn happen(&self, until_ns: Ns) -> bool {
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
            self.put_off(of, held.then_some(gate), act);
        } else {
            drop(of);
            self.events.set(self.events() + 1);
            act.run(self);
        }
        true
    }

    /// Keeps what came too early: until its gate is opened, or until that time; or until its
    /// process runs again, if it does.
    #[cold]
    #[inline(never)]
    fn put_off(&self, of: Option<Rc<Process>>, held_by: Option<u32>, act: Act) {
        let held_by = held_by.map(|gate| self.gates.borrow()[gate as usize - 1].clone());
        match (held_by, of) {
            (Some(gate), of) if gate.is_shut() => gate.hold(of, act),
            (Some(gate), of) => {
                self.does(self.through(&gate, gate.opens_ns(), of.as_ref()), act);
            }
            (None, Some(of)) => of.defer(act),
            (None, None) => unreachable!("nothing holds it"),
        }
    }

    /// Something of the caller's is due.
    pub fn hand_out(&self, number: u64, task: bool) {
        self.due.borrow_mut().push_back((number, task));
    }

    /// Forgets everything that was to come.
    pub fn clear(&self) {
        self.coming.take();
    }

    // --- waiting --------------------------------------------------------------------------------

    fn running(&self) -> Rc<Task> {
        let current = self.current.take();
        self.current.set(current.clone());
        current.expect("only a task waits")
    }

    /// Waits until the caller, who keeps the task, lets it go on.
    pub async fn rest(&self) {
        Pause(false).await;
    }

    /// Waits so long.
    pub async fn sleep(&self, ns: Ns) {
        self.resume_after(ns, self.running());
        Pause(false).await;
    }

    /// The value, when it has come.
    pub fn wait<'a, T>(&'a self, promise: &'a Promise<T>) -> impl Future<Output = T> + 'a {
        poll_fn(|_| self.poll(promise))
    }

    /// The value if it has come; if not, the task that runs goes on when it has.
    pub fn poll<T>(&self, promise: &Promise<T>) -> Poll<T> {
        if promise.is_done() {
            return Poll::Ready(promise.take());
        }
        promise.register(self.running());
        Poll::Pending
    }

    /// The value, unless the time is over before it comes.
    pub async fn wait_for<T>(&self, promise: &Promise<T>, timeout_ns: Ns) -> Result<T, TimedOut> {
        if !promise.is_done() {
            let task = self.running();
            let turn = promise.register(task.clone());
            let event = self.later(timeout_ns, task.of.as_ref());
            self.does(event, Act::new(EndWait(task, turn)));
            Pause(false).await;
            if !promise.is_done() {
                return Err(TimedOut);
            }
            self.ended_in_time();
        }
        Ok(promise.take())
    }

    /// Ends that wait, if it still goes on.
    fn end_wait(&self, task: Rc<Task>, turn: Turn) {
        if task.waits(turn) {
            task.turn();
            self.wake(task);
        }
    }

    /// Takes idle events out when they may be half of all.
    fn ended_in_time(&self) {
        self.idle.set(self.idle.get() + 1);
        let mut coming = self.coming.borrow_mut();
        if self.idle.get() > MANY.max(coming.len() / 2) {
            coming.retain(|event| !event.is_idle());
            self.idle.set(0);
        }
    }

    // --- processes ------------------------------------------------------------------------------

    /// Ends it: its tasks and everything that it has scheduled.
    pub fn kill(&self, process: &Process) {
        process.end();
    }

    /// What it would do is put off.
    pub fn pause(&self, process: &Process) {
        process.pause();
    }

    /// What was put off is done now, in its order.
    pub fn resume_process(&self, process: &Rc<Process>) {
        for act in process.resume() {
            self.after(0, Some(process), act);
        }
    }
}

/// Waits once: whoever wakes the task has its reason.
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
