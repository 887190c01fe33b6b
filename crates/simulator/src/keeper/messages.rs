//! Defines what ZooKeeper servers store and send.

use std::rc::Rc;

use histories::digits::Digits;

use crate::disk::Device;
use crate::errors::KeeperError;
use crate::keeper::configuration::{Configuration, MemberRole};
use crate::keeper::paths::{child, Hashed, Path};
use crate::keeper::reading::{Found, Reading, Readings};
use crate::keeper::tree::{Change, Done, Operation, Tree};
use crate::network::Node;
use crate::world::{Ns, MS};

/// zoo.cfg: tickTime.
pub const TICK_NS: Ns = 500 * MS;
/// Number of ticks of silence after which a leader or a follower is given up.
pub const SYNC_LIMIT: Ns = 4;
/// Median time until a proposal is on the disk.
pub const FSYNC_NS: Ns = MS;
/// The node below which open sessions are stored, so that every leader knows them.
pub const SESSIONS: &str = "/zookeeper/sessions";

/// Epoch and counter.
pub type Zxid = (u64, u64);

/// A client's request to its server.
pub enum Ask {
    /// Keeps the session alive.
    Ping,
    /// A reading, with the number of the watch to set, if any.
    Read(Reading, Option<i64>),
    /// Several readings, with the number of a watch to set on the first of them, if any.
    ReadAll(Vec<Reading>, Option<i64>),
    /// Several readings that are repeated, so that their result may be cached.
    ReadAgain(Rc<Readings>),
    Write(Write),
}

/// A request that only the leader can execute.
pub enum Write {
    /// Several operations, all or none.
    Multi(Vec<Operation>),
    /// Opens a session with this timeout.
    Open(Ns),
    /// Closes the session.
    Close,
    Sync,
    /// Gives a server this role in the ensemble.
    Reconfig(Node, Option<MemberRole>),
}

/// A client's write on its way to the leader.
pub struct Request {
    /// The server to which the client is connected.
    pub origin: Node,
    pub session: u64,
    pub xid: i64,
    pub write: Write,
}

/// The result of a request.
#[derive(Debug, Clone)]
pub enum Answered {
    Nothing,
    /// The results of a multi, unless it is empty.
    Done(Rc<[Done]>),
    /// The result of a reading.
    Found(Found),
    /// The results of several readings.
    FoundAll(Vec<Found>),
    /// The results of repeated readings.
    FoundAgain(Rc<[Found]>),
}

/// A result, or an error.
pub type Answer = Result<Answered, KeeperError>;

/// An entry of the log: the changes that a request caused.
pub struct Txn {
    pub zxid: Zxid,
    pub origin: Node,
    pub session: u64,
    pub xid: i64,
    pub changes: Vec<Change>,
    pub answer: Answer,
    pub time_ns: Ns,
    /// What the wall clock of the leader showed.
    pub wall_ns: Ns,
    /// The members of the ensemble from this entry on, if it changes them.
    pub members: Option<Rc<Configuration>>,
}

/// Returns the duration of a tick on a clock of this speed.
pub fn ticks(rate: f64) -> Ns {
    (TICK_NS as f64 / rate).round_ties_even() as Ns
}

/// The state of a server that survives a restart.
#[derive(Default)]
pub struct Disk {
    pub log: Vec<Rc<Txn>>,
    /// The highest epoch that the server promised to follow.
    pub accepted: u64,
    pub tree: Tree,
    /// Number of log entries that the tree contains. All of them are committed.
    pub applied: usize,
    /// The disk on which the log is.
    pub device: Rc<Device>,
    /// The entry with a flipped bit.
    pub flipped: Option<Zxid>,
    /// With a planted bug: the number of entries before the first one that could not be written.
    pub unwritten: Option<usize>,
}

impl Disk {
    /// Returns the zxid of the log's last entry.
    pub fn last(&self) -> Zxid {
        self.log.last().map_or((0, 0), |txn| txn.zxid)
    }

    /// Forgets the entries from this one on, and the tree that contains them.
    pub fn forget_from(&mut self, count: usize) {
        self.log.truncate(count);
        (self.tree, self.applied) = (Tree::default(), 0);
    }
}

/// The path of each session's node, with its hash.
#[derive(Default)]
pub struct SessionPaths(Vec<Option<Hashed>>);

impl SessionPaths {
    pub fn of(&mut self, session: u64) -> &Hashed {
        let at = session as usize;
        if at >= self.0.len() {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].get_or_insert_with(|| session_path(session).into())
    }

    /// Return the open sessions with their timeouts, in the order of their names.
    pub fn open(&mut self, tree: &Tree) -> Vec<(u64, Ns)> {
        let names = tree.get(SESSIONS).map(|node| &node.children);
        let open = names.into_iter().flat_map(|names| names.iter());
        let open = open.map(|name| {
            let session = name
                .parse()
                .expect("a session's node is named by its number");
            let node = tree.find(self.of(session).key());
            let node = node.expect("a listed child exists");
            (session, node.data.as_number())
        });
        open.collect()
    }
}

/// Return the path of a session's node.
#[cold]
pub fn session_path(session: u64) -> Path {
    child(SESSIONS, Digits::of(session as i64).as_str())
}
