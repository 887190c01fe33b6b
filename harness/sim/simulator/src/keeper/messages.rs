//! What ZooKeeper servers keep and say to each other.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::bugs::{Bug, Bugs};
use crate::errors::KeeperError;
use crate::keeper::agreed::Agreed;
use crate::keeper::server::KeeperServer;
use crate::keeper::session::{Found, KeeperSession, Reading, Readings};
use crate::keeper::tree::{Change, Done, Operation, Tree};
use crate::network::{Network, Node};
use crate::record::Record;
use crate::world::{Ns, Process, World, MS};

/// zoo.cfg: tickTime.
pub const TICK_NS: Ns = 500 * MS;
/// Ticks of silence after which a leader or a follower is given up.
pub const SYNC_LIMIT: Ns = 4;
/// Until a proposal is on the disk, median.
pub const FSYNC_NS: Ns = MS;
/// Where the open sessions are kept, so that every leader knows them.
pub const SESSIONS: &str = "/zookeeper/sessions";

/// Epoch and counter.
pub type Zxid = (u64, u64);

/// What a client asks of its server.
pub enum Ask {
    /// Nothing: it is there.
    Ping,
    /// A read, and the number of a watch.
    Read(Reading, Option<i64>),
    /// Several, and the number of a watch on the first of them.
    ReadAll(Vec<Reading>, Option<i64>),
    /// Several, as before perhaps.
    ReadAgain(Rc<Readings>),
    Write(Write),
}

/// What only the leader can do.
pub enum Write {
    /// All or nothing.
    Multi(Vec<Operation>),
    /// A session, which may be silent for so long.
    Open(Ns),
    /// The end of the session.
    Close,
    Sync,
}

/// A client's write, on its way to the leader.
pub struct Request {
    /// The server that the client is connected to.
    pub origin: Node,
    pub session: u64,
    pub xid: i64,
    pub write: Write,
}

/// What is answered to a request.
#[derive(Debug, Clone)]
pub enum Answered {
    Nothing,
    /// Of a multi, unless it is empty.
    Done(Rc<[Done]>),
    /// Of a read.
    Found(Found),
    /// Of several.
    FoundAll(Vec<Found>),
    /// The same, of readings that are made again and again.
    FoundAgain(Rc<[Found]>),
}

/// The same, or why not.
pub type Answer = Result<Answered, KeeperError>;

/// An entry of the log: what a request came to.
pub struct Txn {
    pub zxid: Zxid,
    pub origin: Node,
    pub session: u64,
    pub xid: i64,
    pub changes: Vec<Change>,
    pub answer: Answer,
    pub time_ns: Ns,
}

/// What a server keeps over its lives.
#[derive(Default)]
pub struct Disk {
    pub log: Vec<Rc<Txn>>,
    /// The highest epoch that it promised to follow.
    pub accepted: u64,
    pub tree: Tree,
    /// How many entries of the log, all of them committed, the tree has.
    pub applied: usize,
}

impl Disk {
    /// Of the log's last entry.
    pub fn last(&self) -> Zxid {
        self.log.last().map_or((0, 0), |txn| txn.zxid)
    }
}

/// The client's end of a connection.
#[derive(Clone)]
pub struct Listener {
    pub node: Node,
    pub process: Rc<Process>,
    /// A session that nobody has any more is lost: nothing that comes to it matters.
    pub session: Weak<KeeperSession>,
}

/// What its servers share: the network, and who they are.
pub struct Ensemble {
    pub world: Rc<World>,
    pub network: Network,
    /// Of every node of the topology, by its place; of ZooKeeper's servers and of ClickHouse's.
    pub names: Vec<Rc<str>>,
    /// ZooKeeper's servers, in the topology's order.
    pub keepers: Vec<Node>,
    pub bugs: Bugs,
    pub record: RefCell<Record>,
    pub agreed: RefCell<Agreed>,
    /// How many were opened.
    pub sessions: Cell<u64>,
    /// The present life of every ZooKeeper server, by node.
    pub lives: RefCell<Vec<Option<Rc<KeeperServer>>>>,
}

impl Ensemble {
    /// A number that no other session has.
    pub fn fresh_session(&self) -> u64 {
        self.sessions.set(self.sessions.get() + 1);
        self.sessions.get()
    }

    /// More than half of them.
    pub fn majority(&self) -> usize {
        if self.bugs.has(Bug::KeeperMinority) {
            1
        } else {
            self.keepers.len() / 2 + 1
        }
    }

    /// The present life of a ZooKeeper server.
    pub fn keeper(&self, node: Node) -> Rc<KeeperServer> {
        let lives = self.lives.borrow();
        lives[node].as_ref().expect("it has been started").clone()
    }
}
