//! Simulates an object store: one server that keeps objects by key, and whose links can be cut.
//!
//! A request concerns all objects of one or more parts. It takes effect when it arrives, and its
//! answer may be lost afterwards. Requests over one link keep their order, as those of one
//! connection do.

use std::cell::RefCell;
use std::rc::Rc;

use crate::network::Node;
use crate::table::parts::Ordered;
use crate::world::Process;

/// The objects that survive a restart: sizes by key, in the order in which they were written.
pub type Objects = Rc<RefCell<Ordered<Rc<str>, i64>>>;

/// What a replica wants done.
pub enum Request {
    /// Writes objects of these sizes.
    Put(Vec<(Rc<str>, i64)>),
    /// Looks whether every object exists.
    Find(Vec<Rc<str>>),
    /// Deletes objects, also those that do not exist.
    Delete(Vec<Rc<str>>),
}

/// One life of the store.
pub struct ObjectStore {
    pub node: Node,
    pub process: Rc<Process>,
    objects: Objects,
}

impl ObjectStore {
    /// Return a life with these objects.
    pub fn new(node: Node, objects: &Objects) -> Rc<ObjectStore> {
        Rc::new(ObjectStore {
            node,
            process: Process::new(),
            objects: objects.clone(),
        })
    }

    /// Executes a request; returns the first object that was to be found and does not exist.
    pub fn execute(&self, request: Request) -> Option<Rc<str>> {
        assert!(self.process.alive(), "a store that ended executes nothing");
        let mut objects = self.objects.borrow_mut();
        match request {
            Request::Put(new) => {
                for (key, size) in new {
                    assert!(size > 0, "an object has bytes");
                    let before = objects.insert(key, size);
                    assert!(before.is_none(), "keys are random");
                }
            }
            Request::Find(keys) => {
                let mut keys = keys.into_iter();
                return keys.find(|key| !objects.contains_key(key));
            }
            Request::Delete(keys) => {
                for key in keys {
                    objects.shift_remove(&key);
                    assert!(!objects.contains_key(&key), "a deleted object is gone");
                }
            }
        }
        None
    }
}
