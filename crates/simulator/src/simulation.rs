//! Simulates a cluster: every server of a topology, on one virtual clock, from one seed.

pub mod disks;
mod machine;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use crate::block::Block;
use crate::bugs::Bugs;
use crate::errors::{KeeperError, ServerError};
use crate::keeper::ensemble::{Ensemble, Observer};
use crate::keeper::messages::Disk;
use crate::keeper::server::{KeeperServer, KeeperServers};
use crate::keeper::session::KeeperSession;
use crate::network::{Network, Node};
use crate::protocol::Mechanisms;
use crate::protocol_trace::ProtocolTrace;
use crate::server::host::Deployment;
use crate::server::{Common, Refusal, Reply, Server, ServerDisk, Settings};
use crate::sql::{Queries, Query};
use crate::store::{ObjectStore, Objects};
use crate::table::parts::Row;
use crate::table::settings::TableSettings;
use crate::world::{Ns, Process, Promise, World, MS, SECOND};
use seed::Seed;

/// Median delay between a client and a server. Faults do not affect this network, which is the
/// harness's own.
const CLIENT_NS: Ns = 3 * MS / 10;
const CONNECT_TIMEOUT_NS: Ns = 2 * SECOND;

// The client's own error codes, as in harness/core/outcomes.py.
const NETWORK: i32 = -1;
const UNSENT: i32 = -2;
const CLIENT_TIMEOUT: i32 = -3;

/// A node of the topology.
pub struct Member {
    pub name: Rc<str>,
    pub role: Role,
}

/// What a node runs.
pub enum Role {
    Keeper,
    Store,
    /// A replica, which may use these ZooKeeper servers.
    Replica(Vec<Node>),
}

/// Configuration of the servers.
pub struct Options {
    pub bugs: Bugs,
    pub mechanisms: Mechanisms,
    pub settings: TableSettings,
    /// The meaning of sequentially consistent selects.
    pub reading: Rc<str>,
    /// Clock rates of some nodes; the rate of others is 1.
    pub rates: Vec<(Node, f64)>,
}

/// The state of a node that survives a restart.
pub(crate) enum Host {
    Keeper {
        disk: Rc<RefCell<Disk>>,
        rate: Cell<f64>,
    },
    Replica {
        disk: Rc<ServerDisk>,
        keepers: Rc<[Node]>,
    },
    Store(Objects),
}

/// The current life of a node.
enum Life {
    Keeper(Rc<KeeperServer>),
    Server(Rc<Server>),
    Store(Rc<ObjectStore>),
}

impl Life {
    fn process(&self) -> &Rc<Process> {
        match self {
            Life::Keeper(server) => &server.process,
            Life::Server(server) => &server.host.process,
            Life::Store(store) => &store.process,
        }
    }
}

