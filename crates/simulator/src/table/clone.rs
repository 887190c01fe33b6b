//! Lets a lost replica copy the queue and the parts of another one.
//!
//! Source: cloneReplicaIfNeeded, cloneReplica of 18.16.1, and of 25.8, which forgets before that what
//! the lost replica was to do and what the other one does not have.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError};
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Names, Operation};
use crate::table::active_parts::ActivePartSet;
use crate::table::columns;
use crate::table::entries::{Data, Entry, TableData};
use crate::table::listed::cover_of;
use crate::table::parts::Info;
use crate::table::paths::ReplicaPaths;
use crate::table::replica::Table;

/// Clones another replica if this one is lost. After an error it is still lost and tries again.
pub async fn clone_if_lost(table: &Rc<Table>, zk: &Rc<KeeperSession>) -> Result<(), QueryError> {
    let is_lost = &table.own.is_lost;
    if zk.data(is_lost.clone()).await?.as_text() == "0" {
        return Ok(());
    }
    let replicas = zk.children(table.paths.replicas.clone()).await?;
    for replica in replicas.iter() {
        if *replica == table.me {
            continue;
        }
        let source = table.paths.of(replica);
        let Some((lost, version)) = zk.get(source.is_lost.clone()).await? else {
            continue;
        };
        if lost.as_text() == "0" || table.bugs.has(Bug::CloneLost) {
            if table.bugs.has(Bug::CloneUnfinished) {
                zk.put(is_lost.clone(), Data::text("0")).await?;
            }
            if !table.bugs.has(Bug::CloneKeepsDropped) {
                forget_queue(table, zk).await?;
            }
            clone(table, zk, &source, version).await?;
            zk.put(is_lost.clone(), Data::text("0")).await?;
            return Ok(());
        }
    }
    Err(ServerError::new(415, "All replicas are lost").into())
}

/// Copies the source. In this order, entries may be copied twice, but none is missed.
async fn clone(
    table: &Table,
    zk: &KeeperSession,
    source: &ReplicaPaths,
    lost_version: i64,
) -> Result<(), KeeperError> {
    assert_ne!(
        source.root, table.own.root,
        "a replica does not clone itself"
    );
    let pointer = zk.data(source.log_pointer.clone()).await?;
    let operations = vec![
        Operation::put(table.own.log_pointer.clone(), pointer),
        // The source must not become lost meanwhile.
        Operation::check(source.is_lost.clone(), Some(lost_version)),
    ];
    zk.multi(operations).await?;
    let reading = Reading::values(source.queue.clone());
    let queued = zk.read_one(reading, None).await?.values();
    let reading = Reading::listed(source.parts.clone());
    let listed = zk.read_one(reading, None).await?;
    let names = match listed.listed() {
        Some((_, names)) if !table.bugs.has(Bug::CloneNoParts) => names,
        _ => Names::default(),
    };
    let listed = names.iter().map(|name| (Info::named(name), ()));
    for (info, ()) in cover_of(listed).pairs() {
        queue(table, zk, Data::payload(Entry::get(info.clone()))).await?;
    }
    for (_, entry) in &queued {
        queue(table, zk, entry.clone()).await?;
    }
    if let Some(alter) = columns::cloned(table, zk, source).await? {
        queue(table, zk, Data::payload(alter)).await?;
    }
    if !table.bugs.has(Bug::CloneKeepsDropped) && !table.bugs.has(Bug::CloneNoParts) {
        let log = Reading::ahead(table.paths.log.clone(), table.own.log_pointer.clone());
        let logged = zk.read_one(log, None).await?.values();
        let entries = queued.iter().chain(&logged);
        let made = |entry: &Entry| entry.made().cloned().collect::<Vec<_>>();
        let entries = entries.flat_map(|(_, entry)| made(entry.as_entry()));
        let entries = entries.map(|info| (info, ()));
        let listed = names.iter().map(|name| (Info::named(name), ()));
        forget_dropped(table, zk, &cover_of(listed.chain(entries))).await?;
    }
    Ok(())
}

/// Empties the queue of the lost replica. What it was to make may have been dropped meanwhile, and
/// what is not is copied from the source. 18.16.1 keeps it.
async fn forget_queue(table: &Table, zk: &KeeperSession) -> Result<(), KeeperError> {
    let own = zk.children(table.own.queue.clone()).await?;
    let entries = own.iter().map(|name| child(&table.own.queue, name));
    let gone: Vec<_> = entries.map(Operation::remove).collect();
    if !gone.is_empty() {
        zk.multi(gone).await?;
    }
    table.queue.clear();
    for part in table.active.borrow().values() {
        table.queue.virtual_parts.borrow_mut().add(&part.info, ());
    }
    Ok(())
}

/// Removes the parts that the source neither has nor will have, because their partition was dropped
/// meanwhile. 18.16.1 keeps them.
async fn forget_dropped(
    table: &Table,
    zk: &KeeperSession,
    kept: &ActivePartSet<()>,
) -> Result<(), KeeperError> {
    let gone = |info: &Info| kept.containing(info).is_none();
    let own = zk.children(table.own.parts.clone()).await?;
    for name in own.iter().filter(|name| gone(&Info::named(name))) {
        zk.remove(child(&table.own.parts, name)).await?;
    }
    // Some may be listed no more, by a drop that was not answered and is queued no more.
    let active = table.active.borrow();
    let shown: Vec<Info> = active.values().map(|part| part.info.clone()).collect();
    drop(active);
    shown
        .iter()
        .filter(|info| gone(info))
        .for_each(|info| table.hide(info));
    Ok(())
}

async fn queue(table: &Table, zk: &KeeperSession, entry: Data) -> Result<(), KeeperError> {
    let path = table.own.queue_entry.clone();
    zk.create(Operation::numbered(path, entry)).await?;
    Ok(())
}
