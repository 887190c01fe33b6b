//! Keeps a table's data in an object store, and with zero-copy replication shares it: replicas
//! refer to the same objects, and locks in ZooKeeper say who still does.
//!
//! Source: the first description of zero-copy replication over S3; lock paths, the exclusive lock
//! of a merge and the deletion by the last lock as in StorageReplicatedMergeTree of 25.8
//! (lockSharedData, unlockSharedData, tryCreateZeroCopyExclusiveLock).
//!
//! A replica's disk knows a reference before its objects exist, and until they are gone or left to
//! others. So whatever is interrupted is finished later, by the cleanup of this life or the next.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError, NODE_EXISTS};
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Names, Operation, Path};
use crate::store::Request;
use crate::table::entries::Data;
use crate::table::parts::{Part, Row};
use crate::table::references::{keys, Reference};
use crate::table::replica::Table;
use crate::table::store_requests::{ask, is_missing};
use crate::world::MS;

/// The node below which the locks of all tables are.
const LOCKS: &str = "/clickhouse/zero_copy/zero_copy_s3";
/// The ephemeral node of the replica that merges or mutates into a part.
const EXCLUSIVE: &str = "part_exclusive_lock";
/// Number of attempts to become the one that merges, and the pause between two.
const TURNS: usize = 20;
const TURN_NS: i64 = 100 * MS;
/// PART_IS_TEMPORARILY_LOCKED.
pub const LOCKED: i32 = 384;
/// The directory of detached parts, within that of the table.
pub const DETACHED: &str = "detached/";
/// Bytes of checksums.txt.
const CHECKSUMS_BYTES: i64 = 100;
/// Bytes of a row.
const ROW_BYTES: i64 = 24;

/// The lock of a fetch of this part.
fn temporary(table: &Table, part: &str) -> Path {
    child(&table_path(table), &format!("tmp_fetch_{part}"))
}

fn table_path(table: &Table) -> String {
    format!("{LOCKS}/{}", shared_id(&table.disk.path))
}

/// Returns the ID under which the locks of a table are, the same on every replica.
fn shared_id(path: &str) -> String {
    format!("{:08x}", crc32fast::hash(path.as_bytes()))
}

/// Creates the nodes that locks need.
pub async fn create(table: &Table, zk: &KeeperSession) -> Result<(), KeeperError> {
    if !table.disk.storage.zero_copy {
        return Ok(());
    }
    let own = table_path(table);
    for (end, _) in own.match_indices('/').skip(1) {
        zk.ensure(&own[..end], Data::default()).await?;
    }
    zk.ensure(&own, Data::default()).await?;
    let id = child(&table.disk.path, "table_shared_id");
    zk.ensure(&id, Data::text(&shared_id(&table.disk.path)))
        .await
}

// --- writing ------------------------------------------------------------------------------------

/// Whether parts that are inserted or fetched whole go to the store.
pub fn stores_new(table: &Table) -> bool {
    table.disk.storage.on_store && !table.disk.storage.hybrid
}

/// Whether what replaces these parts goes to the store: as far as any of them.
pub fn stores<'a>(table: &Table, mut parts: impl Iterator<Item = &'a Rc<str>>) -> bool {
    stores_new(table) || parts.any(|part| is_stored(table, part))
}

/// Whether a part refers to objects.
pub fn is_stored(table: &Table, part: &str) -> bool {
    table.disk.references.parts.borrow().contains_key(part)
}

/// Writes a copy of a part that has no name yet. `None` if the part stays on the disk.
pub async fn upload(
    table: &Table,
    rows: &[Row],
    to_store: bool,
) -> Result<Option<Rc<str>>, ServerError> {
    if !to_store {
        return Ok(None);
    }
    let number = table.world.below(1 << 48);
    let blob: Rc<str> = format!("{:03x}/{number:012x}", number >> 36).into();
    let reference = Reference {
        part: "".into(),
        blob: blob.clone(),
    };
    table.disk.references.pending.borrow_mut().push(reference);
    let bytes = [CHECKSUMS_BYTES, ROW_BYTES * (rows.len() as i64 + 1)];
    let new = keys(&blob).into_iter().zip(bytes).collect();
    match ask(table.server.host(), Request::Put(new)).await {
        Ok(()) => Ok(Some(blob)),
        Err(error) => {
            discard(table, Some(blob));
            Err(error)
        }
    }
}

