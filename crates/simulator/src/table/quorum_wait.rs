//! Checks whether an insert may ask for a quorum, and waits until the quorum is reached.
//!
//! Source: ReplicatedMergeTreeBlockOutputStream of 18.16.1; checkQuorumPrecondition, waitForQuorum
//! and resolveQuorum of ReplicatedMergeTreeSink for 25.8.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError};
use crate::keeper::session::{KeeperSession, Reading};
use crate::protocol::Mechanism;
use crate::table::entries::{Data, TableData};
use crate::table::parts::Info;
use crate::table::quorum::{failed_path, QuorumKind};
use crate::table::replica::Table;
use crate::table::retries::{is_connection, is_lost, Retries};
use crate::world::{Ns, Promise, TimedOut, MS};

/// What an insert asks for.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Number of replicas that must have each part, 0 or 1 if one is enough; `None`: a majority.
    pub quorum: Option<usize>,
    pub kind: QuorumKind,
    pub timeout_ms: i64,
    pub deduplicate: bool,
    /// Whether the insert waits for its quorum. A planted bug clears it.
    pub is_awaited: bool,
    /// The end of its max_execution_time.
    pub until_ns: Ns,
}

/// The requested quorum, and what the pre-check of the insert saw of this replica.
pub struct QuorumPrecheck {
    pub replicas: usize,
    pub kind: QuorumKind,
    /// Whether the insert waits for the quorum.
    pub is_awaited: bool,
    timeout_ms: i64,
    /// The content of is_active.
    identity: Data,
    /// The version of is_active.
    pub version: i64,
    /// The version of `host`.
    pub host: i64,
}

/// Repeats the pre-check as long as connections are lost.
pub async fn prechecked(
    table: &Rc<Table>,
    wanted: &Wanted,
    mut retries: Retries,
) -> Result<QuorumPrecheck, QueryError> {
    loop {
        let error = match table.session() {
            Ok(zk) => match precheck(table, &zk, wanted).await {
                Err(error) if is_lost(&error) => error,
                done => return done,
            },
            Err(error) => error.into(),
        };
        retries.again(table, error).await?;
    }
}

/// Returns what an insert must check when it commits; error 285 if too few replicas are active, 286
/// if a serial quorum is pending and this insert's is serial too.
pub async fn precheck(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    wanted: &Wanted,
) -> Result<QuorumPrecheck, QueryError> {
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
    let quorum = match wanted.quorum {
        Some(quorum) => quorum,
        None => majority(zk.children(table.paths.replicas.clone()).await?.len()),
    };
    if live < quorum {
        let text =
            format!("Number of alive replicas ({live}) is less than requested quorum ({quorum}).");
        return Err(ServerError::new(285, text).into());
    }
    if let (QuorumKind::Serial, Some((status, _))) = (wanted.kind, status.get()) {
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
        kind: wanted.kind,
        is_awaited: wanted.is_awaited,
        timeout_ms: wanted.timeout_ms,
        identity,
        version,
        host,
    })
}

fn majority(replicas: usize) -> usize {
    replicas / 2 + 1
}

/// Returns the number of active replicas, as 25.8 counts them.
async fn active_replicas(table: &Table, zk: &KeeperSession) -> Result<usize, KeeperError> {
    let replicas = zk.children(table.paths.replicas.clone()).await?;
    let active = |replica| Reading::exists(table.paths.of(replica).is_active.clone());
    let found = zk.read(replicas.iter().map(active).collect(), None).await?;
    Ok(found.iter().filter(|found| !found.is_nothing()).count())
}

/// Waits for the quorum of a part in this session.
pub async fn await_quorum(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
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
pub async fn await_quorum_retrying(
    table: &Rc<Table>,
    part: &Info,
    asked: &QuorumPrecheck,
    retries: Retries,
) -> Result<(), QueryError> {
    let mut retries = retries;
    loop {
        let error = match table.session() {
            Ok(zk) => match quorum_came(table, &zk, part, asked).await {
                Err(error) if is_connection(&error) => error,
                Err(error) => return Err(unknown(&error).into()),
                Ok(()) => return Ok(()),
            },
            Err(error) => error,
        };
        retries.again(table, unknown(&error).into()).await?;
    }
}

async fn quorum_came(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
    asked: &QuorumPrecheck,
) -> Result<(), KeeperError> {
    let status_path = asked.kind.status(table, &part.name());
    loop {
        let event = Promise::new();
        let read = zk.read_one(Reading::get(status_path.clone()), Some(&event));
        match read.await?.get() {
            Some((status, _)) if status.as_quorum().part == *part => {}
            _ => break,
        }
        let waited = table.world.wait_for(&event, asked.timeout_ms * MS).await;
        waited.map_err(|TimedOut| KeeperError::new("Timeout while waiting for quorum"))?;
    }
    // Whoever found the part on no active replica has marked its quorum as failed, though this
    // replica was active all the time: it could not read the part, and removed it.
    let readings = [
        Reading::get(table.own.is_active.clone()),
        Reading::exists(failed_path(table, &part.name())),
    ];
    let [active, failed] = zk.read_all(readings, None).await?;
    if !failed.is_nothing() && !table.bugs.has(Bug::AcknowledgedFailure) {
        return Err(KeeperError::new("The quorum of the part has failed"));
    }
    let active = active.get();
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
