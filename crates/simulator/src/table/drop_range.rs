//! Drops or detaches a partition: an entry of the log with the range of every block number that the
//! partition has given out.
//!
//! Source: dropPartition, executeDropRange of StorageReplicatedMergeTree, clearBlocksInPartition and
//! removePartProducingOpsInRange of 18.16.1. One departure: the entry waits until the inserts of its
//! range have ended, so that it removes all of their parts or, on another replica, none.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, BAD_VERSION};
use crate::keeper::paths::number_of;
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation};
use crate::protocol::Mechanism;
use crate::server::Settings;
use crate::table::block_numbers::{reserve, OTHER, RANGE};
use crate::table::detached::keep_detached;
use crate::table::entries::{Data, Entry, EntryKind};
use crate::table::merge::{self, Logged};
use crate::table::optimize::wait_for_replicas;
use crate::table::partition_version::{changed_meanwhile, next_version, version_of, TRIES};
use crate::table::parts::{Info, HIGHEST};
use crate::table::replica::Table;
use crate::world::Promise;

/// Logs the range, as an entry of this kind, on the leader and waits for as many replicas as the settings say.
pub async fn drop_partition(
    table: &Rc<Table>,
    partition: &Rc<str>,
    kind: EntryKind,
    settings: &Settings,
) -> Result<(), QueryError> {
    let zk = table.writable()?;
    for _ in 0..TRIES {
        match logged(table, &zk, partition, kind).await {
            Ok(None) => return Ok(()),
            Ok(Some(logged)) => return Ok(wait_for_replicas(table, &zk, &logged, settings).await?),
            Err(error) if error.code == BAD_VERSION => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(changed_meanwhile().into())
}

/// Takes the number that ends the range, and logs it; `None` if the partition never had a block.
/// BAD_VERSION says that another statement changed the partitions meanwhile.
async fn logged(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    partition: &Rc<str>,
    kind: EntryKind,
) -> Result<Option<Logged>, KeeperError> {
    // No merge is chosen that has parts within the range and behind it.
    let _guard = table.choosing.hold().await;
    let mut others = Vec::new();
    if table.mechanisms.has(Mechanism::CopiedPartitions) {
        others.push(next_version(table, version_of(table, zk).await?));
    }
    // Also in a partition of which this replica's ZooKeeper server has not heard yet.
    let taken = reserve(table, zk, partition, None, OTHER).await?;
    let (next, lock) = taken.expect("without a block there is no duplicate");
    // Other leaders must not merge across the range until they have pulled the entry.
    let many = table.mechanisms.has(Mechanism::ManyLeaders);
    if !many || next == 0 {
        zk.remove(lock.clone()).await?;
    }
    if next == 0 {
        return Ok(None);
    }
    if many {
        let changed = Operation::put(table.paths.log.clone(), Data::default());
        others.extend([changed, Operation::remove(lock.clone())]);
    }
    let range = Info {
        partition: partition.clone(),
        min: 0,
        max: next - 1,
        level: HIGHEST,
        mutation: HIGHEST,
    };
    let done = log_range(table, zk, kind, range, others).await;
    if many && done.is_err() {
        // It goes with the session if that is lost; later drops wait for it until then.
        let _ = zk.remove(lock).await;
    }
    done.map(Some)
}

/// Logs a range once nothing makes parts of it any more, in one multi with other operations.
async fn log_range(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    kind: EntryKind,
    range: Info,
    others: Vec<Operation>,
) -> Result<Logged, KeeperError> {
    let numbers = child(&table.paths.block_numbers, &range.partition);
    await_inserts(table, zk, &numbers, range.max + 1).await?;
    forget_blocks(table, zk, &range).await?;
    let entry = Entry {
        kind,
        source: table.me.clone(),
        ..Entry::get(range)
    };
    merge::log_with(table, zk, entry, others).await
}

/// Waits until the inserts of a partition that have begun are over.
pub async fn await_begun(
    table: &Table,
    zk: &KeeperSession,
    partition: &Rc<str>,
) -> Result<(), KeeperError> {
    let numbers = child(&table.paths.block_numbers, partition);
    let held = zk.read_one(Reading::values(&*numbers), None).await?;
    let held = held.values();
    let last = held.iter().map(|(name, _)| number_of(name)).max();
    match last {
        Some(last) => await_inserts(table, zk, &numbers, last + 1).await,
        None => Ok(()),
    }
}

/// Waits until no insert with a lower number is in progress, nor anything else that has taken a
/// number to make a part.
async fn await_inserts(
    table: &Table,
    zk: &KeeperSession,
    numbers: &str,
    below: i64,
) -> Result<(), KeeperError> {
    loop {
        let changed = Promise::new();
        let reading = Reading::values(numbers);
        let held = zk.read_one(reading, Some(&changed)).await?.values();
        let mut held = held.iter().filter(|(_, holder)| holder.as_text() != RANGE);
        if !held.any(|(name, _)| number_of(name) < below) {
            return Ok(());
        }
        table.world.wait(&changed).await;
    }
}

/// Forgets the blocks of the range, so that they may be inserted again.
pub async fn forget_blocks(
    table: &Table,
    zk: &KeeperSession,
    range: &Info,
) -> Result<(), KeeperError> {
    let path = &table.paths.blocks;
    let blocks = zk.read_one(Reading::values(path.clone()), None).await?;
    let within = |part: &Data| range.contains(&Info::named(part.as_text()));
    let gone = blocks.values().into_iter().filter(|(_, part)| within(part));
    let gone = gone.map(|(name, _)| Operation::remove(child(path, &name)));
    let gone: Vec<_> = gone.collect();
    if !gone.is_empty() {
        zk.multi(gone).await?;
    }
    Ok(())
}

/// Removes what this replica has of a range, and the entries that would make more of it. A DETACH
/// keeps a copy of each part.
pub async fn execute(
    table: &Table,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
) -> Result<(), QueryError> {
    let range = &entry.new;
    clear_queue(table, zk, range, entry).await?;
    if entry.kind == EntryKind::Detach {
        keep_detached(table, zk, range).await?;
    }
    let max = match table.bugs.has(Bug::DropLater) {
        true => HIGHEST,
        false => range.max,
    };
    let range = Info {
        max,
        ..range.clone()
    };
    Ok(remove_parts(table, zk, &range).await?)
}

/// Removes the other entries of the queue of which nothing would be left without the range, and the
/// checks of its parts. A check in progress, which may queue a fetch, is over by then.
pub async fn clear_queue(
    table: &Table,
    zk: &Rc<KeeperSession>,
    range: &Info,
    entry: &Entry,
) -> Result<(), KeeperError> {
    let mut checks = None;
    if !table.bugs.has(Bug::DropUnpaused) {
        checks = Some(table.checks.hold().await);
        table.missing.cancel(range);
    }
    for name in table.queue.drop_range(range, entry) {
        zk.remove(child(&table.own.queue, &name)).await?;
    }
    drop(checks);
    Ok(())
}

/// Removes the parts of a range.
pub async fn remove_parts(
    table: &Table,
    zk: &Rc<KeeperSession>,
    range: &Info,
) -> Result<(), KeeperError> {
    let listed = zk.children(table.own.parts.clone()).await?;
    let within = listed
        .iter()
        .filter(|name| range.contains(&Info::named(name)));
    let gone = within.map(|name| Operation::remove(child(&table.own.parts, name)));
    let gone: Vec<_> = gone.collect();
    if !gone.is_empty() {
        zk.multi(gone).await?;
    }
    table.hide(range);
    Ok(())
}