/// What tests and tools may see of a table's replica.
pub struct Replica {
    pub leader: bool,
    pub readonly: bool,
    /// Whether the replica has a session with ZooKeeper.
    pub connected: bool,
    /// The ZooKeeper server of the server's session.
    pub keeper: Option<Rc<str>>,
    /// Names of the parts on the disk.
    pub parts: Vec<Rc<str>>,
    /// Type, part and quorum of each queue entry.
    pub queue: Vec<(&'static str, String, usize)>,
}

/// The simulated servers, by their index in the topology.
pub struct Simulation {
    pub world: Rc<World>,
    pub ensemble: Rc<Ensemble>,
    pub(crate) hosts: Vec<Host>,
    /// The protocol trace of the servers' writes to ZooKeeper.
    pub trace: Rc<RefCell<ProtocolTrace>>,
    pub(crate) common: Rc<Common>,
    /// Promises whose replies were taken; later queries reuse them.
    spare: RefCell<Vec<Promise<Reply>>>,
}

impl Simulation {
    /// Creates the cluster. `links` are in the topology's order.
    pub fn new(
        members: Vec<Member>,
        links: &[(Node, Node)],
        seed: Seed,
        options: Options,
    ) -> Rc<Simulation> {
        let world = World::new(seed);
        let trace = Rc::new(RefCell::new(ProtocolTrace::default()));
        let keepers = (0..members.len()).filter(|node| matches!(members[*node].role, Role::Keeper));
        let ensemble = Ensemble::new(
            &world,
            Network::new(&world, members.len(), links),
            members.iter().map(|member| member.name.clone()).collect(),
            keepers.collect(),
            options.bugs.of_keeper(),
            trace.clone(),
        );
        let rate = |node| options.rates.iter().find(|(other, _)| *other == node);
        let host = |(node, member): (Node, Member)| match member.role {
            Role::Store => Host::Store(Objects::default()),
            Role::Replica(keepers) => Host::Replica {
                disk: Rc::default(),
                keepers: keepers.into(),
            },
            Role::Keeper => Host::Keeper {
                disk: Rc::default(),
                rate: Cell::new(rate(node).map_or(1.0, |(_, rate)| *rate)),
            },
        };
        Rc::new(Simulation {
            world,
            trace,
            common: Rc::new(Common {
                keeper_servers: KeeperServers::default(),
                deployment: Deployment::new(options.bugs, options.mechanisms),
                peers: RefCell::new(vec![None; members.len()]),
                defaults: options.settings,
                reading: options.reading,
                queries: Queries::default(),
                schemas: RefCell::default(),
            }),
            hosts: members.into_iter().enumerate().map(host).collect(),
            ensemble,
            spare: RefCell::default(),
        })
    }

    fn nodes(&self) -> std::ops::Range<Node> {
        0..self.hosts.len()
    }

    /// Starts every server without waiting for it.
    pub fn up(&self) {
        for node in self.nodes() {
            self.make(node);
        }
        for node in self.nodes() {
            self.begin(node);
        }
    }

    fn make(&self, node: Node) {
        let rate = self.world.begin_life(node);
        match &self.hosts[node] {
            Host::Keeper { disk, rate } => {
                let (ensemble, peers) = (&self.ensemble, &self.common.keeper_servers);
                let life = KeeperServer::new(node, ensemble, peers, disk.clone(), rate.get());
                peers.replace(life);
            }
            Host::Replica { disk, keepers } => {
                let life = Server::new(node, disk, &self.ensemble, keepers, &self.common);
                life.host.process.set_rate(rate);
                let before = self.common.peers.borrow_mut()[node].replace(life);
                let ended = before.is_none_or(|before| !before.host.process.alive());
                assert!(ended, "a server has one life at a time");
            }
            Host::Store(objects) => {
                let life = ObjectStore::new(node, objects);
                let before = self.common.deployment.store.replace(Some(life));
                let ended = before.is_none_or(|before| !before.process.alive());
                assert!(ended, "a store has one life at a time");
            }
        }
    }

    fn begin(&self, node: Node) {
        match self.life(node) {
            Life::Keeper(server) => server.begin(),
            Life::Server(server) => server.begin(),
            Life::Store(_) => {}
        }
    }

    // --- processes ------------------------------------------------------------------------------

    fn life(&self, node: Node) -> Life {
        match &self.hosts[node] {
            Host::Keeper { .. } => Life::Keeper(self.keeper(node)),
            Host::Replica { .. } => Life::Server(self.server(node)),
            Host::Store(_) => {
                let store = self.common.deployment.store.borrow().clone();
                Life::Store(store.expect("the store was started"))
            }
        }
    }

    pub fn server(&self, node: Node) -> Rc<Server> {
        let servers = self.common.peers.borrow();
        servers[node]
            .as_ref()
            .expect("the server was started")
            .clone()
    }

    pub fn keeper(&self, node: Node) -> Rc<KeeperServer> {
        self.common.keeper_servers.at(node)
    }

    /// Kills a node with SIGKILL; no-op if it does not run.
    pub fn kill(&self, node: Node) {
        self.end_life(node, Server::die);
    }

    /// Stops a node with SIGTERM.
    pub fn stop(&self, node: Node) {
        self.end_life(node, Server::stop);
    }

