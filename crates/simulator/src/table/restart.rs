//! Simulates the restarting thread of a replica: it creates the replica, starts it, and restarts it
//! with each new session.
//!
//! Source: StorageReplicatedMergeTree and ReplicatedMergeTreeRestartingThread of 18.16.1.

use std::future::Future;
use std::rc::Rc;

use crate::bugs::Bug;
use crate::disk::Content;
use crate::errors::{KeeperError, QueryError};
use crate::keeper::paths::number_of;
use crate::keeper::session::{Found, KeeperSession, Reading};
use crate::keeper::tree::{child, Names, Operation, Path};
use crate::protocol::Mechanism;
use crate::table::clone::clone_if_lost;
use crate::table::entries::{Data, Entry, LastParts, TableData};
use crate::table::parts::{Info, Part};
use crate::table::quorum::{join, join_pending};
use crate::table::replica::Table;
use crate::table::{cleanup, columns, execute, log, merge, part_check, shared};
use crate::world::{Ns, Promise, SECOND};

/// zookeeper_session_expiration_check_period in the harness's configuration.
const CHECK_NS: Ns = SECOND;
/// Time between a failed start and the next one (retry_period_ms).
const RETRY_NS: Ns = 10 * SECOND;
/// Number of the pool's threads per table.
const WORKERS: usize = 3;
/// The content of the node that replaces the election where every replica leads.
const EVERYBODY: &str = "all (multiple leaders Ok)";
/// The nodes of a table in ZooKeeper.
const NODES: [&str; 7] = [
    "log",
    "blocks",
    "block_numbers",
    "quorum",
    "replicas",
    "leader_election",
    "mutations",
];

impl Table {
    /// Creates the table's nodes, unless another replica did, and those of this replica. If it
    /// `clones`, it begins as a lost replica does.
    pub async fn create(
        self: &Rc<Self>,
        zk: &Rc<KeeperSession>,
        clones: bool,
    ) -> Result<(), KeeperError> {
        let (path, paths, own) = (&self.disk.path, &self.paths, &self.own);
        for (end, _) in path.match_indices('/').skip(1) {
            zk.ensure(&path[..end], Data::default()).await?;
        }
        zk.ensure(path, Data::default()).await?;
        for name in NODES {
            zk.ensure(&child(path, name), Data::default()).await?;
        }
        zk.ensure(&paths.last_part, Data::payload(LastParts::default()))
            .await?;
        zk.ensure(&paths.failed_parts, Data::default()).await?;
        if self.mechanisms.has(Mechanism::ParallelQuorum) {
            zk.ensure(&paths.quorum_parallel, Data::default()).await?;
        }
        if self.mechanisms.has(Mechanism::ManyLeaders) {
            let everybody = child(&paths.leader_election, "leader_election-0");
            zk.ensure(&everybody, Data::text(EVERYBODY)).await?;
        }
        let logged = zk.children(paths.log.clone()).await?;
        let pointer = logged.first().map_or(0, |name| number_of(name));
        let others = zk.children(paths.replicas.clone()).await?;
        let lost = !others.is_empty() && (pointer > 0 || clones);
        let (lost, pointer) = match self.bugs.has(Bug::ReplicaUnfilled) && clones {
            true => (false, logged.last().map_or(0, |name| number_of(name) + 1)),
            false => (lost, pointer),
        };
        let operations = vec![
            Operation::create(own.root.clone(), Data::default()),
            Operation::create(own.host.clone(), Data::Number(0)),
            Operation::create(own.log_pointer.clone(), Data::Number(pointer)),
            Operation::create(own.queue.clone(), Data::default()),
            Operation::create(own.parts.clone(), Data::default()),
            Operation::create(
                own.is_lost.clone(),
                Data::text(if lost { "1" } else { "0" }),
            ),
        ];
        let nodes = [
            operations,
            columns::own_nodes(self),
            columns::shared_nodes(self, others.is_empty()),
        ];
        zk.multi(nodes.concat()).await?;
        shared::create(self, zk).await
    }

    /// Compares the disk with ZooKeeper when the server starts. Parts that ZooKeeper does not list
    /// are set aside; parts that are not on the disk are fetched.
    ///
    /// The list is complete up to the opening of the session, because the opening is itself a
    /// write. What an earlier life sent may be committed later (18.16.1: checkParts).
    pub async fn attach(self: &Rc<Self>, zk: &Rc<KeeperSession>) -> Result<(), KeeperError> {
        let mut readings = columns::readings(self);
        readings.push(Reading::children(self.own.parts.clone()));
        let mut found = zk.read(readings, None).await?;
        let listed = found.pop().and_then(Found::children).unwrap_or_default();
        columns::take_over(self, found);
        let registered = self.still_registered(zk, &listed).await?;
        let mut parts: Vec<Rc<Part>> = {
            let adopts = self.bugs.has(Bug::OldDiskAdopted);
            let mut parts = self.disk.parts.borrow_mut();
            let adopted = |part: &Part| adopts && part.old_ns.get() == 0;
            parts.retain(|part| {
                let known = listed.contains(&part.name) || adopted(part);
                known && part.content != Content::BadIndex
            });
            parts.some(|_| true)
        };
        let references = &self.disk.references;
        references.reopen(|name| match name.strip_prefix(shared::DETACHED) {
            Some(name) => self.disk.detached.borrow().contains_key(name),
            None => self.part(name).is_some(),
        });
        parts.sort_by(|a, b| {
            let levels = b.info.level.cmp(&a.info.level);
            levels.then_with(|| a.info.cmp(&b.info))
        });
        for part in &parts {
            part.old_ns.set(0);
            self.activate(part);
            if !registered.contains(&part.name) {
                let rows = Data::payload(part.rows.clone());
                let node = Operation::create(child(&self.own.parts, &part.name), rows);
                zk.create(node).await?;
            }
        }
        for name in listed.iter() {
            if self.part(name).is_some() {
                continue;
            }
            let info = Info::named(name);
            let mut operations = Vec::new();
            if registered.contains(name) {
                operations.push(Operation::remove(child(&self.own.parts, name)));
            }
            let covered = self.active.borrow().containing(&info).is_some();
            if !covered && !self.bugs.has(Bug::EmptyDiskForgets) {
                let entry = Data::payload(Entry::get(info));
                operations.push(log::queued(self, entry));
            }
            zk.multi(operations).await?;
        }
        Ok(())
    }

