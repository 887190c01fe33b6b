//! A lost replica takes another's queue and parts for its own.
//!
//! Source: cloneReplicaIfNeeded, cloneReplica of 18.16.1.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, ServerError, Trouble};
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{Names, Operation};
use crate::table::entries::{Data, Entry};
use crate::table::listed::cover_of;
use crate::table::parts::Info;
use crate::table::replica::Table;

/// After an error the replica is still lost, and tries again.
pub async fn clone_if_lost(table: &Rc<Table>, zk: &Rc<KeeperSession>) -> Result<(), Trouble> {
    let is_lost = format!("{}/is_lost", table.own);
    if zk.data(is_lost.as_str()).await?.as_text() == "0" {
        return Ok(());
    }
    let replicas = zk.children(format!("{}/replicas", table.path)).await?;
    for replica in replicas.iter() {
        if *replica == table.me {
            continue;
        }
        let source = format!("{}/replicas/{replica}", table.path);
        let Some((lost, version)) = zk.get(format!("{source}/is_lost")).await? else {
            continue;
        };
        if lost.as_text() == "0" || table.bugs.has(Bug::CloneLost) {
            clone(table, zk, &source, version).await?;
            zk.put(is_lost, Data::text("0")).await?;
            return Ok(());
        }
    }
    Err(ServerError::new(415, "All replicas are lost").into())
}

/// Entries may come twice by this order, and none is left out.
async fn clone(
    table: &Table,
    zk: &KeeperSession,
    source: &str,
    lost_version: i64,
) -> Result<(), KeeperError> {
    let pointer = zk.data(format!("{source}/log_pointer")).await?;
    let operations = vec![
        Operation::put(format!("{}/log_pointer", table.own), pointer),
        // The source must not become lost meanwhile.
        Operation::check(format!("{source}/is_lost"), Some(lost_version)),
    ];
    zk.multi(operations).await?;
    let reading = Reading::values(format!("{source}/queue"));
    let queued = zk.read_one(reading, None).await?.values();
    let reading = Reading::listed(format!("{source}/parts"));
    let listed = zk.read_one(reading, None).await?;
    let names = match listed.listed() {
        Some((_, names)) if !table.bugs.has(Bug::CloneNoParts) => names,
        _ => Names::default(),
    };
    for (info, _) in cover_of(&names, Info::named).pairs() {
        queue(table, zk, Data::Entry(Entry::get(info.clone()).into())).await?;
    }
    for (_, entry) in queued {
        queue(table, zk, entry).await?;
    }
    Ok(())
}

async fn queue(table: &Table, zk: &KeeperSession, entry: Data) -> Result<(), KeeperError> {
    let path = format!("{}/queue/queue-", table.own);
    zk.create(Operation::numbered(path, entry)).await?;
    Ok(())
}
