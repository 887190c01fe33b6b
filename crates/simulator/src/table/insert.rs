//! Executes an insert: a part for each partition, written here and announced in the log.
//!
//! Source: ReplicatedMergeTreeBlockOutputStream of 18.16.1; ReplicatedMergeTreeSink of 25.8 for
//! inserts that retry.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use crate::bugs::Bug;
use crate::disk::Written;
use crate::errors::{KeeperError, QueryError, ServerError, CONNECTION_LOSS, NODE_EXISTS, NO_NODE};
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::{child, Operation, Path};
use crate::protocol::Mechanism;
use crate::table::block_numbers::{allocate, exists};
use crate::table::deleted_block::forget_deleted;
use crate::table::entries::{Data, Entry, EntryKind, Quorum};
use crate::table::part_files;
use crate::table::parts::{Info, Part, Row, Rows};
use crate::table::quorum::failed_path;
use crate::table::quorum_wait::{
    await_quorum, await_quorum_retrying, precheck, prechecked, QuorumPrecheck, Wanted,
};
use crate::table::replica::Table;
use crate::table::retries::{is_connection, is_lost, outcome, timeout, NoRetry, Outcome, Retries};
use crate::table::shared;
use crate::world::{Ns, MS};

/// Median time of writing a small part to the disk.
const WRITE_NS: Ns = 2 * MS;

/// Inserts a block of rows, which may become several parts, one after the other. Returns whether each
/// had been inserted before.
pub async fn insert(
    table: &Rc<Table>,
    rows: Vec<Row>,
    wanted: &Wanted,
) -> Result<bool, QueryError> {
    let mut is_known = true;
    let retries = table.mechanisms.has(Mechanism::InsertRetries);
    let retries = retries.then(|| Retries::new(wanted.until_ns));
    let zk = match retries {
        Some(_) => None,
        None => Some(table.writable()?),
    };
    let asked = match (&zk, &retries) {
        _ if wanted.quorum.is_some_and(|quorum| quorum < 2) => None,
        (Some(zk), _) => Some(precheck(table, zk, wanted).await?),
        (None, Some(retries)) => Some(Box::pin(prechecked(table, wanted, retries.clone())).await?),
        (None, None) => unreachable!("an insert without retries keeps its session"),
    };
    let mut blocks: Vec<(Rc<str>, Vec<Row>)> = Vec::new();
    for row in rows {
        let partition = table.schema.partition(&row)?;
        match blocks.iter_mut().find(|(one, _)| *one == partition) {
            Some((_, block)) => block.push(row),
            None => blocks.push((partition, vec![row])),
        }
    }
    for (partition, mut block) in blocks {
        assert!(!block.is_empty(), "a part has rows");
        table.schema.sort(&mut block)?;
        table.world.work(table.world.around(WRITE_NS)).await;
        table.server.host().open(&partition)?;
        let written = part_files::write_inserted(table, &mut block).await?;
        let block = Block {
            partition,
            rows: block.into(),
            asked: asked.as_ref(),
            deduplicate: wanted.deduplicate,
            detached: None,
            written,
            taken: RefCell::default(),
            is_known: Cell::new(false),
        };
        match (&zk, &retries) {
            (Some(zk), _) => commit(table, zk, &block, None).await?,
            (None, Some(retries)) => Box::pin(committed(table, &block, retries.clone())).await?,
            (None, None) => unreachable!("an insert without retries keeps its session"),
        }
        is_known &= block.is_known.get();
    }
    Ok(is_known)
}

/// A partition's rows of an insert, or of an ATTACH.
pub struct Block<'a> {
    partition: Rc<str>,
    rows: Rows,
    asked: Option<&'a QuorumPrecheck>,
    deduplicate: bool,
    /// The name of the detached part of which it is made.
    detached: Option<Rc<str>>,
    written: Written,
    /// The node of the number that an earlier try took; a planted bug keeps it.
    taken: RefCell<Option<Path>>,
    /// Whether it was found to be there already.
    is_known: Cell<bool>,
}

impl Block<'_> {
    /// Returns a detached part as a block, which is not deduplicated.
    pub fn detached(part: &Part) -> Block<'static> {
        Block {
            partition: part.info.partition.clone(),
            rows: part.rows.clone(),
            asked: None,
            deduplicate: false,
            detached: Some(part.name.clone()),
            written: part.written.get(),
            taken: RefCell::default(),
            is_known: Cell::new(false),
        }
    }
}

/// Commits a block, each time with a new number, as long as connections are lost.
///
/// An earlier try may have been committed, so a retry goes on with the session of the moment, even
/// one that has expired (commitPart asks getZooKeeper for it): the last one then ends with 999, not
/// with 225.
pub async fn committed(
    table: &Rc<Table>,
    block: &Block<'_>,
    mut retries: Retries,
) -> Result<(), QueryError> {
    loop {
        let session = table.started().map_err(QueryError::from);
        let error = match session.and_then(|()| Ok(table.session()?)) {
            Ok(zk) => match commit(table, &zk, block, Some(&retries)).await {
                Err(error) if is_lost(&error) => error,
                done => return done,
            },
            Err(error) => error,
        };
        retries.again(table, error).await?;
    }
}

