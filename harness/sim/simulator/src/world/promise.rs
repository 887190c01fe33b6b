//! What tasks wait for: an answer that comes once, and a turn.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::world::{Act, Task, World};

/// A value that one task may wait for.
pub struct Promise<T>(Rc<Promised<T>>);

struct Promised<T> {
    done: Cell<bool>,
    value: RefCell<Option<T>>,
    waiting: RefCell<Option<Rc<Task>>>,
    /// How many waits there were.
    turn: Cell<Turn>,
}

/// Which wait for a promise it is.
pub type Turn = u64;

/// A promise, of whatever.
pub trait Waited {
    /// Whether that wait still goes on.
    fn waits(&self, turn: Turn) -> bool;
    /// Ends that wait, if it still goes on.
    fn time_out(&self, world: &World, turn: Turn);
}

impl<T> Waited for Promised<T> {
    fn waits(&self, turn: Turn) -> bool {
        turn == self.turn.get() && self.waiting.borrow().is_some()
    }

    fn time_out(&self, world: &World, turn: Turn) {
        if turn == self.turn.get() {
            self.wake(world);
        }
    }
}

impl<T> Promised<T> {
    fn wake(&self, world: &World) {
        let waiting = self.waiting.borrow_mut().take();
        if let Some(task) = waiting {
            world.wake(task);
        }
    }
}

impl<T> Clone for Promise<T> {
    fn clone(&self) -> Promise<T> {
        Promise(self.0.clone())
    }
}

impl<T> Default for Promise<T> {
    fn default() -> Promise<T> {
        Promise::new()
    }
}

impl<T> Promise<T> {
    pub fn new() -> Promise<T> {
        Promise(Rc::new(Promised {
            done: Cell::new(false),
            value: RefCell::new(None),
            waiting: RefCell::new(None),
            turn: Cell::new(0),
        }))
    }

    pub fn is_done(&self) -> bool {
        self.0.done.get()
    }

    /// Its value has been taken: there may be another.
    pub fn renew(&self) {
        self.0.done.set(false);
    }

    /// Whether both are the same.
    pub fn is(&self, other: &Promise<T>) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The first value counts.
    pub fn set(&self, world: &World, value: T) {
        if !self.0.done.replace(true) {
            *self.0.value.borrow_mut() = Some(value);
            self.0.wake(world);
        }
    }

    pub(super) fn register(&self, task: Rc<Task>) -> Turn {
        self.0.turn.set(self.0.turn.get() + 1);
        *self.0.waiting.borrow_mut() = Some(task);
        self.0.turn.get()
    }

    /// What happens when that wait has taken too long.
    pub(super) fn time_out_of(&self, turn: Turn) -> Act
    where
        T: 'static,
    {
        Act::TimeOut(self.0.clone(), turn)
    }

    /// Once only.
    pub(super) fn take(&self) -> T {
        let value = self.0.value.borrow_mut().take();
        value.expect("a value is taken once")
    }
}

/// One task at a time, in the order in which they came.
pub struct Lock {
    world: Rc<World>,
    held: Cell<bool>,
    waiting: RefCell<VecDeque<Promise<()>>>,
}

impl Lock {
    pub fn new(world: &Rc<World>) -> Lock {
        Lock {
            world: world.clone(),
            held: Cell::new(false),
            waiting: RefCell::default(),
        }
    }

    /// Held until the guard is dropped.
    pub async fn hold(&self) -> Guard<'_> {
        if self.held.get() {
            let turn = Promise::new();
            self.waiting.borrow_mut().push_back(turn.clone());
            self.world.wait(&turn).await;
        }
        self.held.set(true);
        Guard(self)
    }
}

/// A lock that is held.
pub struct Guard<'a>(&'a Lock);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let next = self.0.waiting.borrow_mut().pop_front();
        self.0.held.set(next.is_some());
        if let Some(turn) = next {
            turn.set(&self.0.world, ());
        }
    }
}
