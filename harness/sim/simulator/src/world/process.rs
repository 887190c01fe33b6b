//! Lives of servers, and what runs in them.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::rc::Rc;

use crate::world::Act;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    Paused,
    Over,
}

/// One life of a server: what it has scheduled ends with it and stands still with it.
pub struct Process {
    state: Cell<State>,
    /// What would have happened while it was paused.
    deferred: RefCell<Vec<Act>>,
    tasks: RefCell<Vec<Rc<Task>>>,
}

impl Process {
    pub fn new() -> Rc<Process> {
        Rc::new(Process {
            state: Cell::new(State::Runs),
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

    /// Alive, and not paused.
    pub(super) fn runs(&self) -> bool {
        self.state.get() == State::Runs
    }

    pub(super) fn pause(&self) {
        if self.alive() {
            self.state.set(State::Paused);
        }
    }

    /// What was put off.
    pub(super) fn resume(&self) -> Vec<Act> {
        if self.paused() {
            self.state.set(State::Runs);
        }
        self.deferred.take()
    }

    /// Puts off what came while it does not run.
    pub(super) fn defer(&self, act: Act) {
        if self.paused() {
            self.deferred.borrow_mut().push(act);
        }
    }

    pub(super) fn end(&self) {
        self.state.set(State::Over);
        self.deferred.take();
        for task in self.tasks.take() {
            // One that runs goes on until it waits.
            drop(task.work.take());
        }
    }
}

pub(super) type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Which wait of a task it is.
pub(super) type Turn = NonZeroU64;

/// Something that runs until it waits.
pub struct Task {
    pub(super) of: Option<Rc<Process>>,
    /// Among the tasks of its process.
    place: Cell<usize>,
    /// None while it runs, and when it is over.
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

    /// It is over: its process forgets it.
    pub(super) fn end(self: &Rc<Task>) {
        let Some(of) = &self.of else {
            return;
        };
        let (mut tasks, place) = (of.tasks.borrow_mut(), self.place.get());
        if tasks.get(place).is_some_and(|task| Rc::ptr_eq(task, self)) {
            tasks.swap_remove(place);
            if let Some(moved) = tasks.get(place) {
                moved.place.set(place);
            }
        }
    }

    /// Begins a wait, or ends it.
    pub(super) fn turn(&self) -> Turn {
        self.turn.set(self.turn.get().saturating_add(1));
        self.turn.get()
    }

    /// Whether that wait still goes on.
    pub(super) fn waits(&self, turn: Turn) -> bool {
        self.turn.get() == turn
    }
}
