//! OPTIMIZE, where the table's leader is: assigns a merge, and waits until every replica did it.
//!
//! Source: optimize, waitForReplicaToProcessLogEntry of StorageReplicatedMergeTree, and
//! selectAllPartsToMergeWithinPartition, of 18.16.1.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::Trouble;
use crate::keeper::session::{Found, Reading};
use crate::keeper::tree::child;
use crate::table::merge::{assign, Logged};
use crate::table::replica::Table;
use crate::world::Promise;

/// Merges the partition's parts into one, or every partition's, if it is to be final; else some
/// neighbours. Where that may not be now, nothing happens.
pub async fn optimize(
    table: &Rc<Table>,
    partition: Option<&str>,
    is_final: bool,
    wait: bool,
) -> Result<(), Trouble> {
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
            let logged = assign(table, &zk, one.as_deref(), is_final).await?;
            last = logged.or(last);
        }
    }
    if let (true, Some(last)) = (wait, last) {
        let replicas = zk.children(table.paths.replicas.clone()).await?;
        for replica in replicas.iter() {
            done(table, replica, &last).await?;
        }
    }
    Ok(())
}

/// Waits until a replica has done what the entry says: it has copied it to its queue, and removed
/// it from there. One that is lost moves its pointer first, then takes over a queue, in which
/// another entry may make the part.
async fn done(table: &Table, replica: &Rc<str>, logged: &Logged) -> Result<(), Trouble> {
    let own = table.paths.of(replica);
    let pointer = Reading::get(own.log_pointer.clone());
    until(table, pointer, |found| {
        let pointer = found.get();
        pointer.is_some_and(|(pointer, _)| pointer.as_number() > logged.number)
    })
    .await?;
    let careless = table.bugs.has(Bug::CloneUnwaited);
    if !careless {
        let lost = Reading::get(own.is_lost.clone());
        until(table, lost, |found| {
            let lost = found.get();
            lost.is_none_or(|(lost, _)| lost.as_text() == "0")
        })
        .await?;
    }
    let queue = Reading::values(own.queue.clone());
    let queue = table.connected()?.read_one(queue, None).await?.values();
    // Their numbers differ from replica to replica.
    for (name, entry) in queue {
        let entry = entry.as_entry();
        if *entry == logged.entry || (!careless && entry.new.contains(&logged.entry.new)) {
            let queued = Reading::exists(child(&own.queue, &name));
            until(table, queued, |found| found.is_nothing()).await?;
        }
    }
    Ok(())
}

/// Reads whenever what is read has changed, until it is so.
async fn until(table: &Table, reading: Reading, so: impl Fn(Found) -> bool) -> Result<(), Trouble> {
    loop {
        let changed = Promise::new();
        let zk = table.connected()?;
        if so(zk.read_one(reading.clone(), Some(&changed)).await?) {
            return Ok(());
        }
        table.world.wait(&changed).await;
    }
}
