//! Merges and mutations: the leader chooses them, every replica does them.
//!
//! Source: ReplicatedMergeTreeMergePredicate, mergeSelectingTask, tryExecuteMerge,
//! tryExecutePartMutation of 18.16.1. Which neighbours are merged is simpler here.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::bugs::Bug;
use crate::errors::{KeeperError, ServerError, Trouble};
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation};
use crate::table::cover::Cover;
use crate::table::entries::{Data, Entry, EntryKind};
use crate::table::fetch::{commit, Committed};
use crate::table::mutation::{changed, current_version, desired_version, number_of};
use crate::table::parts::{spell_row, Info, Part, Row, Rows, Value};
use crate::table::replica::Table;
use crate::world::{Ns, MS};

/// Of a few small parts, median.
const MERGE_NS: Ns = 10 * MS;

/// An entry, and its number in the log.
pub struct Logged {
    pub number: i64,
    pub entry: Rc<Entry>,
}

/// The leader's task: looks for parts to merge, else to mutate, as long as it leads.
pub async fn select(table: &Rc<Table>, mut zk: Rc<KeeperSession>) {
    loop {
        let present = table.zk.borrow().clone();
        match present.filter(|_| table.bugs.has(Bug::StaleLeaderMerges)) {
            Some(present) => zk = present,
            None if table.leads(&zk) => {}
            None => return,
        }
        let found = {
            let _guard = table.choosing.hold().await;
            choose(table, &zk).await
        };
        if !found.unwrap_or(false) {
            let pause = table.settings.merge_selecting_sleep_ms * MS;
            table.world.sleep(pause).await;
        }
    }
}

/// Writes one entry into the log, if there is a merge or a mutation to be done.
async fn choose(table: &Rc<Table>, zk: &Rc<KeeperSession>) -> Result<bool, KeeperError> {
    let rule = Rule::new(table, zk).await?;
    let Some(entry) = rule.merge().or_else(|| rule.mutation()) else {
        return Ok(false);
    };
    log(table, zk, entry).await?;
    Ok(true)
}

/// Writes a merge into the log: of all parts of a partition, of a single one only if it is to be
/// final; without a partition, of the first neighbours that there are. None: of none.
pub async fn assign(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    partition: Option<&str>,
    is_final: bool,
) -> Result<Option<Logged>, KeeperError> {
    let rule = Rule::new(table, zk).await?;
    let run = match partition {
        None => rule.first_run(2).unwrap_or_default(),
        Some(partition) => {
            let run: Vec<Info> = table.active.borrow().infos(partition).cloned().collect();
            if !rule.joins(&run) || (run.len() == 1 && !is_final) {
                return Ok(None);
            }
            run
        }
    };
    if run.is_empty() {
        return Ok(None);
    }
    log(table, zk, merging(table, run)).await.map(Some)
}

fn merging(table: &Table, run: Vec<Info>) -> Entry {
    let highest = |number: fn(&Info) -> i64| {
        let highest = run.iter().map(number).max();
        highest.expect("a run has parts")
    };
    let (first, last) = (&run[0], &run[run.len() - 1]);
    let new = Info {
        partition: first.partition.clone(),
        min: first.min,
        max: last.max,
        level: highest(|info| info.level) + 1,
        mutation: highest(|info| info.mutation),
    };
    own_entry(table, EntryKind::Merge, new, run)
}

fn own_entry(table: &Table, kind: EntryKind, new: Info, parts: Vec<Info>) -> Entry {
    Entry {
        kind,
        source: table.me.clone(),
        parts,
        ..Entry::get(new)
    }
}

async fn log(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: Entry,
) -> Result<Logged, KeeperError> {
    let entry = Rc::new(entry);
    let path = table.paths.log_entry.clone();
    let node = Operation::numbered(path, Data::Entry(entry.clone()));
    let path = zk.create(node).await?;
    table.pull_now(zk).await?;
    Ok(Logged {
        number: number_of(&path),
        entry,
    })
}

/// Which neighbours may be merged: no part will ever appear between them.
struct Rule<'a> {
    table: &'a Table,
    /// What the queue came to before anything was read.
    before: Cover<()>,
    /// In a quorum's way.
    held: FxHashSet<Info>,
    /// Block numbers of inserts that go on, by partition.
    committing: FxHashMap<Rc<str>, Vec<i64>>,
}

