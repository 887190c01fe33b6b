//! Copies partitions between two tables: REPLACE PARTITION and ATTACH PARTITION FROM, and the entries
//! of REPLACE_RANGE that they and MOVE PARTITION TO TABLE log in the table that receives the parts.
//!
//! Source: replacePartitionFrom, getFakePartCoveringAllPartsInPartition and
//! clearLockedBlockNumbersInPartition of StorageReplicatedMergeTree of 25.8. One departure: nothing
//! prevents a replica from making parts of a range while it copies them (addDropReplaceIntent).
//!
//! The server copies the parts that its replica has, as they are: without those that it has not
//! fetched yet, and without the mutations that they lack. Without these defects the replica first
//! executes whatever the log has of the partition, and a copy has the effect of all mutations.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError, BAD_VERSION};
use crate::keeper::paths::number_of;
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Done, Operation, Path};
use crate::protocol::Mechanism;
use crate::server::Settings;
use crate::table::block_numbers::{reserve, INSERT, OTHER, RANGE};
use crate::table::drop_range::{await_begun, forget_blocks};
use crate::table::entries::{Copied, Copies, Data, Entry};
use crate::table::insert::block_id_of;
use crate::table::log::pull;
use crate::table::merge::{logging, Logged};
use crate::table::mutation::changed;
use crate::table::optimize::wait_for_replicas;
use crate::table::part_files;
use crate::table::partition_version::{
    changed_meanwhile, next_version, unchanged, unmutated, version_of, TRIES,
};
use crate::table::parts::{Info, Part, Rows, HIGHEST};
use crate::table::replica::Table;
use crate::world::{Ns, MS};

/// Median time of linking the files of a small part.
pub const CLONE_NS: Ns = MS;
const NOT_IMPLEMENTED: i32 = 48;

/// Copies the visible parts of a partition of another table, in place of those that are here if it
/// `replaces` them.
pub async fn copy_partition(
    table: &Rc<Table>,
    from: &Rc<Table>,
    partition: &Rc<str>,
    replaces: bool,
    settings: &Settings,
) -> Result<(), QueryError> {
    let zk = prepared(table, from)?;
    let whole = range_until(partition, HIGHEST);
    // Parts whose entries this replica has not executed yet are not among them.
    let mut sources = within(from, &whole);
    let crosses = table.bugs.has(Bug::CrossedCopies);
    for attempt in 0..TRIES {
        let mut checks = Vec::new();
        if !crosses {
            checks = unchanged(from, &zk).await?;
            // A mutation here would change those of the new parts that have lower numbers.
            checks.push(unmutated(table, &zk).await?);
        }
        if !table.bugs.has(Bug::StaleReplace) && (attempt == 0 || !crosses) {
            // A mutation that was acknowledged changes what one of a lower number commits later.
            await_begun(from, &zk, partition).await?;
            catch_up(from, &zk, &whole).await?;
            sources = within(from, &whole);
        }
        let version = version_of(table, &zk).await?;
        let (number, lock) = delimited(table, &zk, partition).await?;
        // In a partition without a block there is nothing to replace.
        let range = (replaces && number > 0).then(|| range_until(partition, number));
        let deduplicates = range.is_none() || table.bugs.has(Bug::ReplaceDeduplicated);
        let mut draft = Draft::new(from, range, vec![lock]);
        let logged = match draft.fill(table, &zk, &sources, deduplicates).await {
            Ok(()) => draft.commit(table, &zk, version, checks).await,
            Err(error) => Err(error),
        };
        if !matches!(logged, Ok(Some(_))) {
            draft.release(&zk).await?;
        }
        if let Some(Committed { logged, .. }) = logged? {
            pull(table, &zk, None).await?;
            return Ok(wait_for_replicas(table, &zk, &logged, settings).await?);
        }
    }
    Err(changed_meanwhile().into())
}

/// Returns the session, if both tables may be used.
pub fn prepared(table: &Table, other: &Table) -> Result<Rc<KeeperSession>, ServerError> {
    let simulated = table.mechanisms.has(Mechanism::CopiedPartitions);
    if !simulated || table.disk.storage.on_store || other.disk.storage.on_store {
        let text = "Copies of partitions are simulated of 25.8, and not on an object store";
        return Err(ServerError::new(NOT_IMPLEMENTED, text));
    }
    table.writable()
}

