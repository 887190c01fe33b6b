//! One replica of a table: its parts, its session with ZooKeeper, its tasks.
//!
//! Source: StorageReplicatedMergeTree and ReplicatedMergeTreeRestartingThread of 18.16.1.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::bugs::{Bug, Bugs};
use crate::errors::{KeeperError, ServerError, Trouble, NODE_EXISTS};
use crate::keeper::session::{KeeperSession, Reading, Readings};
use crate::keeper::tree::{child, Operation, Path};
use crate::server::Server;
use crate::table::clone::clone_if_lost;
use crate::table::cover::Cover;
use crate::table::entries::{Data, Entry, Mutation};
use crate::table::fetch::update_quorum;
use crate::table::listed::Listed;
use crate::table::missing::Missing;
use crate::table::parts::{Info, Ordered, Part};
use crate::table::paths::{ReplicaPaths, TablePaths};
use crate::table::queue::Queue;
use crate::table::schema::Schema;
use crate::table::select::{deciding, Answers};
use crate::table::settings::TableSettings;
use crate::table::stored::Stored;
use crate::table::{cleanup, merge, missing, queue};
use crate::world::{Lock, Ns, Promise, World, SECOND};

/// zookeeper_session_expiration_check_period of the harness' configuration.
const CHECK_NS: Ns = SECOND;
/// From a start that failed to the next (retry_period_ms).
const RETRY_NS: Ns = 10 * SECOND;
/// Threads of the pool for each table.
const WORKERS: usize = 3;
/// What a table has in ZooKeeper.
const NODES: [&str; 7] = [
    "log",
    "blocks",
    "block_numbers",
    "quorum",
    "replicas",
    "leader_election",
    "mutations",
];

/// What a replica keeps of a table over its lives.
pub struct TableDisk {
    pub name: Rc<str>,
    pub path: Rc<str>,
    pub schema: Rc<Schema>,
    pub settings: TableSettings,
    pub parts: RefCell<Stored>,
}

/// The mutations that a replica knows, by the names of their nodes, ascending.
pub type Mutations = Vec<(Rc<str>, Rc<Mutation>)>;

/// In one life of its server.
pub struct Table {
    pub server: Rc<Server>,
    pub world: Rc<World>,
    pub bugs: Bugs,
    /// The replica's name.
    pub me: Rc<str>,
    pub name: Rc<str>,
    pub paths: TablePaths,
    /// The replica's own.
    pub own: Rc<ReplicaPaths>,
    /// What a select reads of ZooKeeper.
    pub deciding: Rc<Readings>,
    pub schema: Rc<Schema>,
    pub settings: TableSettings,
    pub disk: Rc<TableDisk>,
    pub active: RefCell<Cover<Rc<Part>>>,
    pub zk: RefCell<Option<Rc<KeeperSession>>>,
    pub readonly: Cell<bool>,
    pub leader: Cell<bool>,
    pub fetches_stopped: Cell<bool>,
    /// Parts whose insert had an unknown outcome, and the node of its block number.
    pub to_check: RefCell<Ordered<Rc<str>, Path>>,
    pub mutations: RefCell<Mutations>,
    /// Partitions that are known to have block numbers, and what these nodes are made of.
    pub numbered: RefCell<FxHashMap<Rc<str>, Path>>,
    pub queue: Queue,
    pub missing: Missing,
    pub pulls: Lock,
    /// Of merges: one at a time, and each knows those before it.
    pub choosing: Lock,
    pub dropped: Cell<bool>,
    host: Cell<i64>,
    pub(super) listed: RefCell<Option<Listed>>,
    pub(super) answers: RefCell<Answers>,
    /// How often a part of the listed active set was taken off the disk, or another took the place
    /// of one.
    pub(super) replaced: Cell<u64>,
}

impl Table {
    // --- parts ----------------------------------------------------------------------------------

    /// On the disk, and not visible yet.
    pub fn store(&self, part: Rc<Part>) {
        if self.disk.parts.borrow_mut().insert(part) {
            self.replaced.set(self.replaced.get() + 1);
        }
    }

    /// Of that name, on the disk.
    pub fn part(&self, name: &str) -> Option<Rc<Part>> {
        self.disk.parts.borrow().get(name).cloned()
    }

