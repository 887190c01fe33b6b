//! Queues parts that could not be fetched for the part check.

use std::cell::RefCell;
use std::rc::Rc;

use crate::table::parts::{Info, Ordered};
use crate::world::{Promise, World};

/// The parts of one replica's table that are still to be checked.
pub struct Missing {
    world: Rc<World>,
    parts: RefCell<Ordered<Info, ()>>,
    more: RefCell<Promise<()>>,
}

impl Missing {
    pub fn new(world: &Rc<World>) -> Missing {
        Missing {
            world: world.clone(),
            parts: RefCell::default(),
            more: RefCell::new(Promise::new()),
        }
    }

    pub fn len(&self) -> usize {
        self.parts.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.borrow().is_empty()
    }

    /// Adds a part, which is checked as soon as possible.
    pub fn add(&self, part: &Info) {
        self.parts.borrow_mut().insert(part.clone(), ());
        let more = self.more.borrow().clone();
        more.set(&self.world, ());
    }

    /// Returns the part that was added first; waits if there is none, also where the one that ended
    /// the wait was cancelled at once.
    pub async fn first(&self) -> Info {
        loop {
            let first = self.parts.borrow().first().map(|(part, ())| part.clone());
            if let Some(part) = first {
                return part;
            }
            let more = Promise::new();
            self.more.replace(more.clone());
            self.world.wait(&more).await;
        }
    }

    /// Whether a part is still to be checked.
    pub fn has(&self, part: &Info) -> bool {
        self.parts.borrow().contains_key(part)
    }

    /// Removes the parts of a range, which is dropped.
    pub fn cancel(&self, range: &Info) {
        self.parts
            .borrow_mut()
            .retain(|part, ()| !range.contains(part));
    }

    /// Removes a part that was checked.
    pub fn remove(&self, part: &Info) {
        let known = self.parts.borrow_mut().shift_remove(part);
        assert!(known.is_some(), "a part is checked once");
    }
}
