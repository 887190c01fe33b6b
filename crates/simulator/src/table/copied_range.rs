//! Executes the entries of REPLACE_RANGE: makes the parts of another table's, or fetches them, and
//! removes the range that they replace.
//!
//! Source: executeReplaceRange of StorageReplicatedMergeTree of 25.8. One departure: a replica that
//! does not learn that its parts were committed makes them again when it executes the entry, though
//! ZooKeeper lists them.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError};
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::child;
use crate::table::drop_range::{clear_queue, remove_parts};
use crate::table::entries::{Copied, Copies, Data, Entry};
use crate::table::fetch::{download, search, NO_REPLICA_HAS_PART};
use crate::table::parts::Part;
use crate::table::paths::TablePaths;
use crate::table::replace_range::{listed, made, show, CLONE_NS};
use crate::table::replica::Table;

const PART_IS_TEMPORARILY_LOCKED: i32 = 384;

/// Makes the parts of an entry that are not here, of those of the other table if they are the same,
/// or else of another replica's; then removes the range that they replace.
pub async fn execute(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
    copies: &Copies,
) -> Result<(), QueryError> {
    let mut fetched = Vec::new();
    let done = make(table, zk, entry, copies, &mut fetched).await;
    for name in fetched {
        table.fetching.borrow_mut().shift_remove(&name);
    }
    done
}

/// Executes the entry, and notes in `fetched` which parts no other entry may fetch until its end.
async fn make(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
    copies: &Copies,
    fetched: &mut Vec<Rc<str>>,
) -> Result<(), QueryError> {
    let is_own = entry.source == table.me;
    let kept = table.bugs.has(Bug::ReplaceKeepsRange) && !is_own;
    let range = copies.range.as_ref().filter(|_| !kept);
    if let Some(range) = range {
        clear_queue(table, zk, range, entry).await?;
    }
    let skipped = usize::from(table.bugs.has(Bug::CopySkipsPart) && !is_own);
    let mut parts: Vec<Rc<Part>> = Vec::new();
    for copied in copies.parts.iter().skip(skipped) {
        let covered = parts.iter().any(|part| part.info.contains(&copied.new));
        let here = table.active.borrow().containing(&copied.new).is_some();
        if !covered && !here {
            parts.extend(obtained(table, zk, copied, &copies.from, fetched).await?);
        }
    }
    // Those of an earlier attempt whose answer was lost are listed already.
    let known = zk.children(table.own.parts.clone()).await?;
    let fresh = parts.iter().filter(|part| !known.contains(&part.name));
    let operations: Vec<_> = fresh.map(|part| listed(table, part)).collect();
    for part in &parts {
        table.store(part.clone());
    }
    if !operations.is_empty() {
        if let Err(error) = zk.multi(operations).await {
            for part in &parts {
                table.forget(part);
            }
            return Err(error.into());
        }
    }
    // At one moment, so that no statement copies both.
    show(table, &parts, range);
    if let Some(range) = range {
        remove_parts(table, zk, range).await?;
    }
    Ok(())
}

/// Returns whether some replica of the other table, active or not, lists the source part with the rows
/// of its copy. A copy that nobody can make is checked, and replaced by an empty part.
async fn may_be_copied(
    table: &Table,
    zk: &KeeperSession,
    copied: &Copied,
    from: &str,
) -> Result<bool, KeeperError> {
    let Some(other) = table.server.path_of(from) else {
        return Ok(true);
    };
    let other = TablePaths::new(&other);
    for replica in zk.children(other.replicas.clone()).await?.iter() {
        let path = child(&other.of(replica).parts, &copied.source);
        let rows = zk.get(path).await?;
        if rows.is_some_and(|(rows, _)| rows == Data::payload(copied.rows.clone())) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the new part, or one that covers it; `None` if it is to be dropped anyway.
async fn obtained(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    copied: &Copied,
    from: &str,
    fetched: &mut Vec<Rc<str>>,
) -> Result<Option<Rc<Part>>, QueryError> {
    let wanted = Entry::get(copied.new.clone());
    hold(table, &wanted.name, fetched)?;
    let source = table.server.part_data(from, &copied.source);
    if let Some(source) = source.filter(|source| source.rows == copied.rows) {
        let ns = table.world.around(CLONE_NS) + source.delay_ns;
        table.world.work(ns).await;
        return Ok(Some(made(table, &copied.new, &copied.rows).await?));
    }
    if table.fetches_stopped.get() {
        return Err(ServerError::new(236, "Fetching of parts was cancelled").into());
    }
    let Some(held) = search(table, zk, &wanted).await?.held else {
        if table.queue.drops(&copied.new) {
            return Ok(None);
        }
        if !may_be_copied(table, zk, copied, from).await? {
            table.missing.add(&copied.new);
        }
        let text = format!(
            "Not found part {} (or part covering it) neither source table neither remote replicas",
            wanted.name
        );
        return Err(ServerError::new(NO_REPLICA_HAS_PART, text).into());
    };
    if held.name != wanted.name {
        hold(table, &held.name, fetched)?;
    }
    let rows = download(table, &held).await?.rows;
    Ok(Some(made(table, &held.info, &rows).await?))
}

/// Prevents every other entry from making a part of this name until the end of this one.
fn hold(table: &Table, name: &Rc<str>, fetched: &mut Vec<Rc<str>>) -> Result<(), ServerError> {
    let before = table.fetching.borrow_mut().insert(name.clone(), ());
    if before.is_some() {
        let text = format!("Part {name} is already being fetched");
        return Err(ServerError::new(PART_IS_TEMPORARILY_LOCKED, text));
    }
    fetched.push(name.clone());
    Ok(())
}