    /// Visible, in place of what it covers.
    pub fn activate(&self, part: &Rc<Part>) {
        let mut active = self.active.borrow_mut();
        let covered = active.add(&part.info, part.clone());
        let apart = !active.overlaps() || self.bugs.any_planted();
        assert!(apart, "{} and another active part overlap", part.name);
        drop(active);
        for old in covered {
            old.old_ns.set(self.world.now_ns().max(1));
        }
    }

    /// Neither visible nor on the disk any more.
    pub fn forget(&self, part: &Part) {
        let listed = self.listed.borrow();
        let is_shown = |listed: &Listed| listed.cover.get(&part.info).is_some();
        if listed.as_ref().is_some_and(is_shown) {
            self.replaced.set(self.replaced.get() + 1);
        }
        self.active.borrow_mut().remove(&part.info);
        self.disk.parts.borrow_mut().remove(&part.name);
    }

    // --- what queries may use -------------------------------------------------------------------

    /// A session that lives, else error 225.
    pub fn connected(&self) -> Result<Rc<KeeperSession>, ServerError> {
        match &*self.zk.borrow() {
            Some(zk) if zk.alive() => Ok(zk.clone()),
            _ => Err(ServerError::new(225, "Cannot get ZooKeeper")),
        }
    }

    /// The same, and error 242 as long as the replica has not started.
    pub fn writable(&self) -> Result<Rc<KeeperSession>, ServerError> {
        if self.readonly.get() {
            return Err(ServerError::new(242, "Table is in readonly mode"));
        }
        self.connected()
    }

    /// Whether this session is the replica's, and lives.
    pub fn uses(&self, zk: &Rc<KeeperSession>) -> bool {
        let own = self.zk.borrow();
        own.as_ref().is_some_and(|own| Rc::ptr_eq(own, zk)) && zk.alive() && !self.dropped.get()
    }

    /// Whether it leads by this session.
    pub fn leads(&self, zk: &Rc<KeeperSession>) -> bool {
        self.leader.get() && self.uses(zk)
    }

    /// The log's new entries are in the queue when this returns.
    pub async fn pull_now(self: &Rc<Self>, zk: &Rc<KeeperSession>) -> Result<(), KeeperError> {
        queue::pull(self, zk, None).await
    }

    // --- a table's beginning --------------------------------------------------------------------

    pub fn new(server: &Rc<Server>, disk: Rc<TableDisk>) -> Rc<Table> {
        let (world, paths) = (&server.world, TablePaths::new(&disk.path));
        let own = paths.of(&server.name);
        Rc::new(Table {
            server: server.clone(),
            world: world.clone(),
            bugs: server.bugs,
            me: server.name.clone(),
            name: disk.name.clone(),
            deciding: deciding(&paths, &own),
            own,
            paths,
            schema: disk.schema.clone(),
            settings: disk.settings.clone(),
            disk,
            active: RefCell::default(),
            zk: RefCell::default(),
            readonly: Cell::new(true),
            leader: Cell::new(false),
            fetches_stopped: Cell::new(false),
            to_check: RefCell::default(),
            mutations: RefCell::default(),
            numbered: RefCell::default(),
            queue: Queue::new(world),
            missing: Missing::new(world),
            pulls: Lock::new(world),
            choosing: Lock::new(world),
            dropped: Cell::new(false),
            host: Cell::new(0),
            listed: RefCell::default(),
            answers: RefCell::default(),
            replaced: Cell::new(0),
        })
    }

    /// Its nodes in ZooKeeper, where another replica has not made them; and this replica.
    pub async fn create(self: &Rc<Self>, zk: &Rc<KeeperSession>) -> Result<(), KeeperError> {
        let (path, paths, own) = (&self.disk.path, &self.paths, &self.own);
        for (end, _) in path.match_indices('/').skip(1) {
            ensure(zk, &path[..end], Data::default()).await?;
        }
        ensure(zk, path, Data::default()).await?;
        for name in NODES {
            ensure(zk, &child(path, name), Data::default()).await?;
        }
        ensure(zk, &paths.last_part, Data::Last(Rc::default())).await?;
        ensure(zk, &paths.failed_parts, Data::default()).await?;
        let logged = zk.children(paths.log.clone()).await?;
        let pointer = logged.first().map_or(0, |name| queue::log_number(name));
        let others = zk.children(paths.replicas.clone()).await?;
        let lost = if others.is_empty() || pointer == 0 {
            "0"
        } else {
            "1"
        };
        let operations = vec![
            Operation::create(own.root.clone(), Data::default()),
            Operation::create(own.host.clone(), Data::Number(0)),
            Operation::create(own.log_pointer.clone(), Data::Number(pointer)),
            Operation::create(own.queue.clone(), Data::default()),
            Operation::create(own.parts.clone(), Data::default()),
            Operation::create(own.is_lost.clone(), Data::text(lost)),
        ];
        zk.multi(operations).await?;
        Ok(())
    }

