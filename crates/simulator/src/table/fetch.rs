//! Fetches a part from another replica, with the consequences for its quorum.
//!
//! Source: executeFetch, findReplicaHavingCoveringPart, fetchPart of 18.16.1.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError, NODE_EXISTS};
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation, Path};
use crate::server::host::{Host, PartData, ReplicaServer};
use crate::server::shortages::{cannot_open, CLOSED, DNS_ERROR};
use crate::table::entries::{Data, Entry};
use crate::table::log;
use crate::table::part_files;
use crate::table::parts::{Info, Part};
use crate::table::quorum::{failed_path, join, join_covered, pending};
use crate::table::replica::Table;
use crate::table::shared;
use crate::world::{Ns, Promise, TimedOut, MS, SECOND};

/// Median time of reading, sending and writing a small part.
pub const FETCH_NS: Ns = 3 * MS;
const FETCH_TIMEOUT_NS: Ns = 5 * SECOND;
pub const NO_REPLICA_HAS_PART: i32 = 234;

/// Fetches the part, or one that covers it, from a random active replica that has one. If there is
/// none, marks a pending quorum insert of the part as failed, or lets the part check thread look
/// for another part.
pub async fn fetch(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
) -> Result<bool, QueryError> {
    if table.fetches_stopped.get() {
        return Err(ServerError::new(236, "Fetching of parts was cancelled").into());
    }
    let Some(held) = search(table, zk, entry).await?.held else {
        if entry.quorum > 0 && mark_failed(table, zk, entry).await? {
            return Ok(true);
        }
        if table.queue.postpone_siblings(&entry.new) {
            return Ok(false);
        }
        table.missing.add(&entry.new);
        let text = format!("No active replica has part {}", entry.name);
        return Err(ServerError::new(NO_REPLICA_HAS_PART, text).into());
    };
    assert!(
        held.info.contains(&entry.new),
        "a fetched part has the entry's rows"
    );
    // Two entries may find one part that covers both (18.16.1: currently_fetching_parts).
    let name = held.name.clone();
    let before = table.fetching.borrow_mut().insert(name.clone(), ());
    if before.is_some() {
        return Ok(false);
    }
    let mut fetched = receive(table, zk, entry, held).await;
    if matches!(&fetched, Err(QueryError::Server(error)) if is_taken_for_lost(table, error)) {
        log::give_up(table, zk, &entry.new).await?;
        fetched = Ok(true);
    }
    if fetched.is_err() {
        table.queue.postpone_siblings(&entry.new);
    }
    table.fetching.borrow_mut().shift_remove(&name);
    shared::end_fetch(table, zk, &name).await;
    fetched
}

/// Whether a planted bug takes a source that could not be reached for one that has lost the part.
fn is_taken_for_lost(table: &Table, error: &ServerError) -> bool {
    match error.code {
        DNS_ERROR => table.bugs.has(Bug::UnresolvedAsDead),
        CLOSED => table.bugs.has(Bug::ClosedAsLost),
        _ => false,
    }
}

/// Fetches the part from the replica that has it, and commits it.
async fn receive(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    entry: &Entry,
    held: Held,
) -> Result<bool, QueryError> {
    table.server.host().open(&held.name)?;
    let shares = shared::begin_fetch(table, zk, &held.name).await?;
    let PartData { rows, blob, .. } = download(table, &held).await?;
    let source = held.replica.clone();
    let written = part_files::write(table).await?;
    let shares = match blob {
        Some(blob) if shares => shared::share(table, zk, &held.name, &blob).await?,
        _ => false,
    };
    if !shares {
        let blob = shared::upload(table, &rows, shared::stores_new(table)).await?;
        shared::attach(table, zk, &held.name, blob).await?;
    }
    let part = Part::named(held.info, held.name, rows, table.world.now_ns());
    if table.bugs.has(Bug::FetchTorn) && part.rows.len() > 1 {
        let torn = part.rows[..part.rows.len() / 2].into();
        let torn = Part::new(part.info.clone(), torn, table.world.now_ns());
        table.store(torn.clone());
        table.activate(&torn);
        table.world.sleep(100 * MS).await;
        table.forget(&part);
    }
    part.written.set(written);
    table.store(part.clone());
    if commit(table, zk, &part, Some(&source)).await? == Committed::No {
        table.queue.virtual_parts.borrow_mut().remove(&part.info);
        return Ok(true);
    }
    // The entry of a clone names no quorum, though the quorum of its part may be pending. The bug is
    // that of the servers (executeFetch passes entry.quorum to fetchPart).
    let cloned = part.info.is_block() && entry.source.is_empty();
    if entry.quorum > 0 || (cloned && !table.bugs.has(Bug::CloneUncounted)) {
        join(table, zk, &part.info, &part.name).await?;
    }
    join_covered(table, zk, &part.info).await?;
    Ok(true)
}

