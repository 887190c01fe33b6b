//! Fetching a part from another replica, and what follows for the quorum.
//!
//! Source: executeFetch, findReplicaHavingCoveringPart, fetchPart, updateQuorum of 18.16.1.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, ServerError, Trouble, BAD_VERSION, NODE_EXISTS, NO_NODE};
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation, Path};
use crate::table::entries::{Data, Entry, LastParts, Quorum};
use crate::table::parts::{Info, Part, Rows};
use crate::table::replica::Table;
use crate::world::{Ns, Promise, TimedOut, MS, SECOND};

/// A small part, read, sent and written; median.
pub const FETCH_NS: Ns = 3 * MS;
const FETCH_TIMEOUT_NS: Ns = 5 * SECOND;
const NO_REPLICA_HAS_PART: i32 = 234;

/// Gets the part, or one that covers it, from a random active replica that has one. Where none
/// has, a quorum insert that is pending is marked as failed, and another part looked for.
pub async fn fetch(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
) -> Result<bool, Trouble> {
    if table.fetches_stopped.get() {
        return Err(ServerError::new(236, "Fetching of parts was cancelled").into());
    }
    let Some(held) = search(table, zk, entry).await?.held else {
        if entry.quorum > 0 && failed(table, zk, entry).await? {
            return Ok(true);
        }
        if merge_follows(table, &entry.new) {
            return Ok(false);
        }
        table.missing.add(&entry.new);
        let text = format!("No active replica has part {}", entry.name);
        return Err(ServerError::new(NO_REPLICA_HAS_PART, text).into());
    };
    let rows = download(table, &held).await?;
    let part = Part::named(held.info, held.name, rows, table.world.now_ns());
    if table.bugs.has(Bug::FetchTorn) && part.rows.len() > 1 {
        let torn = part.rows[..part.rows.len() / 2].into();
        let torn = Part::new(part.info.clone(), torn, table.world.now_ns());
        table.store(torn.clone());
        table.activate(&torn);
        table.world.sleep(100 * MS).await;
        table.forget(&part);
    }
    table.store(part.clone());
    if commit(table, zk, &part).await? == Committed::No {
        table.queue.virtual_parts.borrow_mut().remove(&part.info);
        return Ok(true);
    }
    if entry.quorum > 0 {
        update_quorum(table, zk, &part.info, &part.name).await?;
    }
    Ok(true)
}

/// The others in an order drawn by chance. Of one there is but one order, which is drawn as well.
async fn shuffled_others(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
) -> Result<Vec<Rc<str>>, KeeperError> {
    let replicas = zk.children(table.paths.replicas.clone()).await?;
    let mut replicas = replicas.to_vec();
    if replicas.len() > 2 {
        replicas = table.world.shuffled(replicas);
    } else {
        table.world.below(1);
    }
    replicas.retain(|replica| *replica != table.me);
    Ok(replicas)
}

/// The table's, in an order drawn by chance.
async fn shuffled_replicas(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
) -> Result<Vec<Rc<str>>, KeeperError> {
    let replicas = zk.children(table.paths.replicas.clone()).await?;
    Ok(table.world.shuffled(replicas.to_vec()))
}

/// A part that a replica has.
struct Held {
    replica: Rc<str>,
    info: Info,
    name: Rc<str>,
}

/// Who has a part, as far as the others that are active go.
struct Search {
    /// A replica, and what it has that is or covers the part.
    held: Option<Held>,
    /// Every other replica that was active when it was asked.
    active: Vec<Rc<str>>,
}

async fn search(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
) -> Result<Search, KeeperError> {
    let wanted = &entry.new;
    let mut best: Option<Held> = None;
    let mut all_active = Vec::new();
    for replica in shuffled_others(table, zk).await? {
        let other = table.paths.of(&replica);
        let readings = [
            Reading::exists(other.is_active.clone()),
            Reading::exists(child(&other.parts, &entry.name)),
            Reading::listed(other.parts.clone()),
        ];
        let [active, has, listed] = zk.read_all(readings, None).await?;
        if active.is_nothing() {
            continue;
        }
        all_active.push(replica.clone());
        // Usually it is there by its own name and not yet merged.
        let has = !has.is_nothing();
        let mut consider = |info: Info, name: &Rc<str>| {
            let found = best.as_ref().map(|held| &held.info);
            if found.is_none_or(|found| info != *found && info.contains(found)) {
                best = Some(Held {
                    replica: replica.clone(),
                    info,
                    name: name.clone(),
                });
            }
        };
        if has {
            consider(wanted.clone(), &entry.name);
        }
        if let Some((_, names)) = listed.listed() {
            if !has || wanted.level > 0 || names.len() < 50 {
                let names = names.from(&wanted.partition).iter();
                for name in names.take_while(|name| name.starts_with(&*wanted.partition)) {
                    if let Some(info) = wanted.contained_in(name) {
                        consider(info, name);
                    }
                }
            }
        }
    }
    Ok(Search {
        held: best,
        active: all_active,
    })
}