/// Releases a copy of which no part came.
pub fn discard(table: &Table, blob: Option<Rc<str>>) {
    if let Some(blob) = blob {
        let part = "".into();
        let references = &table.disk.references;
        references.settle(Reference { part, blob }, false);
    }
}

/// Locks a copy for the part that is about to be announced, and lets the part refer to it.
pub async fn attach(
    table: &Table,
    zk: &KeeperSession,
    part: &Rc<str>,
    blob: Option<Rc<str>>,
) -> Result<(), KeeperError> {
    let Some(blob) = blob else {
        return Ok(());
    };
    let references = &table.disk.references;
    let reference = Reference {
        part: part.clone(),
        blob,
    };
    for pending in references.pending.borrow_mut().iter_mut() {
        if pending.blob == reference.blob {
            // A copy that was written gets its part now.
            pending.part = part.clone();
        }
    }
    let locked = lock(table, zk, &reference).await;
    references.settle(reference, locked.is_ok());
    locked
}

async fn lock(table: &Table, zk: &KeeperSession, of: &Reference) -> Result<(), KeeperError> {
    if !is_locked(table, &of.part) {
        return Ok(());
    }
    let part = child(&table_path(table), &of.part);
    zk.ensure(&part, Data::default()).await?;
    let blob = child(&part, &flat(&of.blob));
    zk.ensure(&blob, Data::default()).await?;
    zk.ensure(&child(&blob, &table.me), Data::default()).await
}

/// Whether copies of this name have locks. Those that belong to no part yet have none, nor have
/// those of detached parts, to which one replica alone refers.
fn is_locked(table: &Table, name: &str) -> bool {
    table.disk.storage.zero_copy && !name.is_empty() && !name.starts_with(DETACHED)
}

/// Returns the name of a copy's node: a key without slashes.
fn flat(blob: &str) -> String {
    blob.replace('/', "_")
}

// --- detached parts -----------------------------------------------------------------------------

/// Lets a detached part refer to the objects of the part, as a hard link does. With zero copy it
/// gets objects of its own, because nothing locks them.
pub async fn detach(table: &Table, zk: &Rc<KeeperSession>, part: &Part) -> Result<(), QueryError> {
    let (name, references) = (detached(&part.name), &table.disk.references);
    let blob = references.parts.borrow().get(&part.name).cloned();
    match blob {
        Some(_) if table.disk.storage.zero_copy => {
            read(table, std::iter::once(&part.name)).await?;
            let copy = upload(table, &part.rows, true).await?;
            attach(table, zk, &name, copy).await?;
        }
        Some(blob) => references.link(&name, &blob),
        None => {}
    }
    Ok(())
}

/// Returns the copy to which a detached part refers, for the part that is made of it.
pub fn reattach(table: &Table, part: &str) -> Option<Rc<str>> {
    let references = &table.disk.references;
    let blob = references.parts.borrow().get(&detached(part)).cloned()?;
    let reference = Reference {
        part: "".into(),
        blob: blob.clone(),
    };
    references.pending.borrow_mut().push(reference);
    Some(blob)
}

/// Returns the name under which a disk knows what a detached part refers to.
pub fn detached(part: &str) -> Rc<str> {
    [DETACHED, part].concat().into()
}

// --- fetching -----------------------------------------------------------------------------------

/// Locks the part against its deletion elsewhere, before its metadata are asked for. Returns
/// whether they may be asked for.
pub async fn begin_fetch(
    table: &Table,
    zk: &KeeperSession,
    part: &Rc<str>,
) -> Result<bool, KeeperError> {
    if !table.disk.storage.zero_copy {
        return Ok(false);
    }
    if !table.bugs.has(Bug::LockAfterSend) {
        let fetches = &table.disk.references.fetches;
        fetches.borrow_mut().insert(part.clone(), ());
        let node = temporary(table, part);
        zk.ensure(&node, Data::default()).await?;
        zk.ensure(&child(&node, &table.me), Data::default()).await?;
    }
    Ok(true)
}