impl<'a> Rule<'a> {
    async fn new(table: &'a Rc<Table>, zk: &Rc<KeeperSession>) -> Result<Rule<'a>, KeeperError> {
        let before = table.queue.virtual_parts.borrow().clone();
        let paths = &table.paths;
        let readings = [
            Reading::get(paths.last_part.clone()),
            Reading::get(paths.quorum_status.clone()),
        ];
        let [last, status] = zk.read_all(readings, None).await?;
        let mut held = FxHashSet::default();
        if let Some((last, _)) = last.get() {
            held.extend(last.as_last().iter().map(|(_, info)| info.clone()));
        }
        if let Some((status, _)) = status.get() {
            held.insert(status.as_quorum().part.clone());
        }
        let mut committing = FxHashMap::default();
        for partition in zk.children(paths.block_numbers.clone()).await?.iter() {
            let blocks = zk.children(child(&paths.block_numbers, partition)).await?;
            let numbers = blocks.iter().map(|name| number_of(name)).collect();
            committing.insert(partition.clone(), numbers);
        }
        table.pull_now(zk).await?;
        Ok(Rule {
            table,
            before,
            held,
            committing,
        })
    }

    /// Of the neighbours that are to be merged first, if anything is.
    fn merge(&self) -> Option<Entry> {
        let settings = &self.table.settings;
        if settings.max_bytes_to_merge_at_max_space_in_pool <= 1 {
            return None;
        }
        let run = self.first_run(settings.parts_to_merge as usize)?;
        Some(merging(self.table, run))
    }

    /// Of the first part that lacks one.
    fn mutation(&self) -> Option<Entry> {
        for (info, _) in self.table.active.borrow().pairs() {
            let lacks = desired_version(self.table, info);
            if let Some(mutation) = lacks.filter(|_| self.free(info)) {
                let new = Info {
                    mutation,
                    ..info.clone()
                };
                let parts = vec![info.clone()];
                return Some(own_entry(self.table, EntryKind::Mutate, new, parts));
            }
        }
        None
    }

    /// Neither in a quorum's way, nor unknown to the log, nor part of something to come.
    fn free(&self, info: &Info) -> bool {
        !self.held.contains(info)
            && self.before.containing(info).is_some()
            && self.table.queue.virtual_parts.borrow().containing(info) == Some(info)
    }

    /// Of the first partition that has one.
    fn first_run(&self, least: usize) -> Option<Vec<Info>> {
        let active = self.table.active.borrow();
        let mut runs = active
            .partitions()
            .map(|one| self.run(active.infos(one), least));
        runs.find(|run| !run.is_empty())
    }

    /// The first so many neighbours, or more, up to twice as many; none if there are none.
    fn run<'i>(&self, infos: impl ExactSizeIterator<Item = &'i Info>, least: usize) -> Vec<Info> {
        let mut run: Vec<Info> = Vec::new();
        if infos.len() < least {
            return run;
        }
        for info in infos {
            let free = self.free(info);
            if !free || run.last().is_some_and(|last| !self.adjacent(last, info)) {
                if !run.is_empty() && run.len() >= least {
                    break;
                }
                run.clear();
            }
            if free {
                run.push(info.clone());
                if run.len() == 2 * least {
                    break;
                }
            }
        }
        if run.len() < least {
            run.clear();
        }
        run
    }

    /// Whether they may all become one.
    fn joins(&self, infos: &[Info]) -> bool {
        let near = infos
            .windows(2)
            .all(|pair| self.adjacent(&pair[0], &pair[1]));
        near && infos.iter().all(|info| self.free(info))
    }

    fn adjacent(&self, left: &Info, right: &Info) -> bool {
        let (low, high) = (left.max + 1, right.min - 1);
        if current_version(self.table, left) != current_version(self.table, right) {
            return false;
        }
        if low > high || self.table.bugs.has(Bug::MergeGap) {
            return true;
        }
        let committing = self.committing.get(&left.partition);
        let mut between = committing.into_iter().flatten();
        let virtual_parts = self.table.queue.virtual_parts.borrow();
        !between.any(|number| (low..=high).contains(number))
            && !virtual_parts.within(&left.partition, low, high)
    }
}

/// Makes the merged part of local parts; false when some are not here.
pub async fn merge(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
) -> Result<bool, Trouble> {
    let mut sources = Vec::with_capacity(entry.parts.len());
    for info in &entry.parts {
        match table.active.borrow().get(info) {
            Some(part) => sources.push(part.clone()),
            None => return Ok(false),
        }
    }
    table.world.sleep(table.world.around(MERGE_NS)).await;
    if table.bugs.has(Bug::MergeDrops) {
        sources.pop();
    }
    let rows = sources.iter().flat_map(|part| part.rows.iter()).cloned();
    let rows = merged_rows(table, rows.collect())?;
    announce(table, zk, entry, rows).await?;
    Ok(true)
}

/// By the table's order, and equal rows as they were: the same on every replica.
fn merged_rows(table: &Table, mut rows: Vec<Row>) -> Result<Rows, ServerError> {
    if table.bugs.has(Bug::MergeOrder) {
        rows.sort_by_cached_key(|row| (hash_of(&table.me, row), row.clone()));
    } else {
        table.schema.sort(&mut rows)?;
    }
    Ok(rows.into())
}

/// A number of a replica's own for each row.
fn hash_of(replica: &str, row: &[Value]) -> u32 {
    let mut text = replica.to_owned();
    spell_row(&mut text, row);
    crc32fast::hash(text.as_bytes())
}

/// Makes the mutated part of the local one; false when that is not here.
pub async fn mutate(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
) -> Result<bool, Trouble> {
    let found = table.active.borrow().get(&entry.parts[0]).cloned();
    let Some(part) = found else {
        return Ok(false);
    };
    table.world.sleep(table.world.around(MERGE_NS)).await;
    let rows = changed(table, &part, entry.new.mutation)?;
    announce(table, zk, entry, rows).await?;
    Ok(true)
}

async fn announce(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
    rows: Rows,
) -> Result<(), Trouble> {
    let (info, name) = (entry.new.clone(), entry.name.clone());
    let part = Part::named(info, name, rows, table.world.now_ns());
    table.store(part.clone());
    let committed = commit(table, zk, &part).await?;
    assert_eq!(committed, Committed::Yes, "only an insert's own part fails");
    Ok(())
}