/// Returns the range of every block number up to this one.
pub fn range_until(partition: &Rc<str>, number: i64) -> Info {
    Info {
        partition: partition.clone(),
        min: 0,
        max: number,
        level: HIGHEST,
        mutation: HIGHEST,
    }
}

/// Returns the visible parts of a range.
pub fn within(table: &Table, range: &Info) -> Vec<Rc<Part>> {
    let active = table.active.borrow();
    let parts = active.of(&range.partition);
    let parts = parts.filter(|part| range.contains(&part.info));
    parts.cloned().collect()
}

/// Takes the number below which a statement removes parts. No merge reaches over it.
pub async fn delimited(
    table: &Table,
    zk: &KeeperSession,
    partition: &Rc<str>,
) -> Result<(i64, Path), KeeperError> {
    let taken = reserve(table, zk, partition, None, RANGE).await?;
    Ok(taken.expect("without a block there is no duplicate"))
}

// --- new parts ----------------------------------------------------------------------------------

/// New parts that are committed.
pub struct Committed {
    pub logged: Logged,
    /// The results of the multi, of its other operations as the last.
    pub done: Rc<[Done]>,
}

/// New parts of a table that are not committed yet.
pub struct Draft {
    /// The table whose parts are copied.
    from: Rc<Table>,
    parts: Vec<Rc<Part>>,
    copies: Copies,
    /// What announces the parts.
    operations: Vec<Operation>,
    /// The nodes of the block numbers that are held until then.
    locks: Vec<Path>,
}

impl Draft {
    pub fn new(from: &Rc<Table>, range: Option<Info>, locks: Vec<Path>) -> Draft {
        Draft {
            from: from.clone(),
            parts: Vec::new(),
            copies: Copies {
                from: from.name.clone(),
                range,
                parts: Vec::new(),
            },
            operations: Vec::new(),
            locks,
        }
    }

    /// Returns the rows of a part's copy: as all mutations leave them that its replica knows.
    fn rows_of(&self, table: &Table, source: &Part) -> Result<Rows, ServerError> {
        match table.bugs.has(Bug::UnmutatedCopy) {
            true => Ok(source.rows.clone()),
            false => changed(&self.from, source, HIGHEST),
        }
    }

    /// Makes a new part of each source. If it `deduplicates`, those are left out whose rows are
    /// here by an earlier ATTACH PARTITION FROM.
    pub async fn fill(
        &mut self,
        table: &Rc<Table>,
        zk: &Rc<KeeperSession>,
        sources: &[Rc<Part>],
        deduplicates: bool,
    ) -> Result<(), QueryError> {
        let (mut known, mut duplicates) = (FxHashSet::default(), FxHashSet::default());
        for source in sources {
            let partition = &source.info.partition;
            let rows = self.rows_of(table, source)?;
            let id = block_id_of(table, &format!("{partition}_replace_from"), &rows);
            if duplicates.contains(&id) {
                continue;
            }
            let block = child(&table.paths.blocks, &id);
            let block = (deduplicates && known.insert(id.clone())).then_some(block);
            let holder = if block.is_some() { INSERT } else { OTHER };
            let taken = reserve(table, zk, partition, block.as_ref(), holder).await?;
            let Some((number, lock)) = taken else {
                duplicates.insert(id);
                continue;
            };
            self.locks.push(lock);
            table.world.work(table.world.around(CLONE_NS)).await;
            let kept = table.bugs.has(Bug::CopyKeepsVersion);
            let new = Info {
                level: source.info.level,
                mutation: if kept { source.info.mutation } else { 0 },
                ..Info::block(partition, number)
            };
            let part = made(table, &new, &rows).await?;
            let name = part.name.clone();
            self.operations
                .extend(block.map(|path| Operation::create(path, Data::Text(name))));
            self.operations.push(listed(table, &part));
            self.parts.push(part);
            self.copies.parts.push(Copied {
                source: source.name.clone(),
                new,
                rows,
            });
        }
        Ok(())
    }

