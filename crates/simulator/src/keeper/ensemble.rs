//! Defines what the servers of one ensemble share, and their observer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::keeper::agreed::Agreed;
use crate::keeper::configuration::Configuration;
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
    /// A server that has left the ensemble gets nothing of the log any more, and still serves.
    pub removed_stale: bool,
    /// A server whose role changes keeps its clients and forgets their watches.
    pub lost_watches: bool,
    /// A leader sends a server that comes back the entries after those that it once acknowledged.
    pub remembered_acks: bool,
    /// A leader fills an empty server with its last snapshot, and leaves out the log after it.
    pub snapshots_alone: bool,
}

impl KeeperBugs {
    /// Whether servers may forget committed transactions or commit forgotten ones.
    pub fn lose_commits(self) -> bool {
        let forgotten = self.unsynced_log || self.early_answers || self.ignored_writes;
        forgotten || self.minority_commits
    }

    /// Whether the log of a server may have gaps, so that its tree differs from the leader's.
    pub fn leave_gaps(self) -> bool {
        self.remembered_acks || self.snapshots_alone
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
    /// The members with which the ensemble begins.
    pub first: Rc<Configuration>,
    /// Whether a new configuration was ever proposed.
    pub reconfigured: Cell<bool>,
    /// Whether the disk of a server was ever emptied or replaced by a copy. A commit that only a
    /// majority had may be lost with it, as in ZooKeeper.
    pub replaced_disks: Cell<bool>,
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
        let first = Rc::new(Configuration::of(&keepers));
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
            first,
            reconfigured: Cell::new(false),
            replaced_disks: Cell::new(false),
        })
    }

    /// Return a number that no other session has.
    pub fn fresh_session(&self) -> u64 {
        let number = self.sessions.get() + 1;
        let before = self.sessions.replace(number);
        assert!(before < number, "session numbers increase");
        number
    }

    /// Return whether servers may forget committed transactions or commit forgotten ones.
    pub fn may_lose_commits(&self) -> bool {
        self.bugs.lose_commits() || self.replaced_disks.get()
    }

    /// Return the number of the first members that must have an entry before it is committed.
    pub fn majority(&self) -> usize {
        match self.bugs.minority_commits {
            true => 1,
            false => self.first.majority(),
        }
    }
}