    /// Compares the disk with ZooKeeper, when the server starts. What is here and not there is set
    /// aside; what is there and not here is to be fetched.
    ///
    /// The list lacks nothing that was committed before the session was opened, for that is a
    /// write itself. What an earlier life sent may be committed later (18.16.1: checkParts).
    pub async fn attach(self: &Rc<Self>, zk: &Rc<KeeperSession>) -> Result<(), KeeperError> {
        let listed = zk.children(self.own.parts.clone()).await?;
        let mut parts: Vec<Rc<Part>> = {
            let mut parts = self.disk.parts.borrow_mut();
            parts.retain(|part| listed.contains(&part.name));
            parts.some(|_| true)
        };
        parts.sort_by(|a, b| {
            let levels = b.info.level.cmp(&a.info.level);
            levels.then_with(|| a.info.cmp(&b.info))
        });
        for part in &parts {
            part.old_ns.set(0);
            self.activate(part);
            if self.active.borrow().get(&part.info).is_none() {
                part.old_ns.set(self.world.now_ns().max(1));
            }
        }
        for name in listed.iter() {
            if self.part(name).is_some() {
                continue;
            }
            let info = Info::named(name);
            let mut operations = vec![Operation::remove(child(&self.own.parts, name))];
            let covered = self.active.borrow().containing(&info).is_some();
            if !covered {
                let entry = Data::Entry(Rc::new(Entry::get(info)));
                operations.push(queue::queued(self, entry));
            }
            zk.multi(operations).await?;
        }
        Ok(())
    }

    /// The restarting thread, for ever: starts, notices a lost session, starts again.
    pub async fn live(self: Rc<Self>) {
        for _ in 0..WORKERS {
            self.spawn(queue::work(self.clone()));
        }
        self.spawn(missing::search(self.clone()));
        for part in self.active.borrow().things() {
            self.queue.virtual_parts.borrow_mut().add(&part.info, ());
        }
        while !self.dropped.get() {
            if self.writable().is_err() {
                self.readonly.set(true);
                if !self.bugs.has(Bug::StaleLeaderMerges) {
                    self.leader.set(false);
                }
                if self.start().await.is_err() {
                    self.world.sleep(RETRY_NS).await;
                    continue;
                }
            }
            self.world.sleep(CHECK_NS).await;
        }
    }