    fn end_life(&self, node: Node, end: impl Fn(&Server)) {
        if self.running(node) {
            match self.life(node) {
                Life::Keeper(server) => server.die(),
                Life::Server(server) => end(&server),
                Life::Store(store) => self.world.kill(&store.process),
            }
        }
    }

    /// Starts a new life of the node; no-op if it runs.
    pub fn start(&self, node: Node) {
        if !self.running(node) {
            self.make(node);
            self.begin(node);
            self.strike(node);
        }
    }

    /// Whether the node's process exists.
    pub fn running(&self, node: Node) -> bool {
        self.life(node).process().alive()
    }

    /// Pauses a node with SIGSTOP.
    pub fn pause(&self, node: Node) {
        if self.running(node) {
            self.world.pause(self.life(node).process());
        }
    }

    /// Resumes a node with SIGCONT.
    pub fn resume(&self, node: Node) {
        self.world.resume_process(self.life(node).process());
    }

    /// Whether the node is paused by SIGSTOP.
    pub fn paused(&self, node: Node) -> bool {
        let life = self.life(node);
        life.process().alive() && life.process().paused()
    }

    /// Whether the server answers queries, or the ZooKeeper server serves clients.
    pub fn answers(&self, node: Node) -> bool {
        self.running(node)
            && !self.paused(node)
            && match self.life(node) {
                Life::Keeper(server) => server.serves(),
                Life::Server(server) => server.answers.get(),
                Life::Store(_) => true,
            }
    }

    /// Ends every process and session, and clears their references to each other, which are circles.
    pub fn end(&self, sessions: impl IntoIterator<Item = Rc<KeeperSession>>) {
        for node in self.nodes() {
            let lives = self.common.keeper_servers.find(node).is_some();
            let stores = matches!(self.hosts[node], Host::Store(_));
            let stores = stores && self.common.deployment.store.borrow().is_some();
            if lives || stores || self.common.peers.borrow()[node].is_some() {
                self.kill(node);
            }
        }
        sessions.into_iter().for_each(|session| session.close());
        self.ensemble.network.mend();
        self.world.clear();
        self.common.keeper_servers.clear();
        self.common.peers.take();
    }

    // --- observation ----------------------------------------------------------------------------

    pub fn name(&self, node: Node) -> &Rc<str> {
        &self.ensemble.names[node]
    }

    /// Returns the ZooKeeper server that leads in the newest epoch.
    pub fn leader(&self) -> Option<Node> {
        let keepers = self.ensemble.keepers.iter().copied();
        let leading = keepers.filter(|node| self.answers(*node) && self.keeper(*node).leads());
        leading.max_by_key(|node| (self.keeper(*node).epoch(), self.name(*node)))
    }

    /// Returns the reasons why the cluster cannot serve now.
    pub fn unready(&self) -> Vec<String> {
        let silent = self.nodes().filter(|node| !self.answers(*node));
        let mut out: Vec<_> = silent
            .map(|node| format!("{} does not answer", self.name(node)))
            .collect();
        if out.is_empty() && self.leader().is_none() {
            out.push("ZooKeeper has no leader".into());
        }
        out
    }

    /// Stops the fetches of every existing table, until the server ends.
    pub fn stop_fetches(&self, node: Node) {
        for table in self.server(node).tables.borrow().values() {
            table.fetches_stopped.set(true);
        }
    }

    /// Starts fetches again. May be called twice.
    pub fn start_fetches(&self, node: Node) {
        let tables: Vec<_> = self
            .server(node)
            .tables
            .borrow()
            .values()
            .cloned()
            .collect();
        for table in tables {
            if table.fetches_stopped.replace(false) {
                table.queue.wake();
            }
        }
    }

    /// Whether the node's tables fetch parts.
    pub fn fetching(&self, node: Node) -> bool {
        let server = self.server(node);
        let tables = server.tables.borrow();
        self.answers(node) && !tables.values().any(|table| table.fetches_stopped.get())
    }

    /// The median time of a replica's fetches, in all its lives.
    pub fn fetch_ns(&self, node: Node) -> &Cell<Ns> {
        match &self.hosts[node] {
            Host::Replica { disk, .. } => &disk.fetch_ns,
            _ => panic!("{} does not fetch parts", self.name(node)),
        }
    }