/// Commits a block under a new number, and waits for its quorum. A duplicate that is forgotten is
/// inserted again.
pub async fn commit(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    block: &Block<'_>,
    retries: Option<&Retries>,
) -> Result<(), QueryError> {
    while !attempt(table, zk, block, retries).await? {}
    Ok(())
}

/// Commits a block, or acknowledges a duplicate; returns false if it is no duplicate any more.
async fn attempt(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    block: &Block<'_>,
    retries: Option<&Retries>,
) -> Result<bool, QueryError> {
    let Block {
        partition,
        rows,
        asked,
        deduplicate,
        ..
    } = block;
    let rows = rows.clone();
    let deduplicate = *deduplicate && table.settings.replicated_deduplication_window > 0;
    let block_id = deduplicate.then(|| block_id_of(table, partition, &rows));
    let block_path = block_id.as_ref().map(|id| child(&table.paths.blocks, id));
    let blob = match &block.detached {
        None => shared::upload(table, &rows, shared::stores_new(table)).await?,
        Some(part) => shared::reattach(table, part),
    };
    let allocated = allocate(table, zk, partition, block_path.as_ref(), &block.taken).await;
    let Ok(Some((number, lock_path))) = allocated else {
        shared::discard(table, blob);
        allocated?;
        return duplicated(table, zk, block, block_path.as_ref(), retries).await;
    };
    let part = Part::new(Info::block(partition, number), rows, table.world.now_ns());
    shared::attach(table, zk, &part.name, blob).await?;
    let entry = entry_of(table, block, &part, block_id.unwrap_or_default());
    let operations = transaction(table, block, &part, entry, block_path.as_ref(), &lock_path);
    assert!(part.info.is_block(), "an insert's block number is its own");
    let fresh = table.part(&part.name).is_none() || table.bugs.any_planted();
    assert!(fresh, "a block number is assigned once");
    part.written.set(block.written);
    table.store(part.clone());
    let mut done = zk.multi(operations).await;
    if let (Some(retries), Err(error)) = (retries, &done) {
        if is_connection(error)
            && Box::pin(recovered(table, &part, asked.is_some(), retries, error)).await?
        {
            done = Ok(Rc::default());
        }
    }
    if let Err(error) = done {
        refused(table, &part, &error, block_path.as_ref(), lock_path.clone())?;
        // The server gives the number back (~EphemeralLockInZooKeeper), or it goes with the session.
        let _ = zk.remove(lock_path).await;
        return duplicated(table, zk, block, block_path.as_ref(), retries).await;
    }
    table.activate(&part);
    match (asked, retries) {
        (Some(asked), _) if !asked.is_awaited || table.bugs.has(Bug::AckEarly) => {}
        (Some(asked), Some(retries)) => {
            let retries = retries.clone();
            Box::pin(await_quorum_retrying(table, &part.info, asked, retries)).await?;
        }
        (Some(asked), None) => await_quorum(table, zk, &part.info, asked).await?,
        (None, _) => {}
    }
    Ok(true)
}

/// Returns the operations that commit a block's part, all or none.
fn transaction(
    table: &Table,
    block: &Block<'_>,
    part: &Part,
    entry: Entry,
    block_path: Option<&Rc<str>>,
    lock_path: &Rc<str>,
) -> Vec<Operation> {
    let mut operations = Vec::with_capacity(7);
    if let Some(path) = block_path {
        operations.push(Operation::create(
            path.clone(),
            Data::Text(part.name.clone()),
        ));
    }
    let (own, paths) = (&table.own, &table.paths);
    operations.extend([
        Operation::create(
            child(&own.parts, &part.name),
            Data::payload(part.rows.clone()),
        ),
        Operation::numbered(paths.log_entry.clone(), Data::payload(entry)),
        Operation::remove(lock_path.clone()),
    ]);
    if let Some(asked) = &block.asked {
        let quorum = Quorum {
            part: part.info.clone(),
            needed: asked.replicas,
            replicas: vec![table.me.clone()],
        };
        operations.extend([
            Operation::create(asked.kind.status(table, &part.name), Data::payload(quorum)),
            Operation::check(own.is_active.clone(), Some(asked.version)),
            Operation::check(own.host.clone(), Some(asked.host)),
        ]);
    }
    if !table.mechanisms.has(Mechanism::AlterInLog) {
        let version = table.columns().version;
        operations.push(Operation::check(paths.columns.clone(), Some(version)));
    }
    operations
}

