//! Virtual time: events in order, tasks that wait, processes that are paused and killed.
//!
//! Nothing here is concurrent. A task is a future: it runs until it waits, and then the next event
//! does. Events of one time come in the order in which they were made, so that one seed is one run.
//!
//! Whoever runs the world has events and tasks of its own. They are known by numbers, and `step`
//! gives back the number of the one whose time has come.

mod events;
mod promise;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustc_hash::FxHashMap;

use crate::seed::{scaled, Seed};

use events::Events;
pub use promise::{Guard, Lock, Promise};
use promise::{Turn, Waited};

/// Nanoseconds of virtual time.
pub type Ns = i64;

pub const MS: Ns = 1_000_000;
pub const SECOND: Ns = 1_000_000_000;

/// Of idle events, before they are taken out.
const MANY: usize = 32;

/// What was waited for did not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

/// What an event does.
pub enum Act {
    /// Calls something, which must not wait.
    Call(Box<dyn FnOnce()>),
    /// A task goes on.
    Resume(Rc<Task>),
    /// The time of a wait is over, if it still goes on.
    TimeOut(Rc<dyn Waited>, Turn),
    /// Something of the caller's is due: its number, and whether it is a task.
    Due(u64, bool),
}

impl Act {
    /// A call.
    pub fn call(act: impl FnOnce() + 'static) -> Act {
        Act::Call(Box::new(act))
    }
}

/// One life of a server: what it has scheduled ends with it and stands still with it.
pub struct Process {
    alive: Cell<bool>,
    paused: Cell<bool>,
    /// What would have happened while it was paused.
    deferred: RefCell<Vec<Act>>,
    tasks: RefCell<FxHashMap<u64, Rc<Task>>>,
}

impl Process {
    pub fn new() -> Rc<Process> {
        Rc::new(Process {
            alive: Cell::new(true),
            paused: Cell::new(false),
            deferred: RefCell::default(),
            tasks: RefCell::default(),
        })
    }

    pub fn alive(&self) -> bool {
        self.alive.get()
    }

    pub fn paused(&self) -> bool {
        self.paused.get()
    }
}

/// Something that runs until it waits.
pub struct Task {
    number: u64,
    of: Option<Rc<Process>>,
    /// None when it is over.
    work: RefCell<Option<Pin<Box<dyn Future<Output = ()>>>>>,
}

/// What an event may have to pass when its time has come.
pub trait Gate {
    /// Not before this.
    fn opens_ns(&self) -> Ns;
    /// Keeps an event whose time came too early.
    fn hold(&self, of: Option<Rc<Process>>, act: Act);
}

struct Event {
    of: Option<Rc<Process>>,
    gate: Option<Rc<dyn Gate>>,
    act: Act,
}

impl Event {
    /// It does nothing when its time comes: nobody waits any more.
    fn is_idle(&self) -> bool {
        matches!(&self.act, Act::TimeOut(promise, turn) if !promise.waits(*turn))
    }
}

/// The events to come, and the time.
pub struct World {
    now_ns: Cell<Ns>,
    events: Cell<u64>,
    seed: Seed,
    drawn: Cell<u64>,
    /// How many tasks there were.
    tasks: Cell<u64>,
    coming: RefCell<Events<Event>>,
    /// So many waits have ended before their time was over, and their events may be still to come.
    idle: Cell<usize>,
    /// The task that runs.
    current: RefCell<Option<Rc<Task>>>,
    /// Whether a task of the caller's runs.
    outer: Cell<bool>,
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
            tasks: Cell::new(0),
            coming: RefCell::default(),
            idle: Cell::new(0),
            current: RefCell::default(),
            outer: Cell::new(false),
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

    fn push(&self, time_ns: Ns, of: Option<Rc<Process>>, gate: Option<Rc<dyn Gate>>, act: Act) {
        let event = Event { of, gate, act };
        self.coming.borrow_mut().push(time_ns, event);
    }

    /// Acts then, in the life of the process `of`.
    pub fn after(&self, delay_ns: Ns, of: Option<&Rc<Process>>, act: Act) {
        self.push(self.now_ns() + delay_ns, of.cloned(), None, act);
    }

    /// A task goes on then.
    fn resume_after(&self, delay_ns: Ns, task: Rc<Task>) {
        let of = task.of.clone();
        self.push(self.now_ns() + delay_ns, of, None, Act::Resume(task));
    }

    /// Acts at that time, unless the gate holds it then.
    pub fn through(&self, gate: Rc<dyn Gate>, time_ns: Ns, of: Option<Rc<Process>>, act: Act) {
        self.push(time_ns, of, Some(gate), act);
    }

    fn task(&self, of: Option<&Rc<Process>>, work: impl Future<Output = ()> + 'static) -> Rc<Task> {
        let number = self.tasks.get();
        self.tasks.set(number + 1);
        let task = Rc::new(Task {
            number,
            of: of.cloned(),
            work: RefCell::new(Some(Box::pin(work))),
        });
        if let Some(of) = of {
            of.tasks.borrow_mut().insert(number, task.clone());
        }
        task
    }

