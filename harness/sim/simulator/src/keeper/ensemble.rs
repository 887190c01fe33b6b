//! Defines what the servers of one ensemble share, and their observer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::bugs::{Bug, Bugs};
use crate::keeper::agreed::Agreed;
use crate::keeper::message_log::MessageLog;
use crate::keeper::messages::Txn;
use crate::keeper::tree::Tree;
use crate::network::{Network, Node};
use crate::protocol::Mechanisms;
use crate::store::ObjectStore;
use crate::world::{Ns, World};

/// Sees every committed entry of the log once, in order.
pub trait Observer {
    /// Take a committed entry and the tree before its changes.
    fn committing(&mut self, now_ns: Ns, txn: &Txn, before: &Tree);

    /// Take the same entry and the tree after its changes.
    fn committed(&mut self, now_ns: Ns, txn: &Txn, after: &Tree);

    /// Take a session that expired after a silence during which its leader ran.
    fn session_expired(&mut self, now_ns: Ns, silent_ns: Ns, allowed_ns: Ns);
}

/// The network and the members of an ensemble, which its servers share.
pub struct Ensemble {
    pub world: Rc<World>,
    pub network: Network,
    /// The name of every node of the topology, ClickHouse's included, by its index.
    pub names: Vec<Rc<str>>,
    /// The ZooKeeper servers, in the topology's order.
    pub keepers: Vec<Node>,
    pub bugs: Bugs,
    /// Mechanisms of the ClickHouse servers.
    pub mechanisms: Mechanisms,
    pub observer: Rc<RefCell<dyn Observer>>,
    /// Number of log entries that the observer has seen.
    pub observed: Cell<usize>,
    /// The greatest number of committed entries that a server lacked when it answered a read.
    pub read_lag: Cell<usize>,
    pub agreed: RefCell<Agreed>,
    pub messages: MessageLog,
    /// Number of sessions that were opened.
    pub sessions: Cell<u64>,
    /// The current life of the object store, where there is one.
    pub store: RefCell<Option<Rc<ObjectStore>>>,
}

impl Ensemble {
    /// Returns an ensemble that has seen nothing yet; `names` are those of every node.
    pub fn new(
        world: &Rc<World>,
        network: Network,
        names: Vec<Rc<str>>,
        keepers: Vec<Node>,
        (bugs, mechanisms): (Bugs, Mechanisms),
        observer: Rc<RefCell<dyn Observer>>,
    ) -> Rc<Ensemble> {
        Rc::new(Ensemble {
            world: world.clone(),
            network,
            names,
            keepers,
            bugs,
            mechanisms,
            observer,
            observed: Cell::new(0),
            read_lag: Cell::new(0),
            agreed: RefCell::default(),
            messages: MessageLog::default(),
            sessions: Cell::new(0),
            store: RefCell::default(),
        })
    }

    /// Return a number that no other session has.
    pub fn fresh_session(&self) -> u64 {
        let number = self.sessions.get() + 1;
        let before = self.sessions.replace(number);
        assert!(before < number, "session numbers increase");
        number
    }

    /// Return the number of servers that must have an entry before it is committed.
    pub fn majority(&self) -> usize {
        if self.bugs.has(Bug::KeeperMinority) {
            1
        } else {
            self.keepers.len() / 2 + 1
        }
    }
}
