//! Executes an insert: a part for each partition, written here and announced in the log.
//!
//! Source: ReplicatedMergeTreeBlockOutputStream of 18.16.1; ReplicatedMergeTreeSink of 25.8 for
//! inserts that retry.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{
    KeeperError, QueryError, ServerError, CONNECTION_LOSS, NODE_EXISTS, SESSION_EXPIRED,
};
use crate::keeper::paths::number_of;
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation, Path};
use crate::protocol::Mechanism;
use crate::table::entries::{Data, Entry, EntryKind, Quorum, TableData};
use crate::table::parts::{Info, Part, Row, Rows};
use crate::table::replica::Table;
use crate::table::retries::{is_connection, is_lost, outcome, timeout, NoRetry, Outcome, Retries};
use crate::table::shared;
use crate::world::{Ns, Promise, TimedOut, MS};

/// Median time of writing a small part to the disk.
const WRITE_NS: Ns = 2 * MS;

/// What an insert asks for.
pub struct Wanted {
    pub quorum: usize,
    pub timeout_ms: i64,
    pub deduplicate: bool,
    /// The end of its max_execution_time.
    pub until_ns: Ns,
}

/// The requested quorum, and what the pre-check of the insert saw of this replica.
struct QuorumPrecheck {
    replicas: usize,
    timeout_ms: i64,
    /// The content of is_active.
    identity: Data,
    /// The version of is_active.
    version: i64,
    /// The version of `host`.
    host: i64,
}

/// Inserts a block of rows, which may become several parts, one after the other.
pub async fn insert(table: &Rc<Table>, rows: Vec<Row>, wanted: &Wanted) -> Result<(), QueryError> {
    let retries = table.mechanisms.has(Mechanism::InsertRetries);
    let retries = retries.then(|| Retries::new(wanted.until_ns));
    let zk = match retries {
        Some(_) => None,
        None => Some(table.writable()?),
    };
    let asked = match (&zk, &retries) {
        _ if wanted.quorum < 2 => None,
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
        table.world.sleep(table.world.around(WRITE_NS)).await;
        let block = Block {
            partition,
            rows: block.into(),
            asked: asked.as_ref(),
            deduplicate: wanted.deduplicate,
        };
        match (&zk, &retries) {
            (Some(zk), _) => commit(table, zk, &block, None).await?,
            (None, Some(retries)) => Box::pin(committed(table, &block, retries.clone())).await?,
            (None, None) => unreachable!("an insert without retries keeps its session"),
        }
    }
    Ok(())
}

/// A partition's rows of an insert.
struct Block<'a> {
    partition: Rc<str>,
    rows: Rows,
    asked: Option<&'a QuorumPrecheck>,
    deduplicate: bool,
}

/// Repeats the pre-check as long as connections are lost.
async fn prechecked(
    table: &Rc<Table>,
    wanted: &Wanted,
    mut retries: Retries,
) -> Result<QuorumPrecheck, QueryError> {
    loop {
        let error = match table.connected() {
            Ok(zk) => match precheck(table, &zk, wanted).await {
                Err(error) if is_lost(&error) => error,
                done => return done,
            },
            Err(_) => KeeperError::new(SESSION_EXPIRED).into(),
        };
        retries.again(table, error).await?;
    }
}

/// Commits a block, each time with a new number, as long as connections are lost.
async fn committed(
    table: &Rc<Table>,
    block: &Block<'_>,
    mut retries: Retries,
) -> Result<(), QueryError> {
    loop {
        let error = match table.writable() {
            Ok(zk) => match commit(table, &zk, block, Some(&retries)).await {
                Err(error) if is_lost(&error) => error,
                done => return done,
            },
            Err(error) => error.into(),
        };
        retries.again(table, error).await?;
    }
}

