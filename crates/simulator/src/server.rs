//! Simulates one ClickHouse server: its tables, its session, and the queries that it answers.

mod grouping;
pub mod host;
pub mod idle_connections;
mod leader_queries;
mod queries;
pub mod shortages;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::block::Block;
use crate::disk::Device;
use crate::errors::{KeeperError, ServerError};
use crate::keeper::connection::ServerEnd;
use crate::keeper::ensemble::Ensemble;
use crate::keeper::server::KeeperServers;
use crate::network::Node;
use crate::server::host::{Deployment, Host, PartData, ReplicaServer};
use crate::sql::{Queries, Query};
use crate::table::damage::Flip;
use crate::table::fetch::FETCH_NS;
use crate::table::part_files;
use crate::table::parts::{Info, Ordered, Value};
use crate::table::replica::{Table, TableDisk};
use crate::table::schema::Schema;
use crate::table::settings::TableSettings;
use crate::world::{Ns, Promise, Resource, World, MS, SECOND};

/// Time from the start of the process to its first query.
const START_NS: Ns = 600 * MS;
const NO_KEEPER_SLEEP_NS: Ns = SECOND;

/// The state of a server that survives a restart.
pub struct ServerDisk {
    pub tables: RefCell<Ordered<Rc<str>, Rc<TableDisk>>>,
    pub lives: Cell<u64>,
    /// Median time of fetching a small part: reading, sending and writing it.
    pub fetch_ns: Rc<Cell<Ns>>,
    pub device: Rc<Device>,
    /// The bits that were flipped on it.
    pub flips: RefCell<Vec<Flip>>,
}

impl Default for ServerDisk {
    fn default() -> ServerDisk {
        ServerDisk {
            tables: RefCell::default(),
            lives: Cell::new(0),
            fetch_ns: Rc::new(Cell::new(FETCH_NS)),
            device: Rc::default(),
            flips: RefCell::default(),
        }
    }
}

/// Configuration and parsed statements, shared by all ClickHouse servers.
pub struct Common {
    pub keeper_servers: KeeperServers,
    pub deployment: Rc<Deployment>,
    /// The current life of each server, by node.
    pub peers: RefCell<Vec<Option<Rc<Server>>>>,
    /// Default settings of tables.
    pub defaults: TableSettings,
    /// The meaning of sequentially consistent selects.
    pub reading: Rc<str>,
    pub queries: Queries,
    /// Schemas without duplicates.
    pub schemas: RefCell<Vec<Rc<Schema>>>,
}

impl Common {
    /// Returns the shared schema that equals `like`.
    pub fn schema(&self, like: &Rc<Schema>) -> Rc<Schema> {
        let mut schemas = self.schemas.borrow_mut();
        match schemas.iter().find(|known| *known == like) {
            Some(known) => known.clone(),
            None => {
                schemas.push(like.clone());
                like.clone()
            }
        }
    }
}

/// The settings of a query.
pub struct Settings {
    /// Number of replicas that must have each part of an insert; `None`: a majority.
    pub insert_quorum: Option<usize>,
    pub insert_quorum_timeout: i64,
    /// Whether several quorum inserts may be in flight.
    pub insert_quorum_parallel: bool,
    pub insert_deduplicate: bool,
    /// Whether the tables of views deduplicate what they get of an insert.
    pub deduplicate_in_views: bool,
    /// The time that an insert may take with its retries; `None` if unlimited.
    pub max_execution_ns: Option<Ns>,
    pub select_sequential_consistency: bool,
    /// The meaning of sequential consistency, if the query overrides it.
    pub sequential_reading: Option<Rc<str>>,
    pub replication_alter_partitions_sync: i64,
    /// Which replicas a mutation waits for: 0 none, 1 its own, 2 all.
    pub mutations_sync: i64,
    /// Whether an OPTIMIZE that merges nothing is an error.
    pub optimize_throw_if_noop: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            insert_quorum: Some(0),
            insert_quorum_timeout: 600_000,
            insert_quorum_parallel: false,
            insert_deduplicate: true,
            deduplicate_in_views: false,
            max_execution_ns: None,
            select_sequential_consistency: false,
            sequential_reading: None,
            replication_alter_partitions_sync: 1,
            mutations_sync: 0,
            optimize_throw_if_noop: false,
        }
    }
}

