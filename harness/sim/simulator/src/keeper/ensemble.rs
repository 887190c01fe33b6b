//! Defines what the servers of one ensemble share, and their observer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::keeper::agreed::Agreed;
use crate::keeper::message_log::MessageLog;
use crate::keeper::messages::Txn;
use crate::keeper::tree::Tree;
use crate::network::{Network, Node};
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

/// Planted bugs of the servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeeperBugs {
    pub immortal_sessions: bool,
    pub missed_watches: bool,
    /// A server that is killed loses the end of its log.
    pub unsynced_log: bool,
    /// A server answers before its log is durable, so that a power cut takes the end of it.
    pub early_answers: bool,
    /// A server goes on that cannot write its log.
    pub ignored_writes: bool,
    /// The leader commits what it alone has.
    pub minority_commits: bool,
}

impl KeeperBugs {
    /// Whether servers may forget committed transactions or commit forgotten ones.
    pub fn lose_commits(self) -> bool {
        let forgotten = self.unsynced_log || self.early_answers || self.ignored_writes;
        forgotten || self.minority_commits
    }
}

/// The network and the members of an ensemble, which its servers share.
pub struct Ensemble {
    pub world: Rc<World>,
    pub network: Network,
    /// The name of every node of the topology, ClickHouse's included, by its index.
    pub names: Vec<Rc<str>>,
    /// The ZooKeeper servers, in the topology's order.
    pub keepers: Vec<Node>,
    pub bugs: KeeperBugs,
    pub observer: Rc<RefCell<dyn Observer>>,
    /// Number of log entries that the observer has seen.
    pub observed: Cell<usize>,
    /// The greatest number of committed entries that a server lacked when it answered a read.
    pub read_lag: Cell<usize>,
    pub agreed: RefCell<Agreed>,
    pub messages: MessageLog,
    /// Number of sessions that were opened.
    pub sessions: Cell<u64>,
}

impl Ensemble {
    /// Returns an ensemble that has seen nothing yet; `names` are those of every node.
    pub fn new(
        world: &Rc<World>,
        network: Network,
        names: Vec<Rc<str>>,
        keepers: Vec<Node>,
        bugs: KeeperBugs,
        observer: Rc<RefCell<dyn Observer>>,
    ) -> Rc<Ensemble> {
        Rc::new(Ensemble {
            world: world.clone(),
            network,
            names,
            keepers,
            bugs,
            observer,
            observed: Cell::new(0),
            read_lag: Cell::new(0),
            agreed: RefCell::default(),
            messages: MessageLog::default(),
            sessions: Cell::new(0),
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
        if self.bugs.minority_commits {
            1
        } else {
            self.keepers.len() / 2 + 1
        }
    }
}