async fn precheck(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    wanted: &Wanted,
) -> Result<QuorumPrecheck, QueryError> {
    let quorum = wanted.quorum;
    let readings = [
        Reading::count(table.paths.leader_election.clone()),
        Reading::get(table.paths.quorum_status.clone()),
        Reading::get(table.own.is_active.clone()),
        Reading::get(table.own.host.clone()),
    ];
    let [live, status, active, host] = zk.read_all(readings, None).await?;
    let live = if table.mechanisms.has(Mechanism::ManyLeaders) {
        active_replicas(table, zk).await?
    } else {
        live.count().expect("the table has this node")
    };
    if live < quorum {
        let text =
            format!("Number of alive replicas ({live}) is less than requested quorum ({quorum}).");
        return Err(ServerError::new(285, text).into());
    }
    if let Some((status, _)) = status.get() {
        let text = format!(
            "Quorum for previous write has not been satisfied yet. Status: {}",
            status.as_quorum().part.name()
        );
        return Err(ServerError::new(286, text).into());
    }
    let (Some((identity, version)), Some((_, host))) = (active.get(), host.get()) else {
        return Err(ServerError::new(164, "Replica is not active right now").into());
    };
    Ok(QuorumPrecheck {
        replicas: quorum,
        timeout_ms: wanted.timeout_ms,
        identity,
        version,
        host,
    })
}

/// Returns the number of active replicas, as 25.8 counts them.
async fn active_replicas(table: &Table, zk: &KeeperSession) -> Result<usize, KeeperError> {
    let replicas = zk.children(table.paths.replicas.clone()).await?;
    let active = |replica| Reading::exists(table.paths.of(replica).is_active.clone());
    let found = zk.read(replicas.iter().map(active).collect(), None).await?;
    Ok(found.iter().filter(|found| !found.is_nothing()).count())
}

async fn commit(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    block: &Block<'_>,
    retries: Option<&Retries>,
) -> Result<(), QueryError> {
    let Block {
        partition,
        rows,
        asked,
        deduplicate,
    } = block;
    let rows = rows.clone();
    let block_id = deduplicate.then(|| block_id_of(table, partition, &rows));
    let block_path = block_id.as_ref().map(|id| child(&table.paths.blocks, id));
    let blob = shared::upload(table, &rows, shared::stores_new(table)).await?;
    let allocated = allocate(table, zk, partition, block_path.as_ref()).await;
    let Ok(Some((number, lock_path))) = allocated else {
        shared::discard(table, blob);
        return Ok(allocated.map(|_| ())?);
    };
    let part = Part::new(Info::block(partition, number), rows, table.world.now_ns());
    shared::attach(table, zk, &part.name, blob).await?;
    let mut operations = Vec::with_capacity(7);
    if let Some(path) = &block_path {
        operations.push(Operation::create(
            path.clone(),
            Data::Text(part.name.clone()),
        ));
    }
    let entry = Entry {
        kind: EntryKind::Get,
        new: part.info.clone(),
        name: part.name.clone(),
        source: table.me.clone(),
        parts: Vec::new(),
        quorum: asked.map_or(0, |asked| asked.replicas),
        block_id: block_id.unwrap_or_default().into(),
    };
    let (own, paths) = (&table.own, &table.paths);
    operations.extend([
        Operation::create(
            child(&own.parts, &part.name),
            Data::payload(part.rows.clone()),
        ),
        Operation::numbered(paths.log_entry.clone(), Data::payload(entry)),
        Operation::remove(lock_path.clone()),
    ]);
    if let Some(asked) = asked {
        let quorum = Quorum {
            part: part.info.clone(),
            needed: asked.replicas,
            replicas: vec![table.me.clone()],
        };
        operations.extend([
            Operation::create(paths.quorum_status.clone(), Data::payload(quorum)),
            Operation::check(own.is_active.clone(), Some(asked.version)),
            Operation::check(own.host.clone(), Some(asked.host)),
        ]);
    }
    assert!(part.info.is_block(), "an insert's block number is its own");
    let fresh = table.part(&part.name).is_none() || table.bugs.any_planted();
    assert!(fresh, "a block number is assigned once");
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
        return Ok(refused(
            table,
            &part,
            &error,
            block_path.as_ref(),
            lock_path,
        )?);
    }
    table.activate(&part);
    match asked {
        Some(asked) if !table.bugs.has(Bug::AckEarly) => match retries {
            Some(retries) => {
                Box::pin(await_quorum_retrying(table, &part, asked, retries.clone())).await
            }
            None => Ok(await_quorum(table, zk, &part, asked).await?),
        },
        _ => Ok(()),
    }
}

