//! Simulates an object store: one server that keeps objects by key, and whose links can be cut.
//!
//! A request concerns all objects of one or more parts. It takes effect when it arrives, and its
//! answer may be lost afterwards. Requests over one link keep their order, as those of one
//! connection do.

use std::cell::RefCell;
use std::rc::Rc;

use crate::errors::ServerError;
use crate::keeper::ensemble::Ensemble;
use crate::network::Node;
use crate::server::host::Host;
use crate::table::parts::Ordered;
use crate::world::{Ns, Process, Promise, MS, SECOND};

/// Median time of a request.
const REQUEST_NS: Ns = 2 * MS;
const TIMEOUT_NS: Ns = 5 * SECOND;
/// ClickHouse's S3_ERROR.
const S3_ERROR: i32 = 499;

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
    fn execute(&self, request: Request) -> Option<Rc<str>> {
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

/// Sends a request of a replica's server and waits for the answer. Error 499 if an object is
/// missing, or if the store does not answer.
pub async fn ask(host: &Rc<Host>, request: Request) -> Result<(), ServerError> {
    let ensemble = host.ensemble.clone();
    let store = ensemble.store.borrow().clone();
    let store = store.filter(|store| store.process.alive());
    let Some(store) = store else {
        ensemble.world.sleep(REQUEST_NS).await;
        return Err(error("Connection refused"));
    };
    let answer = Promise::new();
    let act = {
        let (ensemble, store) = (ensemble.clone(), store.clone());
        let (asker, answer) = (host.clone(), answer.clone());
        move || {
            let missing = store.execute(request);
            reply(&ensemble, &store, &asker, answer, missing);
        }
    };
    let (from, to) = (host.node, store.node);
    ensemble.network.send(from, to, Some(&store.process), act);
    match ensemble.world.wait_for(&answer, TIMEOUT_NS).await {
        Ok(None) => Ok(()),
        Ok(Some(key)) => Err(error(&format!("The specified key does not exist: {key}"))),
        Err(_) => Err(error("Timeout")),
    }
}

fn reply(
    ensemble: &Rc<Ensemble>,
    store: &ObjectStore,
    asker: &Rc<Host>,
    answer: Promise<Option<Rc<str>>>,
    missing: Option<Rc<str>>,
) {
    let world = ensemble.world.clone();
    let took_ns = world.around(REQUEST_NS);
    let set = move || answer.set(&world, missing);
    let to = Some(&asker.process);
    ensemble
        .network
        .send_later(took_ns, store.node, asker.node, to, set);
}

#[cold]
fn error(text: &str) -> ServerError {
    ServerError::new(S3_ERROR, format!("S3_ERROR: {text}"))
}
