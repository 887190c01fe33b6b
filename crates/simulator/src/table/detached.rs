//! Keeps detached parts, and attaches them again.
//!
//! Source: executeDropRange, attachPartition of StorageReplicatedMergeTree of 18.16.1, where ATTACH
//! is an insert of the detached parts; entries of ATTACH_PART, attachPartHelperFoundValidPart and
//! checkAlterPartitionIsPossible of 25.8. One departure: a detached part stays until its new part is
//! committed, so that it is there twice if that stays unknown.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{QueryError, ServerError};
use crate::keeper::session::KeeperSession;
use crate::protocol::Mechanism;
use crate::table::entries::Entry;
use crate::table::fetch::{commit, Committed};
use crate::table::insert::{self, committed, Block};
use crate::table::listed::cover_of;
use crate::table::parts::{Info, Part};
use crate::table::replica::Table;
use crate::table::retries::Retries;
use crate::table::shared;
use crate::world::Ns;

const SUPPORT_IS_DISABLED: i32 = 344;

/// Returns error 344 if partitions must not be detached because replicas share their objects.
pub fn check_detachable(table: &Table) -> Result<(), ServerError> {
    let disabled = table
        .settings
        .disable_detach_partition_for_zero_copy_replication;
    if table.disk.storage.zero_copy && disabled != 0 {
        let text = "DETACH PARTITION queries are disabled with zero-copy replication";
        return Err(ServerError::new(SUPPORT_IS_DISABLED, text));
    }
    Ok(())
}

/// Keeps the visible parts of a range among the detached ones. What an earlier attempt has kept
/// stays as it is.
pub async fn keep_detached(
    table: &Table,
    zk: &Rc<KeeperSession>,
    range: &Info,
) -> Result<(), QueryError> {
    let parts: Vec<_> = {
        let (active, kept) = (table.active.borrow(), table.disk.detached.borrow());
        let parts = active.of(&range.partition);
        let parts = parts.filter(|part| range.contains(&part.info));
        let parts = parts.filter(|part| !kept.contains_key(&part.name));
        parts.cloned().collect()
    };
    for part in parts {
        shared::detach(table, zk, &part).await?;
        let name = part.name.clone();
        let before = table.disk.detached.borrow_mut().insert(name, part);
        assert!(before.is_none(), "a part is detached once");
    }
    Ok(())
}

/// Attaches every detached part of a partition, one after the other, each as a new block.
pub async fn attach_partition(
    table: &Rc<Table>,
    partition: &str,
    until_ns: Ns,
) -> Result<(), QueryError> {
    table.writable()?;
    let _guard = table.attaching.hold().await;
    let parts: Vec<Rc<Part>> = {
        let detached = table.disk.detached.borrow();
        let parts = detached.values().cloned();
        let parts = parts.filter(|part| *part.info.partition == *partition);
        let cover = cover_of(parts.map(|part| (part.info.clone(), part)));
        cover.values().cloned().collect()
    };
    for part in parts {
        let block = Block::detached(&part);
        if table.mechanisms.has(Mechanism::InsertRetries) {
            committed(table, &block, Retries::new(until_ns)).await?;
        } else {
            insert::commit(table, &table.writable()?, &block, None).await?;
        }
        remove(table, &part);
    }
    Ok(())
}

/// Makes the part of an ATTACH of another replica from a detached part with the same content;
/// returns false if there is none. With zero copy that part has objects of its own, which the
/// server uses all the same; without the defect the replica fetches and shares those of the other.
pub async fn attach_own(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
) -> Result<bool, QueryError> {
    if table.disk.storage.zero_copy && !table.bugs.has(Bug::AttachOwnCopy) {
        return Ok(false);
    }
    let _guard = table.attaching.hold().await;
    let own = {
        let detached = table.disk.detached.borrow();
        let mut parts = detached.values();
        let equal = |part: &&Rc<Part>| {
            part.info.partition == entry.new.partition && entry.content.as_ref() == Some(&part.rows)
        };
        parts.find(equal).cloned()
    };
    let Some(own) = own else {
        return Ok(false);
    };
    let blob = shared::reattach(table, &own.name);
    shared::attach(table, zk, &entry.name, blob).await?;
    let (info, name) = (entry.new.clone(), entry.name.clone());
    let part = Part::named(info, name, own.rows.clone(), table.world.now_ns());
    part.written.set(own.written.get());
    table.store(part.clone());
    let committed = commit(table, zk, &part, None).await?;
    assert_eq!(
        committed,
        Committed::Yes,
        "a part that is attached has no quorum"
    );
    remove(table, &own);
    Ok(true)
}

/// Removes a detached part of which another part was made.
fn remove(table: &Table, part: &Part) {
    let gone = table.disk.detached.borrow_mut().shift_remove(&part.name);
    assert!(gone.is_some(), "a detached part is attached once");
    let name = shared::detached(&part.name);
    table.disk.references.unlink(&name);
}
