//! A select, in the five readings: which parts does it read?
//!
//! - `plain`: what this replica has.
//! - `server`: select_sequential_consistency as 18.16.1 does it
//!   (StorageReplicatedMergeTree::read).
//! - `sync`: the same after a ZooKeeper `sync`.
//! - `thesis`: after a `sync`, every committed part must be here; those of pending and of failed
//!   quorums are left out.
//! - `linearizable`: after a write of nothing, the parts that ZooKeeper says are here, at one
//!   moment.

use std::ops::Deref;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::block::Block;
use crate::errors::{ServerError, Trouble};
use crate::keeper::session::{self, Found, KeeperSession, Readings};
use crate::keeper::tree::Names;
use crate::table::cover::Cover;
use crate::table::entries::{Data, EntryKind};
use crate::table::listed::Listed;
use crate::table::parts::{Info, Part};
use crate::table::paths::{ReplicaPaths, TablePaths};
use crate::table::replica::Table;
use crate::table::selection::Selection;

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
    pub fn named(name: &str) -> Option<Reading> {
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

/// What a select takes of the parts that it reads. Error 289 where this replica lacks what others
/// have.
pub async fn answer(
    table: &Table,
    reading: Reading,
    selection: &Rc<Selection>,
) -> Result<Rc<Block>, Trouble> {
    if reading == Reading::Plain {
        return Ok(here(&table.active.borrow(), selection, |_| true)?);
    }
    let zk = table.connected()?;
    if reading == Reading::Linearizable {
        zk.barrier().await?;
        let found = zk.read_again(&table.deciding).await?;
        return Ok(linearizable(table, &found, selection)?);
    }
    // The others have a place of their own while they go on.
    Box::pin(async {
        if reading == Reading::Thesis {
            return thesis(table, &zk, selection).await;
        }
        if reading == Reading::Sync {
            zk.sync().await?;
        }
        server(table, &zk, selection).await
    })
    .await
}

/// Of those that are read, in the order in which they came.
fn here(
    active: &Cover<Rc<Part>>,
    selection: &Selection,
    is_read: impl Fn(&Part) -> bool,
) -> Result<Rc<Block>, ServerError> {
    let is_read = |part: &&Rc<Part>| is_read(part);
    let parts: Vec<_> = match &selection.partition {
        Some(partition) => active.of(partition).filter(is_read).collect(),
        None => active.things().filter(is_read).collect(),
    };
    selection.of(&parts).map(Rc::new)
}

async fn server(
    table: &Table,
    zk: &KeeperSession,
    selection: &Selection,
) -> Result<Rc<Block>, Trouble> {
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
    Ok(here(&active, selection, |part| {
        let largest = largest.get(&part.info.partition);
        part.info.max <= largest.copied().unwrap_or(-1)
    })?)
}

/// The last block number of each partition.
fn largest_blocks(active: &Cover<Rc<Part>>) -> FxHashMap<Rc<str>, i64> {
    let largest = active.partitions().map(|partition| {
        let ends = active.infos(partition).map(|info| info.max);
        let last = ends.max().expect("a partition has parts");
        (partition.clone(), last)
    });
    largest.collect()
}

fn lacks(info: &Info) -> ServerError {
    let text = format!(
        "Replica doesn't have part {} which was successfully written to quorum of other replicas.",
        info.name()
    );
    ServerError::new(289, text)
}

/// Local parts first: what is pending or failed among them is known by the reads that follow.
///
/// The model of the thesis has no insert of unknown outcome, so that every local part is in the
/// log. Here one may be local that never will be: see docs/simulated-cluster.md.
async fn thesis(
    table: &Table,
    zk: &KeeperSession,
    selection: &Selection,
) -> Result<Rc<Block>, Trouble> {
    let active = table.active.borrow().clone();
    zk.sync().await?;
    let found = zk.read_again(&table.deciding).await?;
    let state = State::of(&found)?;
    check_committed(&state, &active)?;
    Ok(here(&active, selection, |part| !state.leaves_out(part))?)
}

/// Everything is decided by one moment of ZooKeeper, at or after the barrier: the committed parts
/// are those of the log less the pending and the failed; each must be among the parts that
/// ZooKeeper lists for this replica, and those are what is read.
fn linearizable(
    table: &Table,
    found: &Rc<[Found]>,
    selection: &Rc<Selection>,
) -> Result<Rc<Block>, ServerError> {
    let mut answers = table.answers.borrow_mut();
    answers.be_of(table, found)?;
    if let Some(known) = answers.of(selection) {
        return Ok(known);
    }
    let state = State::of(found)?;
    let listed = table.listed(state.made, state.parts);
    answers.of_parts(selection, &read(&listed, &state, selection)?)
}

/// What is listed at that moment, and is to be read.
fn read<'a>(
    listed: &'a Listed,
    state: &State,
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

/// What was answered last, and from which moment of ZooKeeper's and of the disk.
#[derive(Default)]
pub struct Answers {
    found: Option<Rc<[Found]>>,
    replaced: u64,
    /// How many moments there were that do not read as the one before.
    moment: u64,
    known: Vec<Known>,
}

struct Known {
    selection: Rc<Selection>,
    parts: Vec<Rc<Part>>,
    block: Rc<Block>,
    /// The last one at which these parts were to be read.
    moment: u64,
}

impl Known {
    fn is_of(&self, parts: &[&Rc<Part>]) -> bool {
        let mut pairs = self.parts.iter().zip(parts);
        self.parts.len() == parts.len() && pairs.all(|(one, other)| Rc::ptr_eq(one, other))
    }
}

impl Answers {
    const MOST: usize = 64;

    /// From now on they are of this moment, at which all that is committed must be here. Those of
    /// the one before are the same where it lists and leaves out the same.
    fn be_of(&mut self, table: &Table, found: &Rc<[Found]>) -> Result<(), ServerError> {
        let replaced = table.replaced.get();
        let before = self.found.as_ref().filter(|_| self.replaced == replaced);
        if before.is_some_and(|before| Rc::ptr_eq(before, found)) {
            return Ok(());
        }
        let state = State::of(found)?;
        check_committed(&state, &table.listed(state.made, state.parts).cover)?;
        let is_same =
            |before: &Rc<[Found]>| State::of(before).is_ok_and(|before| before.reads_as(&state));
        if !before.is_some_and(is_same) {
            self.moment += 1;
        }
        (self.found, self.replaced) = (Some(found.clone()), replaced);
        Ok(())
    }

    fn of(&self, selection: &Rc<Selection>) -> Option<Rc<Block>> {
        let known = &self.known[self.place(selection)?];
        (known.moment == self.moment).then(|| known.block.clone())
    }

    /// The latest are asked for most.
    fn place(&self, selection: &Rc<Selection>) -> Option<usize> {
        let mut known = self.known.iter();
        known.rposition(|known| Rc::ptr_eq(&known.selection, selection))
    }

    /// Of the parts that are to be read now: the same block where they are the same.
    fn of_parts(
        &mut self,
        selection: &Rc<Selection>,
        parts: &[&Rc<Part>],
    ) -> Result<Rc<Block>, ServerError> {
        let at = self.place(selection);
        if let Some(known) = at.map(|at| &mut self.known[at]) {
            if known.is_of(parts) {
                known.moment = self.moment;
                return Ok(known.block.clone());
            }
        }
        let block = Rc::new(selection.of(parts)?);
        let known = Known {
            selection: selection.clone(),
            parts: parts.iter().copied().cloned().collect(),
            block: block.clone(),
            moment: self.moment,
        };
        match at {
            Some(at) => self.known[at] = known,
            None => {
                if self.known.len() == Answers::MOST {
                    self.known.clear();
                }
                self.known.push(known);
            }
        }
        Ok(block)
    }
}

/// What decides a select: the quorum that is pending, those that failed, whether the replica is
/// lost, its parts, the log from its pointer on, and its queue.
pub fn deciding(paths: &TablePaths, own: &ReplicaPaths) -> Rc<Readings> {
    Readings::new([
        session::Reading::get(paths.quorum_status.clone()),
        session::Reading::children(paths.failed_parts.clone()),
        session::Reading::get(own.is_lost.clone()),
        session::Reading::listed(own.parts.clone()),
        session::Reading::ahead(paths.log.clone(), own.log_pointer.clone()),
        session::Reading::values(own.queue.clone()),
    ])
}

/// What that was, at one moment.
struct State<'a> {
    pending: Option<&'a Info>,
    failed: Option<&'a Names>,
    /// How often the list of this replica's parts changed.
    made: i64,
    parts: &'a Names,
    /// From the replica's pointer on.
    log: &'a [(Rc<str>, Data)],
    queue: &'a [(Rc<str>, Data)],
}

