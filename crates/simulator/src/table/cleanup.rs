//! Removes old parts and, on the leader, old log entries and old blocks; marks replicas that were
//! left behind as lost.
//!
//! Source: ReplicatedMergeTreeCleanupThread of 18.16.1.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError, NO_NODE};
use crate::keeper::paths::number_of;
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation};
use crate::table::entries::Data;
use crate::table::part_files;
use crate::table::parts::Part;
use crate::table::replica::Table;
use crate::table::shared;
use crate::world::{MS, SECOND};

/// Cleans up as long as the session lives.
pub async fn clean(table: Rc<Table>, zk: Rc<KeeperSession>) {
    let led = table.leader.get();
    while table.uses(&zk) {
        let period = table.settings.cleanup_delay_period * SECOND;
        table.world.sleep(table.world.around(period)).await;
        if !table.uses(&zk) {
            return;
        }
        // The next round repeats what failed.
        let _ = clean_once(&table, &zk, led).await;
    }
}

/// Cleans up once. `led` says whether the replica led when the task began.
async fn clean_once(table: &Table, zk: &KeeperSession, led: bool) -> Result<(), QueryError> {
    old_parts(table, zk).await?;
    if table.disk.storage.on_store {
        Box::pin(shared::clean(table, zk)).await?;
    }
    if table.leader.get() {
        if led || !table.bugs.has(Bug::LogUncut) {
            clear_log(table, zk).await?;
        }
        old_blocks(table, zk).await?;
    }
    Ok(())
}

async fn old_parts(table: &Table, zk: &KeeperSession) -> Result<(), QueryError> {
    let _guard = table.removals.hold().await;
    let before = table.age_clock_ns() - table.settings.old_parts_lifetime * SECOND;
    let is_old = |part: &Part| (1..before).contains(&part.old_ns.get());
    let old = table.disk.parts.borrow().some(is_old);
    if !table.disk.device.quiet() {
        part_files::change(table)?;
    }
    for part in old {
        let shown = table.active.borrow().get(&part.info).is_some();
        assert!(
            !shown || table.bugs.any_planted(),
            "an old part is not active"
        );
        let path = child(&table.own.parts, &part.name);
        zk.remove(path).await?;
        table.forget(&part);
    }
    Ok(())
}

/// A replica that is behind or lost: its log pointer, and the version of its node `host`.
struct LaggingReplica {
    replica: Rc<str>,
    host: i64,
    pointer: i64,
}

/// Removes the entries that every replica has copied. Inactive replicas that are too far behind do
/// not count and are marked as lost.
async fn clear_log(table: &Table, zk: &KeeperSession) -> Result<(), QueryError> {
    let settings = &table.settings;
    let names = zk.children(table.paths.log.clone()).await?;
    if (names.len() as f64) < settings.min_replicated_logs_to_keep as f64 * 1.1 {
        return Ok(());
    }
    let keep = names
        .len()
        .saturating_sub(settings.max_replicated_logs_to_keep as usize);
    let oldest_kept = names.get(keep);
    let oldest_kept = number_of(oldest_kept.expect("at least one entry is kept"));
    let LogReaders {
        needed,
        recovering,
        candidates,
        lost,
    } = log_readers(table, zk, oldest_kept).await?;
    let pointers = needed.iter().chain(&recovering).copied();
    let mut until = if table.bugs.has(Bug::TruncateMax) {
        pointers.max().unwrap_or(0)
    } else {
        pointers.min().unwrap_or(0)
    };
    if !recovering.is_empty() {
        let pointers = candidates.iter().map(|behind| behind.pointer);
        until = pointers.fold(until, i64::min);
    }
    let old = names.len() - settings.min_replicated_logs_to_keep as usize;
    let removed = names
        .iter()
        .take(old)
        .filter(|name| number_of(name) < until);
    let sound = |name: &&Rc<str>| needed.iter().all(|pointer| number_of(name) < *pointer);
    assert!(
        table.bugs.has(Bug::TruncateMax) || removed.clone().all(|name| sound(&name)),
        "no removed entry is needed by a replica that keeps up"
    );
    let removed = removed.map(|name| Operation::remove(child(&table.paths.log, name)));
    let mut operations: Vec<Operation> = removed.collect();
    if operations.is_empty() {
        return Ok(());
    }
    if !table.bugs.has(Bug::LostUnmarked) {
        mark_lost(table, zk, &candidates, needed.len() + candidates.len()).await?;
    }
    operations.extend(lost.iter().chain(&candidates).map(|behind| {
        let host = table.paths.of(&behind.replica).host.clone();
        Operation::check(host, Some(behind.host))
    }));
    zk.multi(operations).await?;
    Ok(())
}

