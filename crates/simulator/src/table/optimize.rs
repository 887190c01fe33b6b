//! Executes OPTIMIZE on a leader of the table: assigns a merge and waits until every replica has
//! executed it, or until its own has.
//!
//! Source: optimize, waitForReplicaToProcessLogEntry of StorageReplicatedMergeTree, and
//! selectAllPartsToMergeWithinPartition, of 18.16.1; what 25.8 does otherwise is a Mechanism.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError, BAD_VERSION};
use crate::keeper::session::{Found, KeeperSession, Reading};
use crate::keeper::tree::child;
use crate::protocol::Mechanism;
use crate::server::Settings;
use crate::table::entries::TableData;
use crate::table::merge::{assign, Logged};
use crate::table::replica::Table;
use crate::world::Promise;

const CANNOT_ASSIGN_OPTIMIZE: i32 = 388;
/// Number of times that 25.8 tries to assign a merge (max_retries).
const ASSIGNMENTS: usize = 10;
const NOTHING: &str = "Cannot select parts for optimization";

/// Merges all parts of the partition (of every partition without one) if `final`, otherwise some
/// neighbours. If nothing may be merged now, it is a no-op, or an error where the settings say so.
pub async fn optimize(
    table: &Rc<Table>,
    partition: Option<&str>,
    is_final: bool,
    settings: &Settings,
) -> Result<(), QueryError> {
    let zk = table.writable()?;
    let mut partitions = vec![partition.map(Rc::from)];
    if is_final && partition.is_none() {
        let active = table.active.borrow();
        partitions = active.partitions().cloned().map(Some).collect();
        partitions.sort();
    }
    let mut last = None;
    {
        let _guard = table.choosing.hold().await;
        for one in &partitions {
            let logged = assigned(table, &zk, one.as_deref(), is_final).await?;
            last = logged.or(last);
        }
    }
    if last.is_none() && settings.optimize_throw_if_noop {
        return Err(ServerError::new(CANNOT_ASSIGN_OPTIMIZE, NOTHING).into());
    }
    let sync = settings.replication_alter_partitions_sync;
    if let (true, Some(last)) = (sync != 0, last) {
        if sync == 1 && table.mechanisms.has(Mechanism::OwnWait) {
            return Ok(wait_until_executed(table, &table.me, &last).await?);
        }
        let replicas = zk.children(table.paths.replicas.clone()).await?;
        let careless = table.bugs.has(Bug::OptimizeUnwaited);
        let waited_for = |replica: &&Rc<str>| !careless || **replica == table.me;
        for replica in replicas.iter().filter(waited_for) {
            wait_until_executed(table, replica, &last).await?;
        }
    }
    Ok(())
}

/// Assigns a merge; chooses again if another leader logged a choice meanwhile.
async fn assigned(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    partition: Option<&str>,
    is_final: bool,
) -> Result<Option<Logged>, KeeperError> {
    for _ in 1..ASSIGNMENTS {
        match assign(table, zk, partition, is_final).await {
            Err(error) if error.code == BAD_VERSION => {}
            done => return done,
        }
    }
    assign(table, zk, partition, is_final).await
}

/// Waits until as many replicas have executed an entry as `replication_alter_partitions_sync` says:
/// none, this one, or all.
pub async fn wait_for_replicas(
    table: &Table,
    zk: &KeeperSession,
    logged: &Logged,
    settings: &Settings,
) -> Result<(), KeeperError> {
    match settings.replication_alter_partitions_sync {
        0 => {}
        1 => wait_until_executed(table, &table.me, logged).await?,
        _ => {
            for replica in zk.children(table.paths.replicas.clone()).await?.iter() {
                wait_until_executed(table, replica, logged).await?;
            }
        }
    }
    Ok(())
}

/// Waits until a replica has executed an entry: it has copied the entry to its queue and removed it
/// from there. A lost replica first moves its pointer and then copies a queue in which another
/// entry may make the part.
pub async fn wait_until_executed(
    table: &Table,
    replica: &Rc<str>,
    logged: &Logged,
) -> Result<(), KeeperError> {
    let own = table.paths.of(replica);
    let pointer = Reading::get(own.log_pointer.clone());
    read_until(table, pointer, |found| {
        // A replica that was dropped is not waited for.
        let pointer = found.get();
        pointer.is_none_or(|(pointer, _)| pointer.as_number() > logged.number)
    })
    .await?;
    let careless = table.bugs.has(Bug::CloneUnwaited);
    if !careless {
        let lost = Reading::get(own.is_lost.clone());
        read_until(table, lost, |found| {
            let lost = found.get();
            lost.is_none_or(|(lost, _)| lost.as_text() == "0")
        })
        .await?;
    }
    let queue = Reading::values(own.queue.clone());
    let queue = table.session()?.read_one(queue, None).await?.values();
    // The names of queue entries differ between replicas.
    for (name, entry) in queue {
        let entry = entry.as_entry();
        if *entry == *logged.entry || (!careless && entry.covers(&logged.entry)) {
            let queued = Reading::exists(child(&own.queue, &name));
            read_until(table, queued, |found| found.is_nothing()).await?;
        }
    }
    Ok(())
}

/// Reads again whenever the nodes change, until the predicate holds.
async fn read_until(
    table: &Table,
    reading: Reading,
    so: impl Fn(Found) -> bool,
) -> Result<(), KeeperError> {
    loop {
        let changed = Promise::new();
        let zk = table.session()?;
        if so(zk.read_one(reading.clone(), Some(&changed)).await?) {
            return Ok(());
        }
        table.world.wait(&changed).await;
    }
}