impl<'a> State<'a> {
    fn of(found: &'a [Found]) -> Result<State<'a>, ServerError> {
        let [status, failed, lost, parts, log, queue] = found else {
            panic!("an answer for each reading");
        };
        match (lost, parts) {
            (Found::Get(lost, _), Found::Listed(made, parts)) if lost.as_text() == "0" => {
                Ok(State {
                    pending: match status {
                        Found::Get(status, _) => Some(&status.as_quorum().part),
                        _ => None,
                    },
                    failed: match failed {
                        Found::Children(failed) => Some(failed),
                        _ => None,
                    },
                    made: *made,
                    parts,
                    log: log.as_values(),
                    queue: queue.as_values(),
                })
            }
            _ => Err(ServerError::new(289, "Replica is lost, or being cloned.")),
        }
    }

    /// Whether another lists the same parts, and leaves out the same.
    fn reads_as(&self, other: &State) -> bool {
        let (failed, others) = (
            self.failed.map(Names::deref),
            other.failed.map(Names::deref),
        );
        self.made == other.made && self.pending == other.pending && failed == others
    }

    /// Whether a part's quorum is pending, or has failed.
    fn leaves_out(&self, part: &Part) -> bool {
        self.is_left_out(&part.info, &part.name)
    }

    /// Whether nothing of the partition is left out, at the first glance.
    fn leaves_none_out(&self, partition: Option<&str>) -> bool {
        let is_pending = |info: &Info| Some(&*info.partition) == partition;
        self.failed.is_none_or(|failed| failed.is_empty()) && !self.pending.is_some_and(is_pending)
    }

    fn is_left_out(&self, info: &Info, name: &str) -> bool {
        self.pending == Some(info) || self.failed.is_some_and(|failed| failed.contains(name))
    }
}

/// Error 289 for a committed part that is not here. Those that the replica may lack are in the log
/// from its pointer on, and in its queue; what it had before is here.
fn check_committed<T>(state: &State, here: &Cover<T>) -> Result<(), ServerError> {
    for (_, entry) in state.log.iter().chain(state.queue) {
        let entry = entry.as_entry();
        if entry.kind != EntryKind::Get || here.containing(&entry.new).is_some() {
            continue;
        }
        if !state.is_left_out(&entry.new, &entry.name) {
            return Err(lacks(&entry.new));
        }
    }
    Ok(())
}