impl FromIterator<(String, Value)> for Settings {
    /// Takes settings by name; unknown ones have no effect here.
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(set: I) -> Settings {
        let number = |value: Value| match value {
            Value::Int(number) => number,
            Value::Text(text) => text.parse().expect("a number"),
            Value::List(numbers) => panic!("{numbers:?} is not a number"),
        };
        let mut out = Settings::default();
        for (name, value) in set {
            match (name.as_str(), value) {
                ("insert_quorum", Value::Text(text)) if *text == *"auto" => {
                    out.insert_quorum = None;
                }
                ("insert_quorum", value) => {
                    out.insert_quorum = Some(usize::try_from(number(value)).unwrap_or(0));
                }
                ("insert_quorum_timeout", value) => out.insert_quorum_timeout = number(value),
                ("insert_quorum_parallel", value) => {
                    out.insert_quorum_parallel = number(value) != 0;
                }
                ("insert_deduplicate", value) => out.insert_deduplicate = number(value) != 0,
                ("deduplicate_blocks_in_dependent_materialized_views", value) => {
                    out.deduplicate_in_views = number(value) != 0;
                }
                ("max_execution_time", value) => {
                    let seconds = match value {
                        Value::Int(seconds) => seconds as f64,
                        Value::Text(text) => text.parse().expect("a number of seconds"),
                        Value::List(numbers) => panic!("{numbers:?} are no number of seconds"),
                    };
                    let ns = (seconds * SECOND as f64) as Ns;
                    out.max_execution_ns = Some(ns).filter(|ns| *ns > 0);
                }
                ("select_sequential_consistency", value) => {
                    out.select_sequential_consistency = number(value) != 0;
                }
                ("sequential_reading", Value::Text(reading)) => {
                    out.sequential_reading = Some(reading);
                }
                ("replication_alter_partitions_sync", value) => {
                    out.replication_alter_partitions_sync = number(value);
                }
                ("mutations_sync", value) => out.mutations_sync = number(value),
                ("optimize_throw_if_noop", value) => {
                    out.optimize_throw_if_noop = number(value) != 0;
                }
                _ => {}
            }
        }
        out
    }
}

/// Why a query returned no rows.
#[derive(Debug, Clone)]
pub enum Refusal {
    Error(ServerError),
    /// The connection was reset because the server ended.
    Reset,
}

pub type Reply = Result<Rc<Block>, Refusal>;

/// A query that has not ended.
pub struct Running {
    number: u64,
    pub query: Rc<Query>,
    answer: Promise<Reply>,
}

impl Running {
    fn new(number: u64, query: &Rc<Query>, answer: Promise<Reply>) -> Running {
        Running {
            number,
            query: query.clone(),
            answer,
        }
    }
}

/// A query that another server has sent, and awaits.
struct Underway {
    asker: Rc<Server>,
    answer: Promise<Result<(), ServerError>>,
}

/// One life of a server.
pub struct Server {
    pub host: Rc<Host>,
    pub disk: Rc<ServerDisk>,
    pub world: Rc<World>,
    /// Whether the server has started and accepts queries.
    pub answers: Cell<bool>,
    pub tables: RefCell<Ordered<Rc<str>, Rc<Table>>>,
    common: Rc<Common>,
    /// Running queries by number, ascending.
    pub running: RefCell<Vec<Running>>,
    /// Queries that other servers have sent and that have not arrived.
    underway: RefCell<Vec<Underway>>,
    asked: Cell<u64>,
}

impl Server {
    /// Return a new life, which is not started yet. `keepers` are the ZooKeeper servers that it may
    /// use.
    pub fn new(
        node: Node,
        disk: &Rc<ServerDisk>,
        ensemble: &Rc<Ensemble>,
        keepers: &Rc<[Node]>,
        common: &Rc<Common>,
    ) -> Rc<Server> {
        let life = disk.lives.get() + 1;
        disk.lives.set(life);
        let (servers, fetch_ns) = (&common.keeper_servers, &disk.fetch_ns);
        let deployment = &common.deployment;
        Rc::new(Server {
            host: Host::new(node, life, ensemble, deployment, servers, keepers, fetch_ns),
            disk: disk.clone(),
            world: ensemble.world.clone(),
            answers: Cell::new(false),
            tables: RefCell::default(),
            common: common.clone(),
            running: RefCell::default(),
            underway: RefCell::default(),
            asked: Cell::new(0),
        })
    }

    /// Starts the server.
    pub fn begin(self: &Rc<Self>) {
        let server = self.clone();
        self.world.spawn(
            Some(&self.host.process),
            async move { server.start().await },
        );
    }