/// Ends the lock of a fetch, whatever became of it. If this fails, the cleanup repeats it.
pub async fn end_fetch(table: &Table, zk: &KeeperSession, part: &str) {
    let locked = table.disk.references.fetches.borrow().contains_key(part);
    if locked {
        let _ = end_lock(table, zk, part).await;
    }
}

async fn end_lock(table: &Table, zk: &KeeperSession, part: &str) -> Result<(), KeeperError> {
    zk.remove(child(&temporary(table, part), &table.me)).await?;
    // Another fetch may have begun meanwhile and taken the lock again.
    if !table.fetching.borrow().contains_key(part) {
        let mut fetches = table.disk.references.fetches.borrow_mut();
        fetches.shift_remove(part);
    }
    Ok(())
}

/// Refers to the copy of which metadata were received. Returns false if it does not exist, so that
/// the part must be fetched whole; 25.8 does that whatever the error, so that a store that does not
/// answer gets a second copy.
pub async fn share(
    table: &Table,
    zk: &KeeperSession,
    part: &Rc<str>,
    blob: &Rc<str>,
) -> Result<bool, QueryError> {
    match ask(table.server.host(), Request::Find(keys(blob))).await {
        Ok(()) => {}
        Err(error) if is_missing(&error) || table.bugs.has(Bug::CopiedPart) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let reference = Reference {
        part: part.clone(),
        blob: blob.clone(),
    };
    table.disk.references.pending.borrow_mut().push(reference);
    attach(table, zk, part, Some(blob.clone())).await?;
    Ok(true)
}

/// Reads every object of these parts. Error 499 if one is missing.
pub async fn read<'a>(
    table: &Table,
    parts: impl Iterator<Item = &'a Rc<str>>,
) -> Result<(), ServerError> {
    if !table.disk.storage.on_store {
        return Ok(());
    }
    let wanted: Vec<_> = {
        let known = table.disk.references.parts.borrow();
        let blobs = parts.filter_map(|part| known.get(part));
        blobs.flat_map(|blob| keys(blob)).collect()
    };
    ask(table.server.host(), Request::Find(wanted)).await
}

// --- merging ------------------------------------------------------------------------------------

/// Takes the marker of a merge or a mutation. Returns false if another replica has made the part,
/// which then is to be fetched; error 384 if none has after some time.
pub async fn take_turn(
    table: &Table,
    zk: &Rc<KeeperSession>,
    part: &str,
) -> Result<bool, QueryError> {
    if !table.disk.storage.zero_copy || table.bugs.has(Bug::UnmarkedMerge) {
        return Ok(true);
    }
    let node = child(&table_path(table), part);
    zk.ensure(&node, Data::default()).await?;
    for _ in 0..TURNS {
        if made_elsewhere(table, zk, part).await? {
            return Ok(false);
        }
        if zk.create(marker(table, &node)).await.is_ok() {
            // Only behind the marker: a replica locks its copy before it gives the marker up.
            if holder(table, zk, part).await?.is_none() {
                return Ok(true);
            }
            end_turn(table, zk, part).await;
        }
        table.world.sleep(TURN_NS).await;
    }
    let text = format!("Part {part} is being made by another replica");
    Err(ServerError::new(LOCKED, text).into())
}

/// The ephemeral node of whoever makes or moves a part.
fn marker(table: &Table, part: &Path) -> Operation {
    Operation::Create {
        path: child(part, EXCLUSIVE),
        data: Data::Text(table.me.clone()),
        ephemeral: true,
        sequential: false,
    }
}

/// Gives the marker up.
pub async fn end_turn(table: &Table, zk: &KeeperSession, part: &str) {
    if table.disk.storage.zero_copy && !table.bugs.has(Bug::UnmarkedMerge) {
        let node = child(&table_path(table), part);
        // Without its session the marker goes by itself.
        let _ = zk.remove(child(&node, EXCLUSIVE)).await;
    }
}