/// Returns the other replicas in random order. The order of a single one is drawn too.
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

/// Returns the table's replicas in random order.
async fn shuffled_replicas(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
) -> Result<Vec<Rc<str>>, KeeperError> {
    let replicas = zk.children(table.paths.replicas.clone()).await?;
    Ok(table.world.shuffled(replicas.to_vec()))
}

/// A part that a replica has.
pub struct Held {
    pub replica: Rc<str>,
    pub info: Info,
    pub name: Rc<str>,
}

/// The active replica that has a part, and all active ones.
pub struct Search {
    /// A replica with the part that equals or covers the wanted one.
    pub held: Option<Held>,
    /// Every other replica that was active when it was asked.
    active: Vec<Rc<str>>,
}

/// Looks which active replica has the part of an entry, or one that covers it.
pub async fn search(
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
        // Usually the part exists under its own name, because it is not merged yet.
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

/// Requests the part from the replica that has it.
pub async fn download(table: &Rc<Table>, held: &Held) -> Result<PartData, ServerError> {
    let (asker, source) = (&table.server, table.server.replica(&held.replica));
    let (holder, part) = (&held.replica, &held.name);
    let (from, to) = (source.host().clone(), asker.host());
    let (world, log) = (&table.world, &to.ensemble.messages);
    let kept = to.idle.take(from.node, from.life, world.now_ns());
    if !kept {
        to.connect(&from)?;
    }
    let key = log.fetch(world.now_ns(), to.node, holder, part);
    let answer = Promise::new();
    let request = {
        let (table, part) = (table.name.clone(), part.clone());
        let (answer, asker, fetch_ns) = (answer.clone(), to.clone(), to.fetch_ns.get());
        move || {
            let asked = Asked {
                table: &table,
                part: &part,
                kept,
            };
            serve_part(&*source, &asker, asked, answer, fetch_ns);
        }
    };
    let network = &to.ensemble.network;
    network.send(to.node, from.node, Some(&from.process), request);
    if !from.process.alive() {
        let text = format!("Connection refused by {holder}");
        return Err(ServerError::new(210, text));
    }
    let answered = world.wait_for(&answer, FETCH_TIMEOUT_NS).await;
    log.answered(world.now_ns(), key, matches!(answered, Ok(Ok(_))));
    if matches!(
        answered,
        Ok(Ok(_) | Err(NotSent::Missing | NotSent::Unread))
    ) {
        to.idle.keep(from.node, from.life, world.now_ns());
    }
    match answered {
        Ok(Ok(data)) => Ok(data),
        Ok(Err(NotSent::Unread)) => Err(cannot_open(part)),
        Ok(Err(NotSent::Closed)) => {
            let text = format!("Attempt to read after eof: {holder} closed the connection");
            Err(ServerError::new(CLOSED, text))
        }
        Ok(Err(NotSent::Missing)) => {
            let text = format!("No part {part} in table on {holder}");
            Err(ServerError::new(232, text))
        }
        Err(TimedOut) => {
            let text = format!("Timeout of a fetch of {part} from {holder}");
            Err(ServerError::new(209, text))
        }
    }
}

/// Why a part was not sent.
enum NotSent {
    /// It is not here.
    Missing,
    /// Its files cannot be opened.
    Unread,
    /// The server takes no further connection.
    Closed,
}

/// What a server is asked for, and whether on a connection that was open before.
struct Asked<'a> {
    table: &'a str,
    part: &'a str,
    kept: bool,
}

