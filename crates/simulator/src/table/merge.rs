//! Merges and mutates parts: a leader chooses them, every replica executes the entries.
//!
//! Source: ReplicatedMergeTreeMergePredicate, mergeSelectingTask, tryExecuteMerge,
//! tryExecutePartMutation of 18.16.1; createLogEntryToMergeParts of 25.8 for many leaders. The choice of neighbours is simplified here.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError};
use crate::keeper::paths::number_of;
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation};
use crate::protocol::Mechanism;
use crate::table::active_parts::ActivePartSet;
use crate::table::entries::{Data, Entry, EntryKind, TableData};
use crate::table::expiry;
use crate::table::fetch::{commit, Committed};
use crate::table::log::pull;
use crate::table::mutation::{changed, current_version, desired_version};
use crate::table::part_files;
use crate::table::parts::{append_row_repr, Info, Part, Row, Rows, Value};
use crate::table::replica::Table;
use crate::table::shared;
use crate::world::{Ns, MS};

/// Median time of merging a few small parts.
const MERGE_NS: Ns = 10 * MS;

/// An entry and its number in the log.
pub struct Logged {
    pub number: i64,
    pub entry: Rc<Entry>,
}

impl Logged {
    /// Returns the entry of the node with this path.
    pub fn at(path: &str, entry: Rc<Entry>) -> Logged {
        Logged {
            number: number_of(path),
            entry,
        }
    }
}

/// Selects parts to merge, or else to mutate, as long as this replica leads.
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

/// Logs one entry if a merge or a mutation is possible.
async fn choose(table: &Rc<Table>, zk: &Rc<KeeperSession>) -> Result<bool, KeeperError> {
    let rule = Rule::new(table, zk).await?;
    let expiry = rule.expiry();
    let chosen = expiry.or_else(|| rule.merge());
    let Some(entry) = chosen.or_else(|| rule.mutation()) else {
        return Ok(false);
    };
    rule.log(zk, entry).await?;
    Ok(true)
}

/// Logs a merge of all parts of a partition (of a single part only if `final`), or without a
/// partition of the first possible neighbours. Returns `None` if there is nothing to merge.
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
    rule.log(zk, merging(table, run)).await.map(Some)
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
    let apart = parts.windows(2).all(|pair| pair[0].max < pair[1].min);
    assert!(
        apart || table.bugs.any_planted(),
        "merged parts do not overlap"
    );
    let covers = parts.iter().all(|part| new.contains(part));
    assert!(covers, "a part covers its source parts");
    Entry {
        kind,
        source: table.me.clone(),
        parts,
        made_s: if kind == EntryKind::Merge {
            expiry::now_s(table)
        } else {
            0
        },
        ..Entry::get(new)
    }
}

/// Logs an entry, and copies it to this replica's queue.
pub async fn log(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: Entry,
) -> Result<Logged, KeeperError> {
    log_with(table, zk, entry, Vec::new()).await
}

/// Logs an entry in one multi with other operations.
pub async fn log_with(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: Entry,
    others: Vec<Operation>,
) -> Result<Logged, KeeperError> {
    let logged = append(zk, table, entry, others).await?;
    pull(table, zk, None).await?;
    Ok(logged)
}

/// Logs an entry in one multi with other operations, without a look at the log.
pub async fn append(
    zk: &KeeperSession,
    table: &Table,
    entry: Entry,
    others: Vec<Operation>,
) -> Result<Logged, KeeperError> {
    let entry = Rc::new(entry);
    let done = zk
        .multi([vec![logging(table, &entry)], others].concat())
        .await?;
    Ok(Logged::at(done[0].path(), entry))
}

/// The operation that logs an entry.
pub fn logging(table: &Table, entry: &Rc<Entry>) -> Operation {
    let path = table.paths.log_entry.clone();
    Operation::numbered(path, Data::Payload(entry.clone()))
}