    /// Returns those of the listed parts that are registered when the disk is compared with the
    /// list: all of them. With a planted bug the replica has removed the registrations, and makes
    /// them again as it loads the parts, for which it may lack memory.
    async fn still_registered(
        &self,
        zk: &Rc<KeeperSession>,
        listed: &Names,
    ) -> Result<Names, KeeperError> {
        if !self.bugs.has(Bug::StartUnfinished) {
            return Ok(listed.clone());
        }
        let removal = |name: &Rc<str>| Operation::remove(child(&self.own.parts, name));
        zk.multi(listed.iter().map(removal).collect()).await?;
        if self.server.runs_out_of_memory() {
            self.world.wait(&Promise::<()>::new()).await;
        }
        Ok(Names::default())
    }

    /// The restarting thread, which never ends: starts, notices a lost session, starts again.
    pub async fn live(self: Rc<Self>) {
        assert!(
            self.readonly.get(),
            "the restarting thread begins once in a life"
        );
        for _ in 0..WORKERS {
            self.spawn(execute::work(self.clone()));
        }
        self.spawn(part_check::search(self.clone()));
        for part in self.active.borrow().values() {
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

    /// Starts a task in the server's process.
    fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        self.world.spawn(Some(&self.server.host().process), work);
    }

    async fn start(self: &Rc<Self>) -> Result<(), QueryError> {
        assert!(
            self.readonly.get(),
            "a replica that takes inserts has started"
        );
        let zk = &self.server.host().keeper().await?;
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
        log::load(self, zk).await?;
        log::pull(self, zk, None).await?;
        self.join_quorums(zk).await?;
        let (table, session) = (self.clone(), zk.clone());
        self.spawn(async move {
            // Without its session the replica is not a candidate any more.
            let _ = table.elect(session).await;
        });
        self.readonly.set(false);
        self.spawn(log::follow(self.clone(), zk.clone()));
        self.spawn(log::learn(self.clone(), zk.clone()));
        self.spawn(cleanup::clean(self.clone(), zk.clone()));
        self.queue.wake();
        Ok(())
    }

    /// Returns what must hold when the replica becomes active: the part whose quorum was pending,
    /// which was read first, has not failed since.
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
            if self.mechanisms.has(Mechanism::ParallelQuorum) {
                let pending = zk.children(self.paths.quorum_parallel.clone()).await?;
                let absent = |name: &Rc<str>| Operation::absent(child(failed, name));
                checks.extend(pending.iter().map(absent));
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
                assert!(self.part(name).is_none(), "failed parts are not kept");
            }
        }
        Ok(checks)
    }

    /// Finds out the outcome of inserts whose connection was lost. An insert that is still on its
    /// way removes its block's node; without that node it can no longer be committed.
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

    /// Creates is_active for this session and changes `host` with it. From then on no part on this
    /// replica can fail.
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
        let identity = Data::Text(self.server.host().identity.clone());
        let found = zk.get(path.clone()).await?;
        if found.is_some_and(|(data, _)| data == identity) {
            zk.remove(path.clone()).await?;
        }
        self.starts.set(self.starts.get() + 1);
        assert!(
            self.readonly.get(),
            "an active replica does not become active again"
        );
        operations.push(Operation::Create {
            path: path.clone(),
            data: identity,
            ephemeral: true,
            sequential: false,
        });
        let host = Data::Number(self.starts.get());
        operations.push(Operation::put(self.own.host.clone(), host));
        zk.multi(operations).await?;
        Ok(())
    }

    /// Adds this replica to the pending quorums of parts that it has.
    async fn join_quorums(self: &Rc<Self>, zk: &Rc<KeeperSession>) -> Result<(), KeeperError> {
        if self.mechanisms.has(Mechanism::ParallelQuorum) {
            let has = |part: &Info| self.active.borrow().containing(part).is_some();
            join_pending(self, zk, has).await?;
        }
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
            join(self, zk, &status.part, &name).await?;
        }
        Ok(())
    }

    /// Leads if this replica is the first candidate; otherwise watches the one ahead. With many
    /// leaders there is no election.
    async fn elect(self: Rc<Self>, zk: Rc<KeeperSession>) -> Result<(), KeeperError> {
        if self.mechanisms.has(Mechanism::ManyLeaders) {
            self.leader.set(true);
            merge::select(&self, zk).await;
            return Ok(());
        }
        let election = &self.paths.leader_election;
        let candidate = Operation::Create {
            path: child(election, "leader_election-"),
            data: Data::Text(self.me.clone()),
            ephemeral: true,
            sequential: true,
        };
        let mine = zk.create(candidate).await?;
        let (_, name) = mine.rsplit_once('/').expect("paths have a slash");
        while self.uses(&zk) {
            let line = zk.children(election.clone()).await?;
            if !line.contains(name) {
                return Ok(());
            }
            let Some(ahead) = line.before(name) else {
                assert!(
                    !self.leader.get() || self.bugs.has(Bug::StaleLeaderMerges),
                    "a replica becomes the leader once"
                );
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