/// Sends what a part has to the server that requests it.
fn serve_part(
    source: &dyn ReplicaServer,
    asker: &Rc<Host>,
    Asked { table, part, kept }: Asked<'_>,
    answer: Promise<Result<PartData, NotSent>>,
    fetch_ns: Ns,
) {
    let (data, own) = (source.part_data(table, part), source.host());
    let mut data = data.ok_or(NotSent::Missing);
    if own.lacks_files() {
        if !kept {
            return; // The connection waits until it is accepted, or the asker has given up.
        }
        if data.is_ok() {
            data = Err(NotSent::Unread);
            if own.deployment.bugs.has(Bug::ShortageAsBroken) {
                source.doubt(table, part);
            }
        }
    }
    if !kept && own.is_full() {
        data = Err(NotSent::Closed);
    }
    let world = own.ensemble.world.clone();
    let more_ns = data.as_ref().map_or(0, |data| data.delay_ns);
    let took_ns = world.around(fetch_ns) + more_ns;
    let set = move || answer.set(&world, data);
    let (network, to) = (&own.ensemble.network, Some(&asker.process));
    network.send_later(took_ns, own.node, asker.node, to, set);
}

/// Whether a part was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    Yes,
    /// Its quorum has failed, and the part was removed from the disk.
    No,
}

/// Compares the part's checksums with those of a replica that has it, announces the part, and makes
/// it visible. Returns error 40 if another replica has other data under this name.
pub async fn commit(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Rc<Part>,
    source: Option<&Rc<str>>,
) -> Result<Committed, QueryError> {
    loop {
        match announce(table, zk, part, source).await {
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

/// Announces a part. `None`: another replica announced it meanwhile, so the checksums must be
/// compared again.
///
/// A fetch may outlast the quorum of its part. The replica from which it fetches becomes inactive,
/// another replica finds the part nowhere and marks it as failed, and then the fetch ends. 18.16.1
/// announces the part nevertheless and keeps it for good, because executeFetch does not look at
/// failed_parts after the download, and updateQuorum returns when there is no status. So the
/// announcement checks here, in its multi, that the part has not failed. It does so whether or not
/// the entry names a quorum, because an entry that a clone made from its source's list of parts
/// names none. `mark_failed` has the other half of the argument.
///
/// Nor has the replica that it was fetched from removed it since. One that cannot read a part any
/// more removes it from ZooKeeper, and if no replica lists it gives it up for good
/// (searchForMissingPart). 18.16.1 does not ask, so a fetch that ends after that leaves the part on
/// one replica, and the others never fetch it.
async fn announce(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Part,
    source: Option<&Rc<str>>,
) -> Result<Option<Committed>, QueryError> {
    let name = &part.name;
    let rows = Data::payload(part.rows.clone());
    let mut operations = Vec::new();
    for replica in shuffled_replicas(table, zk).await? {
        let path = child(&table.paths.of(&replica).parts, name);
        if let Some((data, _)) = zk.get(path.clone()).await? {
            if data != rows && !table.bugs.has(Bug::MergeOrder) {
                let planted = table.bugs.any_planted();
                assert!(planted, "{replica} has other rows in {name}");
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
    let mark_failed = may_fail.then(|| failed_path(table, name));
    operations.extend(mark_failed.clone().map(Operation::absent));
    operations.push(Operation::create(child(&table.own.parts, name), rows));
    if let (Some(source), false) = (source, table.bugs.has(Bug::BrokenPartFetched)) {
        let path = child(&table.paths.of(source).parts, name);
        operations.push(Operation::check(path, None));
    }
    match zk.multi(operations).await {
        Ok(_) => Ok(Some(Committed::Yes)),
        Err(error) if error.code != NODE_EXISTS => Err(error.into()),
        Err(error) if Some(&error.path) == mark_failed.as_ref() => Ok(Some(Committed::No)),
        Err(error) => Ok((error.at >= absent).then_some(Committed::Yes)),
    }
}

/// Marks the quorum of a part that no active replica has as failed, in one multi that requires that
/// no replica has become active meanwhile.
///
/// Nor may a replica that was active without the part have announced it since. 18.16.1 does not
/// check that, so a fetch that ends between the search and the multi leaves a failed part on an
/// active replica.
async fn mark_failed(
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
    let Some((path, status, version)) = pending(table, zk, &entry.name).await? else {
        return Ok(false);
    };
    if status.part != entry.new {
        return Ok(false);
    }
    operations.push(Operation::Remove {
        path,
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