async fn download(table: &Rc<Table>, held: &Held) -> Result<Rows, ServerError> {
    let asker = &table.server;
    let (holder, part) = (&held.replica, &held.name);
    let source = asker.peer(holder);
    let answer = Promise::new();
    let ask = {
        let (source, name, part) = (source.clone(), table.name.clone(), part.clone());
        let (answer, asker) = (answer.clone(), asker.clone());
        let fetch_ns = asker.disk.fetch_ns.get();
        move || source.serve_part(&name, &part, answer, &asker, fetch_ns)
    };
    let network = &asker.ensemble.network;
    network.send(asker.node, source.node, Some(&source.process), ask);
    if !source.process.alive() {
        let text = format!("Connection refused by {holder}");
        return Err(ServerError::new(210, text));
    }
    match table.world.wait_for(&answer, FETCH_TIMEOUT_NS).await {
        Ok(Some(rows)) => Ok(rows),
        Ok(None) => {
            let text = format!("No part {part} in table on {holder}");
            Err(ServerError::new(232, text))
        }
        Err(TimedOut) => {
            let text = format!("Timeout of a fetch of {part} from {holder}");
            Err(ServerError::new(209, text))
        }
    }
}

/// Whether a part became the replica's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    Yes,
    /// Its quorum has failed: the part is on the disk no more.
    No,
}

/// Checks the part's checksums with a replica that has it, announces it, and makes it visible.
/// ServerError 40 when another has other data under this name.
pub async fn commit(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Rc<Part>,
) -> Result<Committed, Trouble> {
    loop {
        match announced(table, zk, part).await {
            Ok(Some(Committed::Yes)) => break,
            Ok(Some(Committed::No)) => {
                table.forget(part);
                return Ok(Committed::No);
            }
            Ok(None) => {}
            Err(error) => {
                table.forget(part);
                return Err(error);
            }
        }
    }
    table.activate(part);
    Ok(Committed::Yes)
}

/// None: another replica announced it meanwhile, so the checksums are to be checked again.
///
/// A fetch may outlast the quorum of its part. The replica that it fetches from becomes inactive,
/// another replica finds the part nowhere and marks it as failed, and then the fetch ends: 18.16.1
/// announces the part all the same and keeps it for good, because executeFetch does not look at
/// failed_parts after the download, and updateQuorum returns when there is no status. So the
/// announcement checks here, in its multi, that the part has not failed, whether or not the entry
/// names a quorum: an entry that a clone made from its source's list of parts names none. `failed`
/// has the other half.
async fn announced(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Part,
) -> Result<Option<Committed>, Trouble> {
    let name = &part.name;
    let rows = Data::Rows(part.rows.clone());
    let mut operations = Vec::new();
    for replica in shuffled_replicas(table, zk).await? {
        let path = child(&table.paths.of(&replica).parts, name);
        if let Some((data, _)) = zk.get(path.clone()).await? {
            if data != rows && !table.bugs.has(Bug::MergeOrder) {
                let text = format!("Checksums of part {name} differ from {replica}'s");
                return Err(ServerError::new(40, text).into());
            }
            operations.clear();
            break;
        }
        if replica != table.me {
            operations.push(Operation::absent(path));
        }
    }
    let absent = operations.len();
    let may_fail = part.info.is_block() && !table.bugs.has(Bug::FailedPartFetched);
    let failed = may_fail.then(|| failed_path(table, name));
    operations.extend(failed.clone().map(Operation::absent));
    operations.push(Operation::create(child(&table.own.parts, name), rows));
    match zk.multi(operations).await {
        Ok(_) => Ok(Some(Committed::Yes)),
        Err(error) if error.code != NODE_EXISTS => Err(error.into()),
        Err(error) if Some(&error.path) == failed.as_ref() => Ok(Some(Committed::No)),
        Err(error) => Ok((error.at >= absent).then_some(Committed::Yes)),
    }
}

