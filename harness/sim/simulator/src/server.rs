//! One ClickHouse server: its tables, its session, and the queries that it answers.

mod queries;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::block::Block;
use crate::bugs::Bugs;
use crate::errors::{KeeperError, ServerError};
use crate::keeper::messages::Ensemble;
use crate::keeper::session::KeeperSession;
use crate::network::Node;
use crate::sql::Queries;
use crate::table::fetch::FETCH_NS;
use crate::table::parts::{Ordered, Rows, Value};
use crate::table::replica::{Table, TableDisk};
use crate::table::schema::Schema;
use crate::table::settings::TableSettings;
use crate::world::{Ns, Process, Promise, World, MS, SECOND};

/// From the start of the process to its first query.
const START_NS: Ns = 600 * MS;
const NO_KEEPER_SLEEP_NS: Ns = SECOND;

/// What a server keeps over its lives.
pub struct ServerDisk {
    pub tables: RefCell<Ordered<Rc<str>, Rc<TableDisk>>>,
    pub lives: Cell<u64>,
    /// Of a small part, read, sent and written; median.
    pub fetch_ns: Cell<Ns>,
}

impl Default for ServerDisk {
    fn default() -> ServerDisk {
        ServerDisk {
            tables: RefCell::default(),
            lives: Cell::new(0),
            fetch_ns: Cell::new(FETCH_NS),
        }
    }
}

/// How all servers are configured, and what they have parsed.
pub struct Common {
    /// Of tables.
    pub defaults: TableSettings,
    /// What a sequentially consistent select means.
    pub reading: Rc<str>,
    pub queries: Queries,
    /// No two of them are equal.
    pub schemas: RefCell<Vec<Rc<Schema>>>,
}

impl Common {
    /// The schema that all tables like this share.
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

/// What a query sets.
pub struct Settings {
    pub insert_quorum: i64,
    pub insert_quorum_timeout: i64,
    pub insert_deduplicate: bool,
    pub select_sequential_consistency: bool,
    /// What that means, where it is not as everywhere.
    pub sequential_reading: Option<Rc<str>>,
    pub replication_alter_partitions_sync: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            insert_quorum: 0,
            insert_quorum_timeout: 600_000,
            insert_deduplicate: true,
            select_sequential_consistency: false,
            sequential_reading: None,
            replication_alter_partitions_sync: 1,
        }
    }
}

impl FromIterator<(String, Value)> for Settings {
    /// By name; others change nothing here.
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(set: I) -> Settings {
        let number = |value: Value| match value {
            Value::Int(number) => number,
            Value::Text(text) => text.parse().expect("a number"),
        };
        let mut out = Settings::default();
        for (name, value) in set {
            match (name.as_str(), value) {
                ("insert_quorum", value) => out.insert_quorum = number(value),
                ("insert_quorum_timeout", value) => out.insert_quorum_timeout = number(value),
                ("insert_deduplicate", value) => out.insert_deduplicate = number(value) != 0,
                ("select_sequential_consistency", value) => {
                    out.select_sequential_consistency = number(value) != 0;
                }
                ("sequential_reading", Value::Text(reading)) => {
                    out.sequential_reading = Some(reading);
                }
                ("replication_alter_partitions_sync", value) => {
                    out.replication_alter_partitions_sync = number(value);
                }
                _ => {}
            }
        }
        out
    }
}

/// Why a query has no rows.
#[derive(Debug, Clone)]
pub enum Refusal {
    Error(ServerError),
    /// The connection was reset: the server ended.
    Reset,
}

pub type Reply = Result<Rc<Block>, Refusal>;

/// One life of it.
pub struct Server {
    pub node: Node,
    /// The node's name, which is the replica's.
    pub name: Rc<str>,
    pub disk: Rc<ServerDisk>,
    pub ensemble: Rc<Ensemble>,
    pub world: Rc<World>,
    pub bugs: Bugs,
    pub process: Rc<Process>,
    pub identity: Rc<str>,
    /// Whether it takes queries: it has started.
    pub answers: Cell<bool>,
    pub tables: RefCell<Ordered<Rc<str>, Rc<Table>>>,
    /// The present life of every server, by node; all of them share it.
    pub peers: Rc<RefCell<Vec<Option<Rc<Server>>>>>,
    common: Rc<Common>,
    keepers: Rc<[Node]>,
    session: RefCell<Option<Rc<KeeperSession>>>,
    /// Queries without an answer, by number, ascending.
    running: RefCell<Vec<(u64, Promise<Reply>)>>,
    asked: Cell<u64>,
}

