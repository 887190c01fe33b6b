//! A simulated cluster: every server of a topology on one virtual time, all of it from one seed.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use crate::block::Block;
use crate::bugs::Bugs;
use crate::errors::{KeeperError, ServerError};
use crate::keeper::messages::{Disk, Ensemble};
use crate::keeper::server::KeeperServer;
use crate::keeper::session::KeeperSession;
use crate::network::{Network, Node};
use crate::record::Record;
use crate::seed::Seed;
use crate::server::{Common, Refusal, Reply, Server, ServerDisk, Settings};
use crate::sql::{Queries, Query};
use crate::table::parts::Row;
use crate::table::settings::TableSettings;
use crate::world::{Ns, Process, Promise, World, MS, SECOND};

/// Between a client and a server, median. That network is never cut: it is the harness' own.
const CLIENT_NS: Ns = 3 * MS / 10;
const CONNECT_TIMEOUT_NS: Ns = 2 * SECOND;

// The client's own errors, as harness/core/outcomes.py has them.
const NETWORK: i32 = -1;
const UNSENT: i32 = -2;
const CLIENT_TIMEOUT: i32 = -3;

/// A node of the topology.
pub struct Member {
    pub name: Rc<str>,
    /// The ZooKeeper servers that a replica may use; None: it is one itself.
    pub keepers: Option<Vec<Node>>,
}

/// How the servers are to be.
pub struct Options {
    pub bugs: Bugs,
    pub settings: TableSettings,
    /// What a sequentially consistent select means.
    pub reading: Rc<str>,
    /// How fast the clocks of some nodes go; 1 unless given.
    pub rates: Vec<(Node, f64)>,
}

/// What a node keeps over its lives.
enum Host {
    Keeper {
        disk: Rc<RefCell<Disk>>,
        rate: Cell<f64>,
    },
    Replica {
        disk: Rc<ServerDisk>,
        keepers: Rc<[Node]>,
    },
}

/// The present one of a node.
enum Life {
    Keeper(Rc<KeeperServer>),
    Server(Rc<Server>),
}

impl Life {
    fn process(&self) -> &Rc<Process> {
        match self {
            Life::Keeper(server) => &server.process,
            Life::Server(server) => &server.process,
        }
    }
}

/// What a test or a tool may know of a table's replica.
pub struct Replica {
    pub leader: bool,
    pub readonly: bool,
    /// Whether it has a session with ZooKeeper.
    pub connected: bool,
    /// The ZooKeeper server of the session that its server has.
    pub keeper: Option<Rc<str>>,
    /// Names of parts on the disk.
    pub parts: Vec<Rc<str>>,
    /// Type, part and quorum of each entry.
    pub queue: Vec<(&'static str, String, usize)>,
}

/// Servers by their place in the topology.
pub struct Simulation {
    pub world: Rc<World>,
    pub ensemble: Rc<Ensemble>,
    hosts: Vec<Host>,
    servers: Rc<RefCell<Vec<Option<Rc<Server>>>>>,
    common: Rc<Common>,
    /// Of answers that have been taken: the next queries have them.
    spare: RefCell<Vec<Promise<Reply>>>,
}

impl Simulation {
    /// `links` in the topology's order.
    pub fn new(
        members: Vec<Member>,
        links: &[(Node, Node)],
        seed: Seed,
        options: Options,
    ) -> Rc<Simulation> {
        let world = World::new(seed);
        let keepers = (0..members.len()).filter(|node| members[*node].keepers.is_none());
        let ensemble = Rc::new(Ensemble {
            network: Network::new(&world, members.len(), links),
            names: members.iter().map(|member| member.name.clone()).collect(),
            keepers: keepers.collect(),
            bugs: options.bugs,
            record: RefCell::new(Record::default()),
            agreed: RefCell::default(),
            sessions: Cell::new(0),
            lives: RefCell::new(vec![None; members.len()]),
            world: world.clone(),
        });
        let rate = |node| options.rates.iter().find(|(other, _)| *other == node);
        let host = |(node, member): (Node, Member)| match member.keepers {
            Some(keepers) => Host::Replica {
                disk: Rc::default(),
                keepers: keepers.into(),
            },
            None => Host::Keeper {
                disk: Rc::default(),
                rate: Cell::new(rate(node).map_or(1.0, |(_, rate)| *rate)),
            },
        };
        Rc::new(Simulation {
            world,
            servers: Rc::new(RefCell::new(vec![None; members.len()])),
            hosts: members.into_iter().enumerate().map(host).collect(),
            common: Rc::new(Common {
                defaults: options.settings,
                reading: options.reading,
                queries: Queries::default(),
                schemas: RefCell::default(),
            }),
            ensemble,
            spare: RefCell::default(),
        })
    }

