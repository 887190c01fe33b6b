//! Defines a server as its tables see it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::bugs::Bugs;
use crate::errors::KeeperError;
use crate::keeper::ensemble::Ensemble;
use crate::keeper::server::KeeperServers;
use crate::keeper::session::KeeperSession;
use crate::network::Node;
use crate::protocol::Mechanisms;
use crate::server::idle_connections::IdleConnections;
use crate::store::ObjectStore;
use crate::table::parts::Rows;
use crate::world::{Ns, Process};

/// What all servers share besides ZooKeeper: their version, and the object store.
pub struct Deployment {
    pub bugs: Bugs,
    pub mechanisms: Mechanisms,
    /// The current life of the object store, where there is one.
    pub store: RefCell<Option<Rc<ObjectStore>>>,
}

impl Deployment {
    pub fn new(bugs: Bugs, mechanisms: Mechanisms) -> Rc<Deployment> {
        Rc::new(Deployment {
            bugs,
            mechanisms,
            store: RefCell::default(),
        })
    }
}

/// One life of a server: its process, and its session with ZooKeeper.
pub struct Host {
    pub node: Node,
    /// The name of the node and of its replica.
    pub name: Rc<str>,
    pub process: Rc<Process>,
    /// When this life began.
    pub begun_ns: Ns,
    /// The number of this life, from 1.
    pub life: u64,
    /// Distinguishes this life from the server's other lives.
    pub identity: Rc<str>,
    pub ensemble: Rc<Ensemble>,
    pub deployment: Rc<Deployment>,
    /// Median time of fetching a small part, in all lives.
    pub fetch_ns: Rc<Cell<Ns>>,
    keeper_servers: KeeperServers,
    /// The ZooKeeper servers that the server may use.
    keepers: Rc<[Node]>,
    session: RefCell<Option<Rc<KeeperSession>>>,
    /// The connections to other replicas' servers that no fetch uses.
    pub idle: IdleConnections,
}

impl Host {
    /// Return the `life`-th life of a server, without a session.
    pub fn new(
        node: Node,
        life: u64,
        ensemble: &Rc<Ensemble>,
        deployment: &Rc<Deployment>,
        keeper_servers: &KeeperServers,
        keepers: &Rc<[Node]>,
        fetch_ns: &Rc<Cell<Ns>>,
    ) -> Rc<Host> {
        assert!(
            !keepers.is_empty(),
            "a replica has at least one ZooKeeper server"
        );
        let name = ensemble.names[node].clone();
        Rc::new(Host {
            node,
            life,
            identity: format!("{name}-{life}").into(),
            name,
            process: Process::new(),
            begun_ns: ensemble.world.now_ns(),
            ensemble: ensemble.clone(),
            deployment: deployment.clone(),
            fetch_ns: fetch_ns.clone(),
            keeper_servers: keeper_servers.clone(),
            keepers: keepers.clone(),
            session: RefCell::new(None),
            idle: IdleConnections::default(),
        })
    }

    /// Return the session that all tables share, or open one through a random server of the list.
    pub async fn keeper(&self) -> Result<Rc<KeeperSession>, KeeperError> {
        if self.session().is_none_or(|session| !session.alive()) {
            self.require_session()?;
            let (ensemble, keepers) = (&self.ensemble, &self.keepers);
            let drawn = ensemble.world.below(keepers.len() as u64) as usize;
            let number = ensemble.fresh_session();
            let keeper = self.keeper_servers.at(keepers[drawn]);
            let session = KeeperSession::new(self.node, &self.process, ensemble, &keeper, number);
            let before = self.session.replace(Some(session.clone()));
            let lost = before.is_none_or(|before| !before.alive());
            assert!(lost, "a server has one session at a time");
            session.open().await?;
        }
        Ok(self.session().expect("the session was opened"))
    }

    /// Return the server's session, alive or not.
    pub fn session(&self) -> Option<Rc<KeeperSession>> {
        self.session.borrow().clone()
    }
}

/// The rows of a part, and its metadata: the copy in the object store that it shares.
pub struct PartData {
    pub rows: Rows,
    pub blob: Option<Rc<str>>,
    /// How much longer the disk took.
    pub delay_ns: Ns,
}

/// A replica's server as its own tables and those of other servers see it.
pub trait ReplicaServer {
    /// Return this life.
    fn host(&self) -> &Rc<Host>;

    /// Return the current life of a replica's server.
    fn replica(&self, name: &str) -> Rc<dyn ReplicaServer>;

    /// Return what a part has that is on the disk.
    fn part_data(&self, table: &str, part: &str) -> Option<PartData>;

    /// Return the path in ZooKeeper of one of its tables.
    fn path_of(&self, table: &str) -> Option<Rc<str>>;

    /// Let a part be checked that could not be opened.
    fn doubt(&self, table: &str, part: &str);

    /// End this life if the server lacks the memory to load its parts; return whether it does.
    fn runs_out_of_memory(&self) -> bool;
}