/// The replicas of a table by how far they have copied the log.
#[derive(Default)]
struct LogReaders {
    /// Pointers of replicas that keep up.
    needed: Vec<i64>,
    /// Pointers of lost replicas that are active again.
    recovering: Vec<i64>,
    /// Inactive replicas that are too far behind.
    candidates: Vec<LaggingReplica>,
    lost: Vec<LaggingReplica>,
}

async fn log_readers(
    table: &Table,
    zk: &KeeperSession,
    oldest_kept: i64,
) -> Result<LogReaders, QueryError> {
    let mut readers = LogReaders::default();
    let replicas = zk.children(table.paths.replicas.clone()).await?;
    for replica in replicas.iter() {
        let own = table.paths.of(replica);
        let readings = [
            Reading::get(own.log_pointer.clone()),
            Reading::exists(own.is_active.clone()),
            Reading::get(own.is_lost.clone()),
            Reading::get(own.host.clone()),
        ];
        let [pointer, active, is_lost, host] = zk.read_all(readings, None).await?;
        // Another replica may have dropped it meanwhile.
        let gone = || KeeperError::of(NO_NODE, &own.root);
        let pointer = pointer.get().ok_or_else(gone)?.0.as_number();
        let active = !active.is_nothing();
        let behind = LaggingReplica {
            replica: replica.clone(),
            host: host.get().ok_or_else(gone)?.1,
            pointer,
        };
        if is_lost.get().ok_or_else(gone)?.0.as_text() == "1" {
            readers.lost.push(behind);
            if active {
                readers.recovering.push(pointer);
            }
        } else if active || pointer >= oldest_kept {
            readers.needed.push(pointer);
        } else {
            readers.candidates.push(behind);
        }
    }
    Ok(readers)
}

async fn mark_lost(
    table: &Table,
    zk: &KeeperSession,
    candidates: &[LaggingReplica],
    others: usize,
) -> Result<(), QueryError> {
    if !candidates.is_empty() && candidates.len() == others {
        let text = "All replicas are stale: we won't mark any replica as lost";
        return Err(ServerError::new(415, text).into());
    }
    for behind in candidates {
        let own = table.paths.of(&behind.replica);
        // The version changes when the replica becomes active.
        let operations = vec![
            Operation::check(own.host.clone(), Some(behind.host)),
            Operation::put(own.is_lost.clone(), Data::text("1")),
        ];
        zk.multi(operations).await?;
    }
    Ok(())
}

/// Keeps the latest blocks, and of these the ones that are not much older than the last.
///
/// The server looks at the time of every block each time; here the look is left out as long as
/// no clock was set, nothing can be too old, and hardly more than the window are there.
async fn old_blocks(table: &Table, zk: &KeeperSession) -> Result<(), KeeperError> {
    let settings = &table.settings;
    let window = settings.replicated_deduplication_window;
    let window_ms = settings.replicated_deduplication_window_seconds * SECOND / MS;
    let path = &table.paths.blocks;
    let reading = Reading::count(path.clone());
    let count = zk.read_one(reading, None).await?.count();
    let few = count.expect("a table has this node") as f64 <= window as f64 * 1.1;
    if few && !table.world.walls_set() && table.world.now_ns() / MS <= window_ms {
        return Ok(());
    }
    let reading = Reading::Dated(path.clone());
    let blocks = zk.read_one(reading, None).await?.values();
    let ages = blocks.iter().map(|(name, at)| (at.as_number(), name));
    let mut ages: Vec<(i64, &Rc<str>)> = ages.collect();
    ages.sort();
    let Some((mut last_ms, _)) = ages.last().copied() else {
        return Ok(());
    };
    if table.bugs.has(Bug::DedupOwnClock) {
        last_ms = table.wall_ns() / MS;
    }
    let many = ages.len().saturating_sub(window as usize);
    let old = ages
        .iter()
        .enumerate()
        .filter(|(at, (ms, _))| *at < many || *ms < last_ms - window_ms);
    let old: Vec<_> = old
        .map(|(_, (_, name))| Operation::remove(child(path, name)))
        .collect();
    if !old.is_empty() {
        zk.multi(old).await?;
    }
    Ok(())
}