    async fn start(self: Rc<Self>) {
        self.world.work(self.world.around(START_NS)).await;
        if !self.disk.device.quiet() && !part_files::starts(&self.disk.device) {
            // It can neither read its files nor write its status file.
            let server = self.clone();
            self.world.spawn(None, async move { server.die() });
            return;
        }
        // 18.16.1 with tables does not start without ZooKeeper.
        while self.attach().await.is_err() {
            self.tables.borrow_mut().clear();
            self.world.sleep(NO_KEEPER_SLEEP_NS).await;
        }
        if self.runs_out_of_memory() {
            return;
        }
        for table in self.tables.borrow().values() {
            self.world
                .spawn(Some(&self.host.process), table.clone().live());
        }
        let before = self.answers.replace(true);
        assert!(!before, "a server starts once in a life");
    }

    async fn attach(self: &Rc<Self>) -> Result<(), KeeperError> {
        let disks: Vec<_> = self.disk.tables.borrow().values().cloned().collect();
        if disks.is_empty() {
            return Ok(());
        }
        let zk = self.host.keeper().await?;
        for disk in disks {
            let name = disk.name.clone();
            let table = Table::new(self.clone(), disk);
            let before = self.tables.borrow_mut().insert(name, table.clone());
            assert!(before.is_none(), "a table is attached once");
            table.attach(&zk).await?;
        }
        Ok(())
    }

    /// Ends the server as SIGTERM does: it closes the session, so that its ephemeral nodes
    /// disappear at once.
    pub fn stop(&self) {
        if let Some(session) = self.host.session() {
            session.close();
        }
        self.die();
    }

    /// Ends the server as SIGKILL does.
    pub fn die(&self) {
        assert!(self.host.process.alive(), "a server ends once in a life");
        if let Some(session) = self.host.session() {
            let keeper = session.server().clone();
            let (node, process, number) = (keeper.node, keeper.process.clone(), session.number());
            let disconnect = move || keeper.disconnect(number);
            let network = &self.host.ensemble.network;
            network.send(self.host.node, node, Some(&process), disconnect);
        }
        self.world.kill(&self.host.process);
        for running in self.running.take() {
            running.answer.set(&self.world, Err(Refusal::Reset));
        }
        self.reset_underway();
        // Tables and server refer to each other.
        self.tables.take();
    }

    /// Return how many tables this replica leads.
    pub fn tables_led(&self) -> usize {
        let tables = self.tables.borrow();
        tables.values().filter(|table| table.leader.get()).count()
    }

    /// Return the current life of another replica's server.
    pub fn peer(&self, name: &str) -> Rc<Server> {
        let peers = self.common.peers.borrow();
        let found = peers.iter().flatten().find(|peer| *peer.host.name == *name);
        found.expect("every replica has a server").clone()
    }
}

impl ReplicaServer for Server {
    fn host(&self) -> &Rc<Host> {
        &self.host
    }

    fn replica(&self, name: &str) -> Rc<dyn ReplicaServer> {
        self.peer(name)
    }

    fn part_data(&self, table: &str, part: &str) -> Option<PartData> {
        let table = self.tables.borrow().get(table)?.clone();
        let (rows, delay_ns) = part_files::served(&table, part)?;
        let shared = table.disk.storage.zero_copy;
        let blob = table.disk.references.parts.borrow().get(part).cloned();
        let blob = blob.filter(|_| shared);
        Some(PartData {
            rows,
            blob,
            delay_ns,
        })
    }

    fn path_of(&self, table: &str) -> Option<Rc<str>> {
        let tables = self.tables.borrow();
        tables.get(table).map(|table| table.disk.path.clone())
    }

    fn doubt(&self, table: &str, part: &str) {
        if let Some(table) = self.tables.borrow().get(table) {
            table.missing.add(&Info::named(part));
        }
    }

    fn runs_out_of_memory(&self) -> bool {
        let lacks = self.world.lacks(self.host.node, Resource::Memory);
        if lacks {
            let killed = self.peer(&self.host.name);
            let machine = self.world.machine(self.host.node);
            machine.killed.set(true);
            self.world.spawn(None, async move { killed.die() });
        }
        lacks
    }
}

/// Returns the database in a table's full name.
pub fn database_of(table: &str) -> &str {
    table
        .split_once('.')
        .map_or(table, |(database, _)| database)
}
