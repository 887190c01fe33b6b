//! Decides which parts a select reads, in one of five readings.
//!
//! - `plain`: the parts of this replica.
//! - `server`: select_sequential_consistency as 18.16.1 implements it
//!   (StorageReplicatedMergeTree::read); with the bug EarlySnapshot as 25.8 does.
//! - `sync`: the same after a ZooKeeper `sync`.
//! - `thesis`: after a `sync`, every committed part must be here; parts of pending and failed
//!   quorums are excluded.
//! - `linearizable`: after an empty write, the parts that ZooKeeper lists for this replica at one
//!   moment.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::block::Block;
use crate::bugs::Bug;
use crate::errors::{QueryError, ServerError};
use crate::keeper::session::{Found, KeeperSession};
use crate::table::active_parts::ActivePartSet;
use crate::table::entries::TableData;
use crate::table::listed::Listed;
use crate::table::parts::Part;
use crate::table::replica::Table;
use crate::table::selection::Selection;
use crate::table::snapshot::{check_committed, lacks, Snapshot};

/// Which parts a select reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    Plain,
    Server,
    Sync,
    Thesis,
    Linearizable,
}

impl Reading {
    pub fn from_name(name: &str) -> Option<Reading> {
        Some(match name {
            "plain" => Reading::Plain,
            "server" => Reading::Server,
            "sync" => Reading::Sync,
            "thesis" => Reading::Thesis,
            "linearizable" => Reading::Linearizable,
            _ => return None,
        })
    }
}

/// Returns the result of a select; error 289 if this replica lacks parts that others have.
pub async fn answer(
    table: &Table,
    reading: Reading,
    selection: &Rc<Selection>,
) -> Result<Rc<Block>, QueryError> {
    if reading == Reading::Plain {
        return Ok(here(&table.active.borrow(), selection, |_| true)?);
    }
    let zk = table.connected()?;
    let early = table.bugs.has(Bug::EarlySnapshot);
    let early = early.then(|| table.active.borrow().clone());
    if reading == Reading::Linearizable {
        zk.barrier().await?;
        let found = zk.read_again(&table.deciding).await?;
        let answered = linearizable(table, &found, selection)?;
        return match early {
            Some(early) => {
                let state = Snapshot::of(&found)?;
                Ok(here(&early, selection, |part| !state.leaves_out(part))?)
            }
            None => Ok(answered),
        };
    }
    // The other readings run in a box of their own.
    Box::pin(async {
        if reading == Reading::Thesis {
            return thesis(table, &zk, selection).await;
        }
        if reading == Reading::Sync {
            zk.sync().await?;
        }
        server(table, &zk, selection, early).await
    })
    .await
}

/// Returns the result over these parts, in the order in which they were added.
fn here(
    active: &ActivePartSet<Rc<Part>>,
    selection: &Selection,
    is_read: impl Fn(&Part) -> bool,
) -> Result<Rc<Block>, ServerError> {
    let is_read = |part: &&Rc<Part>| is_read(part);
    let parts: Vec<_> = match &selection.partition {
        Some(partition) => active.of(partition).filter(is_read).collect(),
        None => active.values().filter(is_read).collect(),
    };
    selection.of(&parts).map(Rc::new)
}

/// Reads as the server does: the last quorum part must be here, later ones are left out. 25.8 takes
/// the parts (`early`) when it resolves the table's name, before it looks for that part.
async fn server(
    table: &Table,
    zk: &KeeperSession,
    selection: &Selection,
    early: Option<ActivePartSet<Rc<Part>>>,
) -> Result<Rc<Block>, QueryError> {
    let mut largest = largest_blocks(&table.active.borrow());
    let status = zk.get(table.paths.quorum_status.clone()).await?;
    if let Some((status, _)) = status {
        let pending = &status.as_quorum().part;
        largest.insert(pending.partition.clone(), pending.max - 1);
    }
    let last = zk.get(table.paths.last_part.clone()).await?;
    let active = table.active.borrow();
    if let Some((last, _)) = last {
        for (partition, info) in last.as_last().iter() {
            if active.containing(info).is_none() {
                return Err(lacks(info).into());
            }
            largest.insert(partition.clone(), info.max);
        }
    }
    Ok(here(
        early.as_ref().unwrap_or(&active),
        selection,
        |part| {
            let largest = largest.get(&part.info.partition);
            part.info.max <= largest.copied().unwrap_or(-1)
        },
    )?)
}

/// Returns the last block number of each partition.
fn largest_blocks(active: &ActivePartSet<Rc<Part>>) -> FxHashMap<Rc<str>, i64> {
    let largest = active.partitions().map(|partition| {
        let ends = active.infos(partition).map(|info| info.max);
        let last = ends.max().expect("a partition has parts");
        (partition.clone(), last)
    });
    largest.collect()
}

/// Reads local parts first: the later readings know those that are pending or failed.
///
/// The model of the thesis has no insert of unknown outcome, so every local part is in the log.
/// Here a local part may never get there; see docs/simulated-cluster.md.
async fn thesis(
    table: &Table,
    zk: &KeeperSession,
    selection: &Selection,
) -> Result<Rc<Block>, QueryError> {
    let active = table.active.borrow().clone();
    zk.sync().await?;
    let found = zk.read_again(&table.deciding).await?;
    let state = Snapshot::of(&found)?;
    check_committed(&state, &active)?;
    Ok(here(&active, selection, |part| !state.leaves_out(part))?)
}

/// Decides by one moment of ZooKeeper, at or after the barrier. The committed parts are those of
/// the log without pending and failed ones. Each must be among the parts that ZooKeeper lists for
/// this replica, and the select reads those.
fn linearizable(
    table: &Table,
    found: &Rc<[Found]>,
    selection: &Rc<Selection>,
) -> Result<Rc<Block>, ServerError> {
    let mut answers = table.answers.borrow_mut();
    answers.move_to(table.replaced.get(), found, |now| {
        check_committed(now, &table.listed(now.made, now.parts).cover)
    })?;
    if let Some(known) = answers.of(selection) {
        return Ok(known);
    }
    let state = Snapshot::of(found)?;
    let listed = table.listed(state.made, state.parts);
    answers.of_parts(selection, &read(&listed, &state, selection)?)
}

/// Returns the parts that are listed at that moment and must be read.
fn read<'a>(
    listed: &'a Listed,
    state: &Snapshot,
    selection: &Selection,
) -> Result<Vec<&'a Rc<Part>>, ServerError> {
    let partition = selection.partition.as_deref();
    if let Some(parts) = partition.and_then(|partition| listed.parts_of(partition)) {
        let all = state.leaves_none_out(partition);
        let parts = parts.filter(|part| all || !state.leaves_out(part));
        return Ok(parts.collect());
    }
    let mut parts = Vec::new();
    for (info, part) in listed.cover.pairs() {
        match part {
            Some(part) if state.leaves_out(part) => {}
            Some(part) if partition.is_none_or(|one| *info.partition == *one) => {
                parts.push(part);
            }
            Some(_) => {}
            None if state.is_left_out(info, &info.name()) => {}
            None => {
                let text = format!("Part {} is not on the disk any more.", info.name());
                return Err(ServerError::new(289, text));
            }
        }
    }
    Ok(parts)
}