async fn made_elsewhere(
    table: &Table,
    zk: &KeeperSession,
    part: &str,
) -> Result<bool, KeeperError> {
    for replica in zk.children(table.paths.replicas.clone()).await?.iter() {
        let parts = &table.paths.of(replica).parts;
        if *replica != table.me && zk.exists(child(parts, part)).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns another replica that holds a lock of a copy of the part.
pub async fn holder(
    table: &Table,
    zk: &KeeperSession,
    part: &str,
) -> Result<Option<Rc<str>>, KeeperError> {
    if !table.disk.storage.zero_copy {
        return Ok(None);
    }
    let node = child(&table_path(table), part);
    for blob in zk.children(node.clone()).await?.iter() {
        let holders = zk.children(child(&node, blob)).await?;
        let mut others = holders.iter().filter(|holder| **holder != table.me);
        if let Some(other) = others.next() {
            return Ok(Some(other.clone()));
        }
    }
    Ok(None)
}

// --- moving -------------------------------------------------------------------------------------

/// Takes the marker of a move to the store; error 384 if another replica has it for long.
pub async fn begin_move(table: &Table, zk: &KeeperSession, part: &str) -> Result<(), QueryError> {
    if !table.disk.storage.zero_copy || table.bugs.has(Bug::BothMove) {
        return Ok(());
    }
    let node = child(&table_path(table), part);
    zk.ensure(&node, Data::default()).await?;
    for _ in 0..TURNS {
        match zk.create(marker(table, &node)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code == NODE_EXISTS => table.world.sleep(TURN_NS).await,
            Err(error) => return Err(error.into()),
        }
    }
    let text = format!("Part {part} is being moved by another replica");
    Err(ServerError::new(LOCKED, text).into())
}

/// Gives the marker of a move up.
pub async fn end_move(table: &Table, zk: &KeeperSession, part: &str) {
    if table.disk.storage.zero_copy && !table.bugs.has(Bug::BothMove) {
        let node = child(&table_path(table), part);
        let _ = zk.remove(child(&node, EXCLUSIVE)).await;
    }
}

// --- removal ------------------------------------------------------------------------------------

/// Releases what is no part's any more. What fails is repeated in the next round.
pub async fn clean(table: &Table, zk: &KeeperSession) -> Result<(), QueryError> {
    let references = &table.disk.references;
    let fetches: Vec<_> = references.fetches.borrow().keys().cloned().collect();
    for part in fetches {
        if !table.fetching.borrow().contains_key(&part) {
            end_lock(table, zk, &part).await?;
        }
    }
    let garbage = references.garbage.borrow().clone();
    for reference in garbage {
        if is_released(table, zk, &reference).await? {
            let mut garbage = references.garbage.borrow_mut();
            garbage.retain(|other| *other != reference);
            assert!(!garbage.contains(&reference), "it was released once");
        }
    }
    Ok(())
}

/// Removes the lock, and the objects if it was the last one. Returns false as long as another
/// replica fetches the part: nobody knows yet whether it will refer to the objects.
///
/// The list is complete. A replica that shares the copy was sent metadata by one that had a lock,
/// and had its own lock of the fetch before that. Each of these locks was created before its
/// predecessor's was removed, so whoever sees none of them comes after all.
async fn is_released(
    table: &Table,
    zk: &KeeperSession,
    of: &Reference,
) -> Result<bool, QueryError> {
    let has_lock = is_locked(table, &of.part);
    // A copy may be a part's again: it was fetched after its former part had been removed.
    let references = &table.disk.references;
    let again = references.parts.borrow().get(&of.part) == Some(&of.blob);
    if again || references.pending.borrow().contains(of) {
        return Ok(true);
    }
    if has_lock && !ignores_locks(table) {
        let blob = child(&child(&table_path(table), &of.part), &flat(&of.blob));
        zk.remove(child(&blob, &table.me)).await?;
        let readings = [
            Reading::children(blob),
            Reading::children(temporary(table, &of.part)),
        ];
        let [locks, fetches] = zk.read_all(readings, None).await?;
        let count = |found: Option<Names>| found.map_or(0, |names| names.len());
        if !table.bugs.has(Bug::DeleteWithoutLockCheck) {
            if count(locks.children()) > 0 {
                return Ok(true);
            }
            if count(fetches.children()) > 0 {
                return Ok(false);
            }
        }
    }
    if !references.refers_to(&of.blob) {
        ask(table.server.host(), Request::Delete(keys(&of.blob))).await?;
    }
    Ok(true)
}

/// Whether this life of the server is of a version that does not know the locks.
fn ignores_locks(table: &Table) -> bool {
    table.bugs.has(Bug::Downgrade) && table.server.host().life > 1
}