    /// Returns the size of each object of a store, in the order in which they were written.
    pub fn objects(&self, node: Node) -> Vec<(Rc<str>, i64)> {
        let Host::Store(objects) = &self.hosts[node] else {
            panic!("{} is not an object store", self.name(node));
        };
        let sizes = |(key, size): (&Rc<str>, &i64)| (key.clone(), *size);
        objects.borrow().iter().map(sizes).collect()
    }

    /// Completes the protocol trace: adds the sessions that should have expired by now.
    pub fn finish_trace(&self) {
        if let Some(leader) = self.leader() {
            let mut trace = self.trace.borrow_mut();
            for (silent_ns, allowed_ns) in self.keeper(leader).sessions() {
                if silent_ns > allowed_ns {
                    trace.session_expired(self.world.now_ns(), silent_ns, allowed_ns);
                }
            }
        }
    }

    /// Returns the replica of a table; `None` if the server does not have it in this life.
    pub fn replica(&self, node: Node, table: &str) -> Option<Replica> {
        let server = self.server(node);
        let table = server.tables.borrow().get(table)?.clone();
        let session = server.host.session().filter(|session| session.alive());
        let entries = table.queue.entries.borrow();
        let queue = entries.values().map(|attempts| {
            let entry = &attempts.entry;
            (entry.kind.name(), entry.name.to_string(), entry.quorum)
        });
        let parts = table.disk.parts.borrow().some(|_| true);
        let connected = table.zk.borrow().is_some();
        Some(Replica {
            leader: table.leader.get(),
            readonly: table.readonly.get(),
            connected,
            keeper: session.map(|session| self.name(session.server().node).clone()),
            parts: parts.iter().map(|part| part.name.clone()).collect(),
            queue: queue.collect(),
        })
    }

    // --- clients --------------------------------------------------------------------------------

    /// Parses a query that clients may send repeatedly.
    pub fn query(&self, text: &str) -> Rc<Query> {
        self.common.queries.of(text)
    }

    /// Sends a client's query on a connection that was opened at `opened_ns`. The error codes
    /// include the client's own.
    pub fn ask(
        &self,
        node: Node,
        query: Rc<Query>,
        rows: Option<Vec<Row>>,
        settings: Rc<Settings>,
        timeout_ns: Ns,
        opened_ns: Ns,
    ) -> impl Future<Output = Result<Rc<Block>, ServerError>> + '_ {
        let world = &*self.world;
        async move {
            world.sleep(world.around(CLIENT_NS)).await;
            let Some(server) = self.reached(node, opened_ns)? else {
                world.sleep(CONNECT_TIMEOUT_NS).await;
                return Err(self.error(UNSENT, node, "no answer to a ping"));
            };
            let reply = self.spare.borrow_mut().pop().unwrap_or_default();
            server.ask(reply.clone(), query, rows, settings);
            let Ok(answer) = world.wait_for(&reply, timeout_ns).await else {
                let text = format!("no answer from {} in time", self.name(node));
                return Err(ServerError::new(CLIENT_TIMEOUT, text));
            };
            reply.renew();
            self.spare.borrow_mut().push(reply);
            let answer = answer.map_err(|refusal| match refusal {
                Refusal::Error(error) => error,
                Refusal::Reset => self.error(NETWORK, node, "the server ended"),
            })?;
            world.sleep(world.around(CLIENT_NS)).await;
            Ok(answer)
        }
    }

    /// Opens a client's ZooKeeper session through one of these servers.
    pub async fn session(&self, keepers: &[Node]) -> Result<Rc<KeeperSession>, KeeperError> {
        let node = keepers[self.world.below(keepers.len() as u64) as usize];
        let (process, number) = (Process::new(), self.ensemble.fresh_session());
        let keeper = self.keeper(node);
        let session = KeeperSession::new(node, &process, &self.ensemble, &keeper, number);
        session.open().await?;
        Ok(session)
    }
}