    /// Starts a task at this time, after what is due already.
    pub fn spawn(&self, of: Option<&Rc<Process>>, work: impl Future<Output = ()> + 'static) {
        let task = self.task(of, work);
        self.after(0, of, Act::Resume(task));
    }

    /// Starts a task of no process at once, for the caller. Only outside of tasks of this world.
    pub fn begin(&self, work: impl Future<Output = ()> + 'static) {
        let task = self.task(None, work);
        self.resume(task);
    }

    /// A task of no process, which the caller lets go on: to begin, and after each `rest`.
    pub fn kept(&self, work: impl Future<Output = ()> + 'static) -> Rc<Task> {
        self.task(None, work)
    }

    /// A task that is kept goes on at once. Only outside of tasks of this world.
    pub fn go_on(&self, task: &Rc<Task>) {
        self.resume(task.clone());
    }

    fn resume(&self, task: Rc<Task>) {
        let mut work = task.work.borrow_mut();
        let Some(running) = &mut *work else {
            return;
        };
        let outside = self.current.replace(Some(task.clone()));
        assert!(outside.is_none(), "a task cannot run in another");
        let polled = running
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        self.current.replace(None);
        if polled.is_ready() {
            if let Some(of) = &task.of {
                of.tasks.borrow_mut().remove(&task.number);
            }
            *work = None;
        }
    }

    /// A task goes on: at once, where it may.
    fn wake(&self, task: Rc<Task>) {
        let may = task.of.as_ref().is_none_or(|of| of.alive() && !of.paused());
        if may && !self.outer.get() && self.current.borrow().is_none() {
            self.resume(task);
        } else {
            self.resume_after(0, task);
        }
    }

    /// The number of what is due next of the caller's; None: nothing until then, which is now.
    /// Whether it is a task is known until the next call.
    pub fn step(&self, until_ns: Ns) -> Option<u64> {
        self.outer.set(false);
        loop {
            if let Some((number, task)) = self.due.borrow_mut().pop_front() {
                self.outer.set(task);
                return Some(number);
            }
            let next = self.coming.borrow_mut().pop(until_ns);
            let Some((time_ns, event)) = next else {
                self.now_ns.set(self.now_ns().max(until_ns));
                return None;
            };
            self.happen(time_ns, event);
        }
    }

    /// None of the caller's tasks runs any more.
    pub fn outside(&self) {
        self.outer.set(false);
    }

    fn happen(&self, time_ns: Ns, event: Event) {
        self.now_ns.set(time_ns);
        if let Some(gate) = event.gate {
            if time_ns < gate.opens_ns() {
                return gate.hold(event.of, event.act);
            }
        }
        if let Some(of) = &event.of {
            if !of.alive() {
                return;
            }
            if of.paused() {
                return of.deferred.borrow_mut().push(event.act);
            }
        }
        self.events.set(self.events() + 1);
        match event.act {
            Act::Call(act) => act(),
            Act::Resume(task) => self.resume(task),
            Act::TimeOut(promise, turn) => promise.time_out(self, turn),
            Act::Due(number, task) => self.due.borrow_mut().push_back((number, task)),
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
        let current = self.current.borrow();
        current.as_ref().expect("only a task waits").clone()
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
    pub async fn wait<T: 'static>(&self, promise: &Promise<T>) -> T {
        if !promise.is_done() {
            promise.register(self.running());
            Pause(false).await;
        }
        promise.take()
    }

    /// The value, unless the time is over before it comes.
    pub async fn wait_for<T: 'static>(
        &self,
        promise: &Promise<T>,
        timeout_ns: Ns,
    ) -> Result<T, TimedOut> {
        if !promise.is_done() {
            let task = self.running();
            let of = task.of.clone();
            let turn = promise.register(task);
            self.after(timeout_ns, of.as_ref(), promise.time_out_of(turn));
            Pause(false).await;
            if promise.is_done() {
                self.ended_in_time();
            }
        }
        if promise.is_done() {
            Ok(promise.take())
        } else {
            Err(TimedOut)
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
        process.alive.set(false);
        process.deferred.take();
        for task in process.tasks.take().into_values() {
            // One that runs goes on until it waits.
            let work = task.work.try_borrow_mut();
            let work = work.ok().and_then(|mut work| work.take());
            drop(work);
        }
    }

    /// What it would do is put off.
    pub fn pause(&self, process: &Process) {
        process.paused.set(true);
    }

    /// What was put off is done now, in its order.
    pub fn resume_process(&self, process: &Rc<Process>) {
        if process.paused() && process.alive() {
            process.paused.set(false);
            for act in process.deferred.take() {
                self.after(0, Some(process), act);
            }
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