    fn nodes(&self) -> std::ops::Range<Node> {
        0..self.hosts.len()
    }

    /// Starts every server; does not wait.
    pub fn up(&self) {
        for node in self.nodes() {
            self.make(node);
        }
        for node in self.nodes() {
            self.begin(node);
        }
    }

    fn make(&self, node: Node) {
        match &self.hosts[node] {
            Host::Keeper { disk, rate } => {
                let life = KeeperServer::new(node, &self.ensemble, disk.clone(), rate.get());
                self.ensemble.lives.borrow_mut()[node] = Some(life);
            }
            Host::Replica { disk, keepers } => {
                let (ensemble, servers) = (&self.ensemble, &self.servers);
                let life = Server::new(node, disk, ensemble, keepers, &self.common, servers);
                self.servers.borrow_mut()[node] = Some(life);
            }
        }
    }

    fn begin(&self, node: Node) {
        match self.life(node) {
            Life::Keeper(server) => server.begin(),
            Life::Server(server) => server.begin(),
        }
    }

    // --- processes ------------------------------------------------------------------------------

    fn life(&self, node: Node) -> Life {
        match &self.hosts[node] {
            Host::Keeper { .. } => Life::Keeper(self.ensemble.keeper(node)),
            Host::Replica { .. } => Life::Server(self.server(node)),
        }
    }

    fn server(&self, node: Node) -> Rc<Server> {
        let servers = self.servers.borrow();
        servers[node].as_ref().expect("it has been started").clone()
    }

    /// SIGKILL; of what does not run, nothing happens.
    pub fn kill(&self, node: Node) {
        if self.running(node) {
            match self.life(node) {
                Life::Keeper(server) => server.die(),
                Life::Server(server) => server.die(),
            }
        }
    }

    /// SIGTERM.
    pub fn stop(&self, node: Node) {
        if self.running(node) {
            match self.life(node) {
                Life::Keeper(server) => server.die(),
                Life::Server(server) => server.stop(),
            }
        }
    }

    /// A new life; of what runs, nothing happens.
    pub fn start(&self, node: Node) {
        if !self.running(node) {
            self.make(node);
            self.begin(node);
        }
    }

    /// Whether the process exists.
    pub fn running(&self, node: Node) -> bool {
        self.life(node).process().alive()
    }

    /// SIGSTOP.
    pub fn pause(&self, node: Node) {
        if self.running(node) {
            self.world.pause(self.life(node).process());
        }
    }

    /// SIGCONT.
    pub fn resume(&self, node: Node) {
        self.world.resume_process(self.life(node).process());
    }

    /// Whether it is stopped by SIGSTOP.
    pub fn paused(&self, node: Node) -> bool {
        let life = self.life(node);
        life.process().alive() && life.process().paused()
    }

    /// Whether the server would answer a query, or a ZooKeeper server serves clients.
    pub fn answers(&self, node: Node) -> bool {
        let life = self.life(node);
        life.process().alive()
            && !life.process().paused()
            && match &life {
                Life::Keeper(server) => server.serves(),
                Life::Server(server) => server.answers.get(),
            }
    }

    /// Ends every process and every session, and what they know of each other: nothing of this
    /// world is left when its owner lets go of it.
    pub fn end(&self, sessions: impl IntoIterator<Item = Rc<KeeperSession>>) {
        for node in self.nodes() {
            let lives = self.ensemble.lives.borrow()[node].is_some();
            if lives || self.servers.borrow()[node].is_some() {
                self.kill(node);
            }
        }
        sessions.into_iter().for_each(|session| session.close());
        self.ensemble.network.mend();
        self.world.clear();
        self.ensemble.lives.take();
        self.servers.take();
    }

    // --- what is known of them ------------------------------------------------------------------