impl Server {
    /// `keepers`: the ZooKeeper servers that it may use.
    pub fn new(
        node: Node,
        disk: &Rc<ServerDisk>,
        ensemble: &Rc<Ensemble>,
        keepers: &Rc<[Node]>,
        common: &Rc<Common>,
        peers: &Rc<RefCell<Vec<Option<Rc<Server>>>>>,
    ) -> Rc<Server> {
        disk.lives.set(disk.lives.get() + 1);
        let name = ensemble.names[node].clone();
        Rc::new(Server {
            node,
            identity: format!("{name}-{}", disk.lives.get()).into(),
            name,
            disk: disk.clone(),
            ensemble: ensemble.clone(),
            world: ensemble.world.clone(),
            bugs: ensemble.bugs,
            process: Process::new(),
            answers: Cell::new(false),
            tables: RefCell::default(),
            peers: peers.clone(),
            common: common.clone(),
            keepers: keepers.clone(),
            session: RefCell::new(None),
            running: RefCell::default(),
            asked: Cell::new(0),
        })
    }

    /// Starts.
    pub fn begin(self: &Rc<Self>) {
        let server = self.clone();
        self.world
            .spawn(Some(&self.process), async move { server.start().await });
    }

    async fn start(self: Rc<Self>) {
        self.world.sleep(self.world.around(START_NS)).await;
        // With tables, 18.16.1 does not start without ZooKeeper.
        while self.attach().await.is_err() {
            self.tables.borrow_mut().clear();
            self.world.sleep(NO_KEEPER_SLEEP_NS).await;
        }
        for table in self.tables.borrow().values() {
            self.world.spawn(Some(&self.process), table.clone().live());
        }
        self.answers.set(true);
    }

    async fn attach(self: &Rc<Self>) -> Result<(), KeeperError> {
        let disks: Vec<_> = self.disk.tables.borrow().values().cloned().collect();
        if disks.is_empty() {
            return Ok(());
        }
        let zk = self.keeper().await?;
        for disk in disks {
            let name = disk.name.clone();
            let table = Table::new(self, disk);
            self.tables.borrow_mut().insert(name, table.clone());
            table.attach(&zk).await?;
        }
        Ok(())
    }

    /// The server's session, or a new one through a random server of its list, which all its
    /// tables share.
    pub async fn keeper(self: &Rc<Self>) -> Result<Rc<KeeperSession>, KeeperError> {
        if self.session().is_none_or(|session| !session.alive()) {
            let drawn = self.world.below(self.keepers.len() as u64) as usize;
            let number = self.ensemble.fresh_session();
            let keeper = self.ensemble.keeper(self.keepers[drawn]);
            let (process, ensemble) = (&self.process, &self.ensemble);
            let session = KeeperSession::new(self.node, process, ensemble, &keeper, number);
            self.session.replace(Some(session.clone()));
            session.open().await?;
        }
        Ok(self.session().expect("it has been opened"))
    }

    /// The one that it has, alive or not.
    pub fn session(&self) -> Option<Rc<KeeperSession>> {
        self.session.borrow().clone()
    }

    /// SIGTERM: the session is closed, so that its ephemeral nodes go at once.
    pub fn stop(&self) {
        if let Some(session) = self.session() {
            session.close();
        }
        self.die();
    }

    /// SIGKILL.
    pub fn die(&self) {
        if let Some(session) = self.session() {
            let keeper = session.server().clone();
            let (node, process, number) = (keeper.node, keeper.process.clone(), session.number());
            let disconnect = move || keeper.disconnect(number);
            self.ensemble
                .network
                .send(self.node, node, Some(&process), disconnect);
        }
        self.world.kill(&self.process);
        for (_, answer) in self.running.take() {
            answer.set(&self.world, Err(Refusal::Reset));
        }
        // They know it, as it knows them.
        self.tables.take();
    }

    // --- replicas among themselves --------------------------------------------------------------

    /// The present life of another replica's server.
    pub fn peer(&self, name: &str) -> Rc<Server> {
        let peers = self.peers.borrow();
        let found = peers.iter().flatten().find(|peer| &*peer.name == name);
        found.expect("every replica has a server").clone()
    }

    /// Sends a part's rows to the node that asks; None when it is not here.
    pub fn serve_part(
        &self,
        table: &str,
        name: &str,
        answer: Promise<Option<Rows>>,
        asker: &Rc<Server>,
        fetch_ns: Ns,
    ) {
        let table = self.tables.borrow().get(table).cloned();
        let part = table.and_then(|table| table.part(name));
        let rows = part.map(|part| part.rows.clone());
        let (took_ns, world) = (self.world.around(fetch_ns), self.world.clone());
        let set = move || answer.set(&world, rows);
        let (network, to) = (&self.ensemble.network, Some(&asker.process));
        network.send_later(took_ns, self.node, asker.node, to, set);
    }
}

/// The database's name in a table's.
pub fn database_of(table: &str) -> &str {
    table
        .split_once('.')
        .map_or(table, |(database, _)| database)
}
