//! Moves the parts of a partition between the local disk and the object store: ALTER TABLE … MOVE
//! PARTITION … TO VOLUME.
//!
//! Source: the first description of zero-copy replication over S3, in which a replica looks whether
//! another has moved the part, and then only refers to that copy; 25.8 (MergeTreePartsMover,
//! tryToFetchIfShared), in which the replica that moves holds the exclusive lock of the part.

use std::rc::Rc;

use crate::errors::{QueryError, ServerError};
use crate::keeper::session::KeeperSession;
use crate::table::fetch::{download, Held};
use crate::table::parts::Part;
use crate::table::replica::Table;
use crate::table::shared::{self, LOCKED};

/// UNKNOWN_DISK, which is 25.8's answer if there is nothing to move.
const UNKNOWN_DISK: i32 = 479;

/// Moves the visible parts of a partition that are not yet on the wanted side.
pub async fn move_partition(
    table: &Rc<Table>,
    partition: &str,
    to_store: bool,
) -> Result<(), QueryError> {
    let zk = table.writable()?;
    let parts: Vec<_> = {
        let active = table.active.borrow();
        let parts = active.of(partition);
        parts
            .filter(|part| shared::is_stored(table, &part.name) != to_store)
            .cloned()
            .collect()
    };
    if parts.is_empty() || !table.disk.storage.hybrid {
        let text = format!("All parts of partition {partition} are already on volume");
        return Err(ServerError::new(UNKNOWN_DISK, text).into());
    }
    for part in parts {
        // A fetch of the part is as good a reason to leave it alone as another move.
        let name = &part.name;
        if table
            .fetching
            .borrow_mut()
            .insert(name.clone(), ())
            .is_some()
        {
            let text = format!("Part {name} participates in a background process");
            return Err(ServerError::new(LOCKED, text).into());
        }
        let moved = if to_store {
            to_the_store(table, &zk, &part).await
        } else {
            from_the_store(table, &part).await
        };
        table.fetching.borrow_mut().shift_remove(name);
        shared::end_fetch(table, &zk, name).await;
        moved?;
    }
    Ok(())
}

async fn from_the_store(table: &Table, part: &Part) -> Result<(), QueryError> {
    shared::read(table, std::iter::once(&part.name)).await?;
    table.disk.references.release(&part.name);
    Ok(())
}

/// Writes a copy, or refers to that of a replica that has moved the part already. From the look at
/// the others to its own lock it holds the part's exclusive lock. If the session that holds it is
/// lost, the copy cannot be locked, and the move is given up.
async fn to_the_store(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Rc<Part>,
) -> Result<(), QueryError> {
    shared::begin_move(table, zk, &part.name).await?;
    let moved = match shared::holder(table, zk, &part.name).await {
        Ok(Some(holder)) => refer(table, zk, part, holder).await,
        Ok(None) => write(table, zk, part).await,
        Err(error) => Err(error.into()),
    };
    shared::end_move(table, zk, &part.name).await;
    if table.part(&part.name).is_none() {
        // The part was removed meanwhile.
        table.disk.references.release(&part.name);
    }
    moved
}

async fn write(table: &Table, zk: &KeeperSession, part: &Part) -> Result<(), QueryError> {
    let blob = shared::upload(table, &part.rows, true).await?;
    Ok(shared::attach(table, zk, &part.name, blob).await?)
}

/// Fetches the metadata of a part of which only the data are here.
async fn refer(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Rc<Part>,
    replica: Rc<str>,
) -> Result<(), QueryError> {
    shared::begin_fetch(table, zk, &part.name).await?;
    let held = Held {
        replica,
        info: part.info.clone(),
        name: part.name.clone(),
    };
    if let Some(blob) = download(table, &held).await?.blob {
        if shared::share(table, zk, &part.name, &blob).await? {
            return Ok(());
        }
    }
    let text = format!("Part {} is on the store no more", part.name);
    Err(ServerError::new(LOCKED, text).into())
}