/// Decides which neighbours may be merged, because no part will ever appear between them.
struct Rule<'a> {
    table: &'a Rc<Table>,
    /// The queue's virtual parts before anything was read from ZooKeeper.
    before: ActivePartSet<()>,
    /// Parts of pending or failed quorums.
    held: FxHashSet<Info>,
    /// Block numbers of inserts in progress, by partition.
    committing: FxHashMap<Rc<str>, Vec<i64>>,
    /// With many leaders the version of /log, which every choice changes, before the last pull.
    version: Option<i64>,
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
        let last = last.get().filter(|_| !table.bugs.has(Bug::MergedAway));
        if let Some((last, _)) = last {
            held.extend(last.as_last().iter().map(|(_, info)| info.clone()));
        }
        if let Some((status, _)) = status.get() {
            held.insert(status.as_quorum().part.clone());
        }
        let parallel = table.mechanisms.has(Mechanism::ParallelQuorum);
        if parallel && !table.bugs.has(Bug::PendingMerged) {
            let pending = zk.children(paths.quorum_parallel.clone()).await?;
            held.extend(pending.iter().map(|name| Info::named(name)));
        }
        let mut committing = FxHashMap::default();
        for partition in zk.children(paths.block_numbers.clone()).await?.iter() {
            let blocks = zk.children(child(&paths.block_numbers, partition)).await?;
            let numbers = blocks.iter().map(|name| number_of(name)).collect();
            committing.insert(partition.clone(), numbers);
        }
        let mut version = None;
        if table.mechanisms.has(Mechanism::ManyLeaders) {
            version = zk.get(paths.log.clone()).await?.map(|(_, version)| version);
        }
        pull(table, zk, None).await?;
        Ok(Rule {
            table,
            before,
            held,
            committing,
            version,
        })
    }

    /// Logs a choice; BADVERSION if another leader has logged one that was not pulled before.
    async fn log(&self, zk: &Rc<KeeperSession>, entry: Entry) -> Result<Logged, KeeperError> {
        let unchanged = self.version.map(|version| Operation::Put {
            path: self.table.paths.log.clone(),
            data: Data::default(),
            version: Some(version),
        });
        log_with(self.table, zk, entry, unchanged.into_iter().collect()).await
    }

    /// Returns the merge of a part with rows that have expired.
    fn expiry(&self) -> Option<Entry> {
        let active = self.table.active.borrow();
        let free = active.values().filter(|part| self.free(&part.info));
        let info = expiry::expired_part(self.table, free.map(|part| &**part))?;
        expiry::chosen(self.table, &info);
        Some(merging(self.table, vec![info]))
    }

    /// Returns the merge of the first possible neighbours.
    fn merge(&self) -> Option<Entry> {
        let settings = &self.table.settings;
        if settings.max_bytes_to_merge_at_max_space_in_pool <= 1 {
            return None;
        }
        let run = self.first_run(settings.parts_to_merge as usize)?;
        Some(merging(self.table, run))
    }

    /// Returns the mutation of the first part that lacks one.
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

    /// Whether the part has no pending or failed quorum, is known to the log, and is not about to
    /// be merged.
    fn free(&self, info: &Info) -> bool {
        !self.held.contains(info)
            && self.before.containing(info).is_some()
            && self.table.queue.virtual_parts.borrow().containing(info) == Some(info)
    }

    /// Returns the neighbours of the first partition that has enough.
    fn first_run(&self, least: usize) -> Option<Vec<Info>> {
        let active = self.table.active.borrow();
        let mut runs = active
            .partitions()
            .map(|one| self.run(active.infos(one), least));
        runs.find(|run| !run.is_empty())
    }

    /// Returns the first `least` neighbours or more, up to twice as many; none if there are too
    /// few.
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

    /// Whether these parts may become one.
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

