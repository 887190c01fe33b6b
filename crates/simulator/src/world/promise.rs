//! Defines what tasks wait for: a value that arrives once, and a lock.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::world::process::{Task, Turn};
use crate::world::World;

/// A value for which one task may wait.
pub struct Promise<T>(Rc<Promised<T>>);

struct Promised<T> {
    done: Cell<bool>,
    value: Cell<Option<T>>,
    /// The task that waits; its wait may have ended.
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

    /// Prepares the promise for another value after its value was taken.
    pub fn renew(&self) {
        let done = self.0.done.replace(false);
        assert!(done, "only a fulfilled promise is renewed");
    }

    /// Whether both are the same promise.
    pub fn is(&self, other: &Promise<T>) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Sets the value, unless it has one already.
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
        let before = self.0.waiting.replace(Some((task, turn)));
        let left = before.is_none_or(|(other, turn)| !other.waits(turn));
        assert!(left, "at most one task waits for a promise");
        turn
    }

    /// Takes the value, which may be done once.
    pub(super) fn take(&self) -> T {
        self.0.value.take().expect("a value is taken once")
    }
}

/// A lock for one task at a time, in the order of requests.
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

    /// Acquires the lock until the guard is dropped.
    pub async fn hold(&self) -> Guard<'_> {
        if self.held.get() {
            let turn = Promise::new();
            self.waiting.borrow_mut().push_back(turn.clone());
            self.world.wait(&turn).await;
            assert!(
                self.held.get(),
                "a lock is handed over without being free in between"
            );
        }
        self.held.set(true);
        Guard(self)
    }
}

/// A lock that is held.
pub struct Guard<'a>(&'a Lock);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        assert!(self.0.held.get(), "only the holder releases a lock");
        let next = self.0.waiting.borrow_mut().pop_front();
        self.0.held.set(next.is_some());
        if let Some(turn) = next {
            turn.set(&self.0.world, ());
        }
    }
}