    /// Commits the parts and logs the entry, in one multi with other operations; `None` if another
    /// statement changed the partition since `version`. The parts become visible as the range
    /// goes.
    pub async fn commit(
        &self,
        table: &Rc<Table>,
        zk: &Rc<KeeperSession>,
        version: i64,
        others: Vec<Operation>,
    ) -> Result<Option<Committed>, QueryError> {
        if let Some(range) = &self.copies.range {
            cancel_inserts(table, zk, range).await?;
            forget_blocks(table, zk, range).await?;
        }
        let mut operations = self.operations.clone();
        operations.extend(self.locks.iter().cloned().map(Operation::remove));
        let changed = Operation::put(table.paths.log.clone(), Data::default());
        operations.extend([next_version(table, version), changed]);
        operations.extend(others);
        let entry = Rc::new(Entry::replace(table.me.clone(), self.copies.clone()));
        operations.insert(0, logging(table, &entry));
        for part in &self.parts {
            table.store(part.clone());
        }
        match zk.multi(operations).await {
            Ok(done) => {
                show(table, &self.parts, self.copies.range.as_ref());
                let logged = Logged::at(done[0].path(), entry);
                Ok(Some(Committed { logged, done }))
            }
            Err(error) => {
                for part in &self.parts {
                    table.forget(part);
                }
                match error.code == BAD_VERSION {
                    true => Ok(None),
                    false => Err(error.into()),
                }
            }
        }
    }

    /// Gives the block numbers up. Those whose session is lost go by themselves.
    pub async fn release(&self, zk: &KeeperSession) -> Result<(), KeeperError> {
        for lock in &self.locks {
            zk.remove(lock.clone()).await?;
        }
        Ok(())
    }
}

/// Writes a part that is not visible yet.
pub async fn made(table: &Rc<Table>, new: &Info, rows: &Rows) -> Result<Rc<Part>, ServerError> {
    let written = part_files::write(table).await?;
    let part = Part::new(new.clone(), rows.clone(), table.world.now_ns());
    part.written.set(written);
    Ok(part)
}

/// The operation that lists a part as this replica's.
pub fn listed(table: &Table, part: &Part) -> Operation {
    let rows = Data::payload(part.rows.clone());
    Operation::create(child(&table.own.parts, &part.name), rows)
}

/// Shows parts that are committed, and hides those of the range.
pub fn show(table: &Table, parts: &[Rc<Part>], range: Option<&Info>) {
    for part in parts {
        table.activate(part);
    }
    if let Some(range) = range {
        table.hide(range);
    }
}

// --- what a range has ---------------------------------------------------------------------------

/// Removes the block numbers of a range that inserts hold, so that these cannot commit any more.
pub async fn cancel_inserts(
    table: &Table,
    zk: &KeeperSession,
    range: &Info,
) -> Result<(), KeeperError> {
    if table.bugs.has(Bug::InsertsUncancelled) {
        return Ok(());
    }
    let numbers = child(&table.paths.block_numbers, &range.partition);
    let held = zk.read_one(Reading::values(numbers.clone()), None).await?;
    for (name, holder) in held.values() {
        if number_of(&name) <= range.max && holder.as_text() == INSERT {
            zk.remove(child(&numbers, &name)).await?;
        }
    }
    Ok(())
}

/// Waits until this replica has executed what the log has of a range. It knows the mutations that
/// were there by then, because it reads them after the log.
pub async fn catch_up(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    range: &Info,
) -> Result<(), KeeperError> {
    zk.barrier().await?;
    pull(table, zk, None).await?;
    while table.queue.concerns(range) {
        table.queue.sleep(Some(100 * MS)).await;
    }
    Ok(())
}

// --- SYSTEM SYNC REPLICA ------------------------------------------------------------------------

/// Copies the log to the queue, and waits until the replica has executed what is in the queue then.
pub async fn sync_replica(table: &Rc<Table>) -> Result<(), QueryError> {
    pull(table, &table.writable()?, None).await?;
    let names: Vec<_> = table.queue.entries.borrow().keys().cloned().collect();
    let left = || {
        let entries = table.queue.entries.borrow();
        names.iter().any(|name| entries.contains_key(name))
    };
    while left() {
        table.queue.sleep(Some(100 * MS)).await;
    }
    Ok(())
}
