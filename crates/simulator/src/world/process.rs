//! Models the lives of servers and the tasks that run in them.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::rc::Rc;

use crate::world::{Action, Ns};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    /// It has no CPU time.
    Throttled,
    Paused,
    Over,
}

/// One life of a server. What it has scheduled ends with it and is deferred while it is paused.
pub struct Process {
    state: Cell<State>,
    /// The speed of its clock.
    rate: Cell<f64>,
    /// The events that were due while the process did not run.
    deferred: RefCell<Vec<Action>>,
    tasks: RefCell<Vec<Rc<Task>>>,
}

impl Process {
    pub fn new() -> Rc<Process> {
        Rc::new(Process {
            state: Cell::new(State::Runs),
            rate: Cell::new(1.0),
            deferred: RefCell::default(),
            tasks: RefCell::default(),
        })
    }

    pub fn alive(&self) -> bool {
        self.state.get() != State::Over
    }

    pub fn paused(&self) -> bool {
        self.state.get() == State::Paused
    }

    /// Whether the process is alive, not paused, and has CPU time.
    pub(super) fn runs(&self) -> bool {
        self.state.get() == State::Runs
    }

    pub(super) fn pause(&self) {
        if self.alive() {
            self.state.set(State::Paused);
        }
    }

    /// Resumes the process and returns the deferred actions.
    pub(super) fn resume(&self) -> Vec<Action> {
        self.leave(State::Paused)
    }

    pub(super) fn throttle(&self) {
        if self.runs() {
            self.state.set(State::Throttled);
        }
    }

    /// Gives the process CPU time and returns the deferred actions, unless it is paused.
    pub(super) fn unthrottle(&self) -> Vec<Action> {
        self.leave(State::Throttled)
    }

    /// Lets the process run if it is in this state, and returns the deferred actions.
    fn leave(&self, state: State) -> Vec<Action> {
        if self.state.get() != state {
            let waits = matches!(self.state.get(), State::Throttled | State::Paused);
            let nothing = waits || self.deferred.borrow().is_empty();
            assert!(nothing, "only a process that waits has deferred actions");
            return Vec::new();
        }
        self.state.set(State::Runs);
        self.deferred.take()
    }

    /// Sets the speed of the process's clock.
    pub fn set_rate(&self, rate: f64) {
        assert!(rate > 0.0, "clocks go forward");
        self.rate.set(rate);
    }

    /// Returns how long a wait takes that is this long by the process's clock.
    pub fn timer_ns(&self, ns: Ns) -> Ns {
        match self.rate.get() {
            1.0 => ns,
            rate => (ns as f64 / rate) as Ns,
        }
    }

    /// Returns how long something took by the process's clock.
    pub fn shown_ns(&self, ns: Ns) -> Ns {
        match self.rate.get() {
            1.0 => ns,
            rate => (ns as f64 * rate) as Ns,
        }
    }

    /// Defers an action that is due while the process does not run.
    pub(super) fn defer(&self, act: Action) {
        assert!(!self.runs(), "a running process defers nothing");
        if self.alive() {
            self.deferred.borrow_mut().push(act);
        }
    }

    pub(super) fn end(&self) {
        assert!(self.alive(), "a process ends once");
        self.state.set(State::Over);
        self.deferred.take();
        for task in self.tasks.take() {
            // A task that runs goes on until it waits.
            drop(task.work.take());
        }
    }
}

pub(super) type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Identifies one wait of a task.
pub(super) type Turn = NonZeroU64;

/// A task, which runs until it waits.
pub struct Task {
    pub(super) of: Option<Rc<Process>>,
    /// The index among the tasks of its process.
    place: Cell<usize>,
    /// `None` while the task runs and after it has ended.
    pub(super) work: Cell<Option<Work>>,
    turn: Cell<Turn>,
}

impl Task {
    pub(super) fn new(of: Option<&Rc<Process>>, work: Work) -> Rc<Task> {
        let task = Rc::new(Task {
            of: of.cloned(),
            place: Cell::new(0),
            work: Cell::new(Some(work)),
            turn: Cell::new(Turn::MIN),
        });
        if let Some(of) = of {
            let mut tasks = of.tasks.borrow_mut();
            task.place.set(tasks.len());
            tasks.push(task.clone());
        }
        task
    }

    /// Ends the task: its process forgets it.
    pub(super) fn end(self: &Rc<Task>) {
        let Some(of) = &self.of else {
            return;
        };
        let (mut tasks, place) = (of.tasks.borrow_mut(), self.place.get());
        if tasks.get(place).is_some_and(|task| Rc::ptr_eq(task, self)) {
            let ended = tasks.swap_remove(place);
            assert!(
                ended.work.take().is_none(),
                "a task that has ended does not resume"
            );
            if let Some(moved) = tasks.get(place) {
                moved.place.set(place);
            }
        }
    }

    /// Returns how long a wait takes that is this long by the clock of the task's process.
    pub(super) fn timer_ns(&self, ns: Ns) -> Ns {
        self.of.as_ref().map_or(ns, |of| of.timer_ns(ns))
    }

    /// Begins or ends a wait.
    pub(super) fn turn(&self) -> Turn {
        self.turn.set(self.turn.get().saturating_add(1));
        self.turn.get()
    }

    /// Whether this wait has not ended.
    pub(super) fn waits(&self, turn: Turn) -> bool {
        self.turn.get() == turn
    }
}
