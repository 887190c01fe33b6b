//! Moves a partition to another table: MOVE PARTITION TO TABLE.
//!
//! Source: movePartitionToTable of StorageReplicatedMergeTree of 25.8, which copies the parts that its
//! replica has in one transaction, and drops every block number of the partition in a second one.
//! Without its defects the replica first executes whatever the log has of the range, and one
//! transaction does both.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, BAD_VERSION};
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::{Operation, Path};
use crate::server::Settings;
use crate::table::drop_range::forget_blocks;
use crate::table::entries::{Data, Entry, EntryKind};
use crate::table::log::pull;
use crate::table::merge::{append, logging, Logged};
use crate::table::optimize::wait_for_replicas;
use crate::table::partition_version::{
    changed_meanwhile, next_version, unmutated, version_of, TRIES,
};
use crate::table::parts::{Info, Part};
use crate::table::replace_range::{
    cancel_inserts, catch_up, delimited, prepared, range_until, within, Committed, Draft,
};
use crate::table::replica::Table;

/// What a MOVE removes from its table.
struct Removal {
    /// The version of the table's partitions before it.
    version: i64,
    range: Info,
    /// The node of the number that ends the range.
    lock: Path,
}

/// What the first transaction of a MOVE has done.
enum First {
    /// Nothing, because another statement changed one of the tables meanwhile.
    Refused,
    /// The parts are copied, and still to be dropped.
    Copied,
    /// They are copied, and dropped by this entry.
    Moved(Logged),
}

/// Copies the parts of a partition to another table, and drops every block number that the partition
/// has given out.
pub async fn move_to_table(
    table: &Rc<Table>,
    to: &Rc<Table>,
    partition: &Rc<str>,
    settings: &Settings,
) -> Result<(), QueryError> {
    let zk = prepared(table, to)?;
    to.writable()?;
    for _ in 0..TRIES {
        let version = version_of(table, &zk).await?;
        let (number, lock) = delimited(table, &zk, partition).await?;
        let range = range_until(partition, number);
        let removal = Removal {
            version,
            range,
            lock,
        };
        // Between two transactions the parts are hidden and not yet dropped.
        let halves = table.bugs.has(Bug::HalfMoved) || table.bugs.has(Bug::HiddenByMove);
        let first = match halves {
            true => copy_first(table, to, &zk, &removal, settings).await,
            false => move_at_once(table, to, &zk, &removal, settings).await,
        };
        if matches!(first, Err(_) | Ok(First::Refused)) {
            zk.remove(removal.lock.clone()).await?;
        }
        let logged = match first? {
            First::Refused => continue,
            First::Copied => drop_range(table, &zk, removal).await?,
            First::Moved(logged) => logged,
        };
        pull(table, &zk, None).await?;
        return Ok(wait_for_replicas(table, &zk, &logged, settings).await?);
    }
    Err(changed_meanwhile().into())
}

/// Copies and drops in one transaction.
async fn move_at_once(
    table: &Rc<Table>,
    to: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    removal: &Removal,
    settings: &Settings,
) -> Result<First, QueryError> {
    // A mutation of the other table would change those of the new parts that have lower numbers.
    let mut others = vec![unmutated(table, zk).await?, unmutated(to, zk).await?];
    let sources = sources(table, zk, &removal.range).await?;
    let later = i64::from(table.bugs.has(Bug::MoveDropsLater)) * 3;
    let range = range_until(&removal.range.partition, removal.range.max + later);
    let dropped = Rc::new(entry_of(table, &range));
    others.extend([
        next_version(table, removal.version),
        Operation::put(table.paths.log.clone(), Data::default()),
        Operation::remove(removal.lock.clone()),
        logging(table, &dropped),
    ]);
    let committed = copy(table, to, zk, &removal.range, (&sources, others)).await?;
    let Some(Committed { logged, done }) = committed else {
        return Ok(First::Refused);
    };
    pull(to, zk, None).await?;
    wait_for_replicas(to, zk, &logged, settings).await?;
    let last = done.last().expect("every operation has a result");
    Ok(First::Moved(Logged::at(last.path(), dropped)))
}

/// Copies alone, which is the first transaction of two.
async fn copy_first(
    table: &Rc<Table>,
    to: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    removal: &Removal,
    settings: &Settings,
) -> Result<First, QueryError> {
    let sources = sources(table, zk, &removal.range).await?;
    match zk.multi(vec![next_version(table, removal.version)]).await {
        Err(error) if error.code == BAD_VERSION => return Err(changed_meanwhile().into()),
        done => done?,
    };
    let committed = copy(table, to, zk, &removal.range, (&sources, Vec::new())).await?;
    let Some(Committed { logged, .. }) = committed else {
        return Ok(First::Refused);
    };
    if table.bugs.has(Bug::HiddenByMove) {
        table.hide(&removal.range);
    }
    pull(to, zk, None).await?;
    wait_for_replicas(to, zk, &logged, settings).await?;
    Ok(First::Copied)
}

/// Returns the parts of a range that are to be copied.
async fn sources(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    range: &Info,
) -> Result<Vec<Rc<Part>>, KeeperError> {
    if !table.bugs.has(Bug::MovedAway) {
        cancel_inserts(table, zk, range).await?;
        catch_up(table, zk, range).await?;
    }
    Ok(within(table, range))
}

/// Copies parts to another table, in one multi with other operations. Returns `None` if another
/// statement changed one of the tables meanwhile.
async fn copy(
    table: &Rc<Table>,
    to: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    range: &Info,
    (sources, others): (&[Rc<Part>], Vec<Operation>),
) -> Result<Option<Committed>, QueryError> {
    let target = version_of(to, zk).await?;
    let mut draft = Draft::new(table, None, Vec::new());
    let filled = draft.fill(to, zk, sources, false).await;
    let prepared = async {
        filled?;
        cancel_inserts(table, zk, range).await?;
        forget_blocks(table, zk, range).await?;
        draft.commit(to, zk, target, others).await
    };
    let committed = prepared.await;
    if !matches!(committed, Ok(Some(_))) {
        draft.release(zk).await?;
    }
    committed
}

/// Drops what was copied, which is the second transaction of two.
async fn drop_range(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    removal: Removal,
) -> Result<Logged, KeeperError> {
    let changed = Operation::put(table.paths.log.clone(), Data::default());
    let others = vec![changed, Operation::remove(removal.lock)];
    append(zk, table, entry_of(table, &removal.range), others).await
}

/// The entry that drops a range.
fn entry_of(table: &Table, range: &Info) -> Entry {
    Entry {
        kind: EntryKind::Drop,
        source: table.me.clone(),
        ..Entry::get(range.clone())
    }
}