    fn name(&self, node: Node) -> &Rc<str> {
        &self.ensemble.names[node]
    }

    /// The ZooKeeper server of the newest epoch that leads.
    pub fn leader(&self) -> Option<Node> {
        let keepers = self.ensemble.keepers.iter().copied();
        let leading =
            keepers.filter(|node| self.answers(*node) && self.ensemble.keeper(*node).leads());
        leading.max_by_key(|node| (self.ensemble.keeper(*node).epoch(), self.name(*node)))
    }

    /// Why the cluster cannot serve now.
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

    /// Of every table that exists, until the server ends.
    pub fn stop_fetches(&self, node: Node) {
        for table in self.server(node).tables.borrow().values() {
            table.fetches_stopped.set(true);
        }
    }

    /// May be called twice.
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

    /// Whether its tables fetch.
    pub fn fetching(&self, node: Node) -> bool {
        let server = self.server(node);
        let tables = server.tables.borrow();
        self.answers(node) && !tables.values().any(|table| table.fetches_stopped.get())
    }

    /// The median time of a replica's fetches, over all its lives.
    pub fn fetch_ns(&self, node: Node) -> &Cell<Ns> {
        match &self.hosts[node] {
            Host::Replica { disk, .. } => &disk.fetch_ns,
            Host::Keeper { .. } => panic!("{} fetches nothing", self.name(node)),
        }
    }

    /// How fast the clock of a ZooKeeper server goes from now on, over all its lives.
    pub fn skew(&self, node: Node, rate: f64) {
        match &self.hosts[node] {
            Host::Keeper { rate: own, .. } => own.set(rate),
            Host::Replica { .. } => panic!("{} is no ZooKeeper server", self.name(node)),
        }
        self.ensemble.keeper(node).skew(rate);
    }

    /// Everything of note that was committed, and the sessions that should have ended are in the
    /// ensemble's record after this.
    pub fn finish_record(&self) {
        if let Some(leader) = self.leader() {
            let mut record = self.ensemble.record.borrow_mut();
            for (silent_ns, allowed_ns) in self.ensemble.keeper(leader).sessions() {
                if silent_ns > allowed_ns {
                    record.session_ended(self.world.now_ns(), silent_ns, allowed_ns);
                }
            }
        }
    }

    /// Of a table; None: the server does not have it in this life.
    pub fn replica(&self, node: Node, table: &str) -> Option<Replica> {
        let server = self.server(node);
        let table = server.tables.borrow().get(table)?.clone();
        let session = server.session().filter(|session| session.alive());
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

    /// As clients may ask it, again and again.
    pub fn query(&self, text: &str) -> Rc<Query> {
        self.common.queries.of(text)
    }

    /// A query from outside. Errors have a client's own codes too.
    pub fn ask(
        &self,
        node: Node,
        query: Rc<Query>,
        rows: Option<Vec<Row>>,
        settings: Rc<Settings>,
        timeout_ns: Ns,
    ) -> impl Future<Output = Result<Rc<Block>, ServerError>> + '_ {
        let world = &*self.world;
        async move {
            world.sleep(world.around(CLIENT_NS)).await;
            let Some(server) = self.reached(node)? else {
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

    /// A server that takes queries; None: it is paused.
    fn reached(&self, node: Node) -> Result<Option<Rc<Server>>, ServerError> {
        let server = self.server(node);
        if !server.process.alive() || !server.answers.get() {
            return Err(self.error(UNSENT, node, "connection refused"));
        }
        Ok(Some(server).filter(|server| !server.process.paused()))
    }

    #[cold]
    fn error(&self, code: i32, node: Node, text: &str) -> ServerError {
        ServerError::new(code, format!("{}: {text}", self.name(node)))
    }

    /// A ZooKeeper session from outside, through one of these servers.
    pub async fn session(&self, keepers: &[Node]) -> Result<Rc<KeeperSession>, KeeperError> {
        let node = keepers[self.world.below(keepers.len() as u64) as usize];
        let (process, number) = (Process::new(), self.ensemble.fresh_session());
        let keeper = self.ensemble.keeper(node);
        let session = KeeperSession::new(node, &process, &self.ensemble, &keeper, number);
        session.open().await?;
        Ok(session)
    }
}