    /// A task of the server's.
    fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        self.world.spawn(Some(&self.server.process), work);
    }

    async fn start(self: &Rc<Self>) -> Result<(), Trouble> {
        let zk = &self.server.keeper().await?;
        self.zk.replace(Some(zk.clone()));
        if !self.bugs.has(Bug::PhantomPart) {
            self.ask_outcomes(zk).await?;
        }
        let checks = if self.bugs.has(Bug::FailedPartKept) {
            Vec::new()
        } else {
            self.remove_failed(zk).await?
        };
        self.become_active(zk, checks).await?;
        clone_if_lost(self, zk).await?;
        queue::load(self, zk).await?;
        self.pull_now(zk).await?;
        self.join_quorum(zk).await?;
        let (table, session) = (self.clone(), zk.clone());
        self.spawn(async move {
            // Without its session it is no candidate any more.
            let _ = table.elect(session).await;
        });
        self.readonly.set(false);
        self.spawn(queue::follow(self.clone(), zk.clone()));
        self.spawn(queue::learn(self.clone(), zk.clone()));
        self.spawn(cleanup::clean(self.clone(), zk.clone()));
        self.queue.wake();
        Ok(())
    }

    /// What must hold when it becomes active: the part that was pending, asked for first, has not
    /// failed since.
    async fn remove_failed(&self, zk: &Rc<KeeperSession>) -> Result<Vec<Operation>, KeeperError> {
        let failed = &self.paths.failed_parts;
        let mut checks = Vec::new();
        if !self.bugs.has(Bug::FailedPartMissed) {
            zk.barrier().await?;
            let status = zk.get(self.paths.quorum_status.clone()).await?;
            if let Some((status, _)) = status {
                let name = status.as_quorum().part.name();
                checks.push(Operation::absent(child(failed, &name)));
            }
        }
        for name in zk.children(failed.clone()).await?.iter() {
            let part: Path = child(&self.own.parts, name);
            if zk.exists(part.clone()).await? {
                zk.remove(part).await?;
            }
            if let Some(part) = self.part(name) {
                self.forget(&part);
                self.queue.virtual_parts.borrow_mut().remove(&part.info);
            }
        }
        Ok(checks)
    }

    /// Of the inserts whose connection was lost. One that is on its way still removes its block's
    /// node; without it, it cannot happen any more.
    async fn ask_outcomes(&self, zk: &Rc<KeeperSession>) -> Result<(), KeeperError> {
        let to_check = self.to_check.borrow().clone();
        for (name, lock) in to_check {
            zk.remove(lock).await?;
            let committed = zk.exists(child(&self.own.parts, &name)).await?;
            if let Some(part) = self.part(&name) {
                if committed {
                    self.activate(&part);
                } else {
                    self.forget(&part);
                }
            }
            self.to_check.borrow_mut().shift_remove(&name);
        }
        Ok(())
    }

    /// is_active is this session's, and host changes with it, from which on no part that is here
    /// can fail.
    async fn become_active(
        &self,
        zk: &Rc<KeeperSession>,
        mut operations: Vec<Operation>,
    ) -> Result<(), KeeperError> {
        if self.bugs.has(Bug::DedupForgotten) {
            let path = &self.paths.blocks;
            let blocks = zk.children(path.clone()).await?;
            let removals = blocks
                .iter()
                .map(|name| Operation::remove(child(path, name)));
            zk.multi(removals.collect()).await?;
        }
        let path = &self.own.is_active;
        let identity = Data::Text(self.server.identity.clone());
        let found = zk.get(path.clone()).await?;
        if found.is_some_and(|(data, _)| data == identity) {
            zk.remove(path.clone()).await?;
        }
        self.host.set(self.host.get() + 1);
        operations.push(Operation::Create {
            path: path.clone(),
            data: identity,
            ephemeral: true,
            sequential: false,
        });
        let host = Data::Number(self.host.get());
        operations.push(Operation::put(self.own.host.clone(), host));
        zk.multi(operations).await?;
        Ok(())
    }

    async fn join_quorum(self: &Rc<Self>, zk: &Rc<KeeperSession>) -> Result<(), KeeperError> {
        let status = zk.get(self.paths.quorum_status.clone()).await?;
        let Some((status, _)) = status else {
            return Ok(());
        };
        let status = status.as_quorum();
        if status.replicas.contains(&self.me) {
            return Ok(());
        }
        let name = status.part.name();
        if zk.exists(child(&self.own.parts, &name)).await? {
            update_quorum(self, zk, &status.part, &name).await?;
        }
        Ok(())
    }

    /// The first in line leads; everybody else watches the one ahead.
    async fn elect(self: Rc<Self>, zk: Rc<KeeperSession>) -> Result<(), KeeperError> {
        let election = &self.paths.leader_election;
        let candidate = Operation::Create {
            path: child(election, "leader_election-"),
            data: Data::Text(self.me.clone()),
            ephemeral: true,
            sequential: true,
        };
        let mine = zk.create(candidate).await?;
        let (_, name) = mine.rsplit_once('/').expect("a path");
        while self.uses(&zk) {
            let line = zk.children(election.clone()).await?;
            if !line.contains(name) {
                return Ok(());
            }
            let Some(ahead) = line.before(name) else {
                self.leader.set(true);
                merge::select(&self, zk).await;
                return Ok(());
            };
            let gone = Promise::new();
            let ahead = Reading::exists(child(election, ahead));
            if !zk.read_one(ahead, Some(&gone)).await?.is_nothing() {
                self.world.wait(&gone).await;
            }
        }
        Ok(())
    }
}

/// Makes a node unless there is one.
pub async fn ensure(zk: &Rc<KeeperSession>, path: &str, data: Data) -> Result<(), KeeperError> {
    match zk.create(Operation::create(path, data)).await {
        Err(error) if error.code != NODE_EXISTS => Err(error),
        _ => Ok(()),
    }
}
