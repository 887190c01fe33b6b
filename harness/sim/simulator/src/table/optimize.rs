//! OPTIMIZE, where the table's leader is: assigns a merge, and waits until every replica did it.
//!
//! Source: optimize, waitForReplicaToProcessLogEntry of StorageReplicatedMergeTree, and
//! selectAllPartsToMergeWithinPartition, of 18.16.1.

use std::rc::Rc;

use crate::errors::Trouble;
use crate::keeper::session::Reading;
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
        let replicas = zk.children(format!("{}/replicas", table.path)).await?;
        for replica in replicas.iter() {
            done(table, replica, &last).await?;
        }
    }
    Ok(())
}

/// Waits until a replica has copied the entry to its queue, and removed it from there.
async fn done(table: &Table, replica: &str, logged: &Logged) -> Result<(), Trouble> {
    let own = format!("{}/replicas/{replica}", table.path);
    loop {
        let changed = Promise::new();
        let reading = Reading::get(format!("{own}/log_pointer"));
        let zk = table.connected()?;
        let pointer = zk.read_one(reading, Some(&changed)).await?.get();
        if pointer.is_some_and(|(pointer, _)| pointer.as_number() > logged.number) {
            break;
        }
        table.world.wait(&changed).await;
    }
    let reading = Reading::values(format!("{own}/queue"));
    let zk = table.connected()?;
    let queue = zk.read_one(reading, None).await?.values();
    // Their numbers differ from replica to replica.
    let mut queue = queue.into_iter();
    let Some((name, _)) = queue.find(|(_, entry)| *entry.as_entry() == logged.entry) else {
        return Ok(());
    };
    loop {
        let changed = Promise::new();
        let reading = Reading::exists(format!("{own}/queue/{name}"));
        let zk = table.connected()?;
        let queued = zk.read_one(reading, Some(&changed)).await?;
        if queued.is_nothing() {
            return Ok(());
        }
        table.world.wait(&changed).await;
    }
}