/// Returns the entry of the log that announces a block's part.
fn entry_of(table: &Table, block: &Block<'_>, part: &Part, block_id: String) -> Entry {
    let attached = table.mechanisms.has(Mechanism::AttachEntries) && block.detached.is_some();
    Entry {
        kind: if attached {
            EntryKind::Attach
        } else {
            EntryKind::Get
        },
        source: table.me.clone(),
        quorum: block.asked.map_or(0, |asked| asked.replicas),
        block_id: block_id.into(),
        content: attached.then(|| part.rows.clone()),
        ..Entry::get(part.info.clone())
    }
}

/// Returns the block ID of a partition's rows, so that the same block has the same ID on every
/// replica.
pub fn block_id_of(table: &Table, partition: &str, rows: &[Row]) -> String {
    let mut hash = DefaultHasher::new();
    rows.hash(&mut hash);
    if table.bugs.has(Bug::DedupPerReplica) {
        table.me.hash(&mut hash);
    }
    let digits = hash.finish().to_be_bytes();
    let digits = digits.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let mut id = String::with_capacity(partition.len() + 17);
    id.push_str(partition);
    id.push('_');
    id.extend(digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])));
    id
}

/// Finds out whether a part was committed whose answer was lost: true if so, false if that stays
/// unknown. Returns the lost connection if it was not, so that the insert begins again.
async fn recovered(
    table: &Rc<Table>,
    part: &Rc<Part>,
    quorum: bool,
    retries: &Retries,
    lost: &KeeperError,
) -> Result<bool, QueryError> {
    match outcome(table, part, quorum, retries).await {
        Outcome::Committed => Ok(true),
        Outcome::Absent => {
            table.forget(part);
            Err(lost.clone().into())
        }
        Outcome::QuorumFailed => {
            table.forget(part);
            Err(ServerError::new(242, "Table is in readonly mode due to shutdown").into())
        }
        Outcome::Unknown(NoRetry::TimeLimit) if table.bugs.has(Bug::LostRetry) => {
            table.forget(part);
            Err(timeout().into())
        }
        Outcome::Unknown(_) => Ok(false),
    }
}

/// Acknowledges a block that had been inserted before, unless its rows were deleted since: returns
/// false then. Newer servers first wait for the quorum of the part of that insert.
async fn duplicated(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    block: &Block<'_>,
    block_path: Option<&Path>,
    retries: Option<&Retries>,
) -> Result<bool, QueryError> {
    let path = block_path.expect("a duplicate has a block ID");
    if Box::pin(forget_deleted(
        table,
        zk,
        path,
        &block.partition,
        &block.rows,
    ))
    .await?
    {
        return Ok(false);
    }
    block.is_known.set(true);
    let waits = table.mechanisms.has(Mechanism::DuplicateWait);
    let (true, Some(asked), Some(retries)) = (waits, block.asked, retries) else {
        return Ok(true);
    };
    let Some((part, _)) = table.session()?.get(path.clone()).await? else {
        return Err(KeeperError::of(NO_NODE, path).into());
    };
    let name = part.as_text();
    let part = Info::named(name);
    Box::pin(await_quorum_retrying(table, &part, asked, retries.clone())).await?;
    // The part may be another replica's, so that this one stays active though the quorum fails.
    let failed = failed_path(table, name);
    if !table.bugs.has(Bug::FailedDuplicate) && table.session()?.exists(failed).await? {
        let text =
            "Unknown status, client must retry. Reason: the quorum of the first insert failed";
        return Err(ServerError::new(319, text).into());
    }
    Ok(true)
}

/// Handles a multi that did not succeed, except because of a duplicate. The part is removed, unless it may have been logged
/// nevertheless. In that case 18.16.1 shows it; otherwise it is set aside until ZooKeeper has been
/// asked.
fn refused(
    table: &Table,
    part: &Rc<Part>,
    error: &KeeperError,
    block_path: Option<&Path>,
    lock_path: Path,
) -> Result<(), ServerError> {
    let shown = table.active.borrow().get(&part.info).is_some();
    assert!(
        !shown || table.bugs.any_planted(),
        "no refused part is visible"
    );
    if error.code == CONNECTION_LOSS {
        if table.bugs.has(Bug::PhantomPart) {
            table.activate(part);
        }
        table
            .to_check
            .borrow_mut()
            .insert(part.name.clone(), lock_path);
        let text = "Unknown status, client must retry. Reason: Connection loss";
        return Err(ServerError::new(319, text));
    }
    table.forget(part);
    if exists(error, block_path) {
        return Ok(());
    }
    if error.code == NODE_EXISTS && error.path == table.paths.quorum_status {
        let text = "Another quorum insert has been already started";
        return Err(ServerError::new(286, text));
    }
    let kind = if error.is_users() {
        "Unexpected logical error"
    } else {
        "Unrecoverable network error"
    };
    let text = format!("{kind} while adding block {}: {error}", part.info.min);
    Err(ServerError::new(244, text))
}