/// Adds this replica to the pending quorum; whoever completes it ends it.
///
/// /quorum/status is made anew at version 0 for each insert, so its version alone does not say
/// whose quorum it is. A quorum that is over has changed last_part, or its part has failed.
pub async fn update_quorum(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
    name: &str,
) -> Result<(), KeeperError> {
    let bugs = table.bugs;
    let status_path = &table.paths.quorum_status;
    let last_path = &table.paths.last_part;
    loop {
        let readings = [
            Reading::get(status_path.clone()),
            Reading::get(last_path.clone()),
        ];
        let [found, last] = zk.read_all(readings, None).await?;
        let Some((status, version)) = found.get() else {
            return Ok(());
        };
        let status = status.as_quorum();
        if status.part != *part {
            return Ok(());
        }
        let mut last = last.get().expect("the table has it");
        let mut replicas = status.replicas.clone();
        if !replicas.contains(&table.me) {
            replicas.push(table.me.clone());
        }
        let mut operations = Vec::with_capacity(4);
        operations.push(Operation::check(last_path.clone(), Some(last.1)));
        operations.push(Operation::absent(failed_path(table, name)));
        if bugs.has(Bug::QuorumAba) {
            last = zk.get(last_path.clone()).await?.expect("the table has it");
            operations.clear();
        }
        if replicas.len() >= status.needed || bugs.has(Bug::QuorumUncounted) {
            operations.push(Operation::Remove {
                path: status_path.clone(),
                version: Some(version),
            });
            operations.push(Operation::Put {
                path: last_path.clone(),
                data: Data::Last(Rc::new(with_last(table, last.0.as_last(), part))),
                version: Some(last.1),
            });
        } else {
            assert!(
                replicas.len() < status.needed,
                "whoever completes a quorum ends it"
            );
            let quorum = Quorum {
                replicas,
                ..Quorum::clone(status)
            };
            operations.push(Operation::Put {
                path: status_path.clone(),
                data: Data::Quorum(Rc::new(quorum)),
                version: Some(version),
            });
        }
        match zk.multi(operations).await {
            Err(error) if [BAD_VERSION, NODE_EXISTS].contains(&error.code) => {}
            Err(error) if error.code != NO_NODE => return Err(error),
            _ => return Ok(()),
        }
    }
}

/// The last parts after a quorum for this one.
fn with_last(table: &Table, last: &LastParts, part: &Info) -> LastParts {
    let mut out = last.clone();
    let at = out
        .iter()
        .position(|(partition, _)| *partition == part.partition);
    let before = at.map_or(part, |at| &last[at].1);
    let now = if table.bugs.has(Bug::LastPartBack) {
        part.min(before)
    } else if table.bugs.has(Bug::LastPartLate) {
        part
    } else {
        part.max(before)
    };
    match at {
        Some(at) => out[at].1 = now.clone(),
        None => out.push((part.partition.clone(), now.clone())),
    }
    out
}

/// There is such a node when the quorum of the part has failed.
fn failed_path(table: &Table, name: &str) -> Path {
    child(&table.paths.failed_parts, name)
}

/// Marks the quorum of a part that nobody active has as failed: all at once, if no replica has
/// become active meanwhile.
///
/// Nor may a replica that was active without the part have announced it since: 18.16.1 does not
/// check that, so that a fetch which ends between the search and the multi leaves a failed part on
/// an active replica.
async fn failed(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
) -> Result<bool, KeeperError> {
    let mut operations = Vec::new();
    for replica in zk.children(table.paths.replicas.clone()).await?.iter() {
        let path = table.paths.of(replica).host.clone();
        let host = zk.get(path.clone()).await?;
        operations.push(Operation::check(path, host.map(|(_, version)| version)));
    }
    let search = search(table, zk, entry).await?;
    if search.held.is_some() {
        return Ok(false);
    }
    if !table.bugs.has(Bug::FailedPartFetched) {
        operations.extend(search.active.iter().map(|replica| {
            let parts = &table.paths.of(replica).parts;
            Operation::absent(child(parts, &entry.name))
        }));
    }
    let status_path = &table.paths.quorum_status;
    let Some((status, version)) = zk.get(status_path.clone()).await? else {
        return Ok(false);
    };
    if status.as_quorum().part != entry.new {
        return Ok(false);
    }
    operations.push(Operation::Remove {
        path: status_path.clone(),
        version: Some(version),
    });
    operations.push(Operation::create(
        failed_path(table, &entry.name),
        Data::default(),
    ));
    if !entry.block_id.is_empty() {
        let block: Path = child(&table.paths.blocks, &entry.block_id);
        if zk.exists(block.clone()).await? {
            operations.push(Operation::remove(block));
        }
    }
    match zk.multi(operations).await {
        Ok(_) => {}
        Err(error) if error.is_users() => return Ok(false),
        Err(error) => return Err(error),
    }
    table.queue.virtual_parts.borrow_mut().remove(&entry.new);
    Ok(true)
}

/// Whether the queue makes another of the part, which will be fetched instead.
fn merge_follows(table: &Table, part: &Info) -> bool {
    let entries = table.queue.entries.borrow();
    let mut entries = entries.values();
    entries.any(|other| other.entry.parts.contains(part))
}