/// Merges local parts; returns false if some are missing.
pub async fn merge(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
) -> Result<bool, QueryError> {
    let mut sources = Vec::with_capacity(entry.parts.len());
    for info in &entry.parts {
        match table.active.borrow().get(info) {
            Some(part) => sources.push(part.clone()),
            None => return Ok(false),
        }
    }
    let to_store = shared::stores(table, sources.iter().map(|part| &part.name));
    if to_store && !shared::take_turn(table, zk, &entry.name).await? {
        return Ok(false);
    }
    let merged = merge_sources(table, zk, entry, sources, to_store).await;
    if to_store {
        shared::end_turn(table, zk, &entry.name).await;
    }
    merged
}

async fn merge_sources(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
    mut sources: Vec<Rc<Part>>,
    to_store: bool,
) -> Result<bool, QueryError> {
    table.world.work(table.world.around(MERGE_NS)).await;
    table.server.host().open(&entry.name)?;
    shared::read(table, sources.iter().map(|part| &part.name)).await?;
    part_files::read(table, &sources).await?;
    if table.bugs.has(Bug::MergeDrops) {
        sources.pop();
    }
    let gone = sources.len() != entry.parts.len();
    assert!(
        !gone || table.bugs.has(Bug::MergeDrops),
        "a merge replaces every source part"
    );
    let rows = sources.iter().flat_map(|part| part.rows.iter()).cloned();
    let rows = expiry::unexpired(table, entry, rows.collect());
    let rows = merged_rows(table, rows)?;
    announce(table, zk, entry, rows, to_store).await?;
    Ok(true)
}

/// Returns the merged rows in the table's order. Equal rows keep their order, so that the result is
/// the same on every replica.
fn merged_rows(table: &Table, mut rows: Vec<Row>) -> Result<Rows, ServerError> {
    if table.bugs.has(Bug::MergeOrder) {
        rows.sort_by_cached_key(|row| (hash_of(&table.me, row), row.clone()));
    } else {
        table.schema.sort(&mut rows)?;
    }
    Ok(rows.into())
}

/// Returns a number for each row that differs between replicas.
fn hash_of(replica: &str, row: &[Value]) -> u32 {
    let mut text = replica.to_owned();
    append_row_repr(&mut text, row);
    crc32fast::hash(text.as_bytes())
}

/// Mutates a local part; returns false if it is missing.
pub async fn mutate(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
) -> Result<bool, QueryError> {
    let found = table.active.borrow().get(&entry.parts[0]).cloned();
    let Some(part) = found else {
        return Ok(false);
    };
    let to_store = shared::stores(table, std::iter::once(&part.name));
    if to_store && !shared::take_turn(table, zk, &entry.name).await? {
        return Ok(false);
    }
    let mutated = mutate_part(table, zk, entry, &part, to_store).await;
    if to_store {
        shared::end_turn(table, zk, &entry.name).await;
    }
    mutated
}

async fn mutate_part(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
    part: &Rc<Part>,
    to_store: bool,
) -> Result<bool, QueryError> {
    table.world.work(table.world.around(MERGE_NS)).await;
    table.server.host().open(&entry.name)?;
    shared::read(table, std::iter::once(&part.name)).await?;
    part_files::read(table, std::slice::from_ref(part)).await?;
    assert!(
        part.info.mutation < entry.new.mutation,
        "a mutation replaces one part"
    );
    let rows = changed(table, part, entry.new.mutation)?;
    announce(table, zk, entry, rows, to_store).await?;
    Ok(true)
}

async fn announce(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
    rows: Rows,
    to_store: bool,
) -> Result<(), QueryError> {
    let (info, name) = (entry.new.clone(), entry.name.clone());
    let written = part_files::write(table).await?;
    let blob = shared::upload(table, &rows, to_store).await?;
    shared::attach(table, zk, &name, blob).await?;
    let part = Part::named(info, name, rows, table.world.now_ns());
    part.written.set(written);
    table.store(part.clone());
    let committed = commit(table, zk, &part, None).await?;
    assert_eq!(
        committed,
        Committed::Yes,
        "only an insert's own part can fail its quorum"
    );
    Ok(())
}
