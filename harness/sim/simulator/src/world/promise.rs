//! What tasks wait for: an answer that comes once, and a turn.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::world::process::{Task, Turn};
use crate::world::World;

/// A value that one task may wait for.
pub struct Promise<T>(Rc<Promised<T>>);

struct Promised<T> {
    done: Cell<bool>,
    value: Cell<Option<T>>,
    /// It may have ceased to wait.
    waiting: Cell<Option<(Rc<Task>, Turn)>>,
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
            value: Cell::new(None),
            waiting: Cell::new(None),
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
        if self.0.done.replace(true) {
            return;
        }
        self.0.value.set(Some(value));
        if let Some((task, turn)) = self.0.waiting.take() {
            world.end_wait(task, turn);
        }
    }

    pub(super) fn register(&self, task: Rc<Task>) -> Turn {
        let turn = task.turn();
        self.0.waiting.set(Some((task, turn)));
        turn
    }

    /// Once only.
    pub(super) fn take(&self) -> T {
        self.0.value.take().expect("a value is taken once")
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
        assert!(self.0.held.get(), "a lock is released by who holds it");
        let next = self.0.waiting.borrow_mut().pop_front();
        self.0.held.set(next.is_some());
        if let Some(turn) = next {
            turn.set(&self.0.world, ());
        }
    }
}