/// Returns the block ID of a partition's rows, so that the same block has the same ID on every
/// replica.
fn block_id_of(table: &Table, partition: &str, rows: &[Row]) -> String {
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

/// Allocates a block number. Returns it with the ephemeral node that marks the insert as in
/// progress; `None` if the block is a duplicate.
async fn allocate(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    partition: &Rc<str>,
    block_path: Option<&Path>,
) -> Result<Option<(i64, Path)>, KeeperError> {
    let known = table.numbered.borrow().get(partition).cloned();
    let path = match known {
        Some(path) => path,
        None => {
            let numbers = child(&table.paths.block_numbers, partition);
            zk.ensure(&numbers, Data::default()).await?;
            let path = child(&numbers, "block-");
            let mut numbered = table.numbered.borrow_mut();
            numbered.insert(partition.clone(), path.clone());
            path
        }
    };
    let mut operations = Vec::with_capacity(2);
    operations.extend(block_path.cloned().map(Operation::absent));
    operations.push(Operation::Create {
        path,
        data: Data::default(),
        ephemeral: true,
        sequential: true,
    });
    match zk.multi(operations).await {
        Ok(made) => {
            let lock = made.last().expect("every operation has a result").path();
            Ok(Some((number_of(lock), lock.clone())))
        }
        Err(error) if exists(&error, block_path) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the error says that this node exists.
fn exists(error: &KeeperError, path: Option<&Path>) -> bool {
    error.code == NODE_EXISTS && path == Some(&error.path)
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

/// Handles a multi that did not succeed. The part is removed, unless it may have been logged
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

async fn await_quorum(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Part,
    asked: &QuorumPrecheck,
) -> Result<(), ServerError> {
    let came = quorum_came(table, zk, part, asked).await;
    came.map_err(|error| unknown(&error))
}

fn unknown(error: &KeeperError) -> ServerError {
    let text = format!("Unknown status, client must retry. Reason: {error}");
    ServerError::new(319, text)
}

/// Waits for the quorum, also through later sessions.
async fn await_quorum_retrying(
    table: &Rc<Table>,
    part: &Part,
    asked: &QuorumPrecheck,
    retries: Retries,
) -> Result<(), QueryError> {
    let mut retries = retries;
    loop {
        let error = match table.connected() {
            Ok(zk) => match quorum_came(table, &zk, part, asked).await {
                Err(error) if is_connection(&error) => error,
                Err(error) => return Err(unknown(&error).into()),
                Ok(()) => return Ok(()),
            },
            Err(_) => KeeperError::new(SESSION_EXPIRED),
        };
        retries.again(table, unknown(&error).into()).await?;
    }
}

async fn quorum_came(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Part,
    asked: &QuorumPrecheck,
) -> Result<(), KeeperError> {
    let status_path = &table.paths.quorum_status;
    loop {
        let event = Promise::new();
        let read = zk.read_one(Reading::get(status_path.clone()), Some(&event));
        match read.await?.get() {
            Some((status, _)) if status.as_quorum().part == part.info => {}
            _ => break,
        }
        let waited = table.world.wait_for(&event, asked.timeout_ms * MS).await;
        waited.map_err(|TimedOut| KeeperError::new("Timeout while waiting for quorum"))?;
    }
    let active = zk.get(table.own.is_active.clone()).await?;
    let mut same = true;
    if table.mechanisms.has(Mechanism::InsertRetries) {
        let host = zk.get(table.own.host.clone()).await?;
        same = host.is_some_and(|(_, version)| version == asked.host);
    }
    match active {
        Some((identity, _)) if identity == asked.identity && same => Ok(()),
        _ => Err(KeeperError::new(
            "Replica become inactive while waiting for quorum",
        )),
    }
}
