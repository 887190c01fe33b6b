//! Updates the quorum of an insert: replicas join it, and the one that completes it ends it.
//!
//! Source: updateQuorum of 18.16.1; updateQuorum, fetchPart and executeFetch of
//! StorageReplicatedMergeTree for the parallel quorums of 25.8.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, BAD_VERSION, NODE_EXISTS, NO_NODE};
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation, Path};
use crate::protocol::Mechanism;
use crate::table::entries::{Data, LastParts, Quorum, TableData};
use crate::table::parts::Info;
use crate::table::replica::Table;

/// How the quorum of an insert is tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuorumKind {
    /// In /quorum/status, one insert of the table at a time. Its end changes last_part.
    Serial,
    /// In a node below /quorum/parallel that has the part's name. Its end leaves last_part alone.
    Parallel,
}

impl QuorumKind {
    /// Returns the node of a pending quorum.
    pub fn status(self, table: &Table, part: &str) -> Path {
        match self {
            QuorumKind::Serial => table.paths.quorum_status.clone(),
            QuorumKind::Parallel => child(&table.paths.quorum_parallel, part),
        }
    }
}

/// Adds this replica to the quorum of an insert's part.
pub async fn join(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
    name: &str,
) -> Result<(), KeeperError> {
    let mut kind = QuorumKind::Serial;
    if table.mechanisms.has(Mechanism::ParallelQuorum) {
        let parallel = QuorumKind::Parallel;
        if zk.exists(parallel.status(table, name)).await? {
            kind = parallel;
        }
    }
    update_quorum(table, zk, kind, part, name).await
}

/// Adds this replica to the quorums of the parts that a fetched part covers. Merges do not spare
/// parts whose parallel quorum is pending.
pub async fn join_covered(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
) -> Result<(), KeeperError> {
    if table.mechanisms.has(Mechanism::ParallelQuorum) && !part.is_block() {
        join_pending(table, zk, |pending| part.contains(pending)).await?;
    }
    Ok(())
}

/// Takes this replica out of the pending quorum of a part that it is about to remove.
pub async fn leave(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
    name: &str,
) -> Result<(), KeeperError> {
    let Some((path, status, version)) = pending(table, zk, name).await? else {
        return Ok(());
    };
    if status.part != *part || !status.replicas.contains(&table.me) {
        return Ok(());
    }
    let mut quorum = Quorum::clone(&status);
    quorum.replicas.retain(|replica| *replica != table.me);
    let data = Data::payload(quorum);
    // Of two serial quorums one after the other both nodes have version 0.
    let last = zk.get(table.paths.last_part.clone()).await?;
    let again = pending(table, zk, name).await?;
    if again.is_none_or(|(_, same, _)| same.part != *part) {
        return Ok(());
    }
    let last = last.map(|(_, version)| version);
    zk.multi(vec![
        Operation::check(table.paths.last_part.clone(), last),
        Operation::absent(failed_path(table, name)),
        Operation::Put {
            path,
            data,
            version: Some(version),
        },
    ])
    .await?;
    Ok(())
}

/// Adds this replica to the parallel quorums of the parts that it has.
pub async fn join_pending(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    has: impl Fn(&Info) -> bool,
) -> Result<(), KeeperError> {
    for name in zk
        .children(table.paths.quorum_parallel.clone())
        .await?
        .iter()
    {
        let part = Info::named(name);
        if has(&part) {
            update_quorum(table, zk, QuorumKind::Parallel, &part, name).await?;
        }
    }
    Ok(())
}

/// Returns the node of the part's pending quorum, its content and its version; the node of another
/// part if a serial quorum is pending, as 25.8 does.
pub async fn pending(
    table: &Table,
    zk: &KeeperSession,
    part: &str,
) -> Result<Option<(Path, Rc<Quorum>, i64)>, KeeperError> {
    let mut kinds = vec![QuorumKind::Serial];
    if table.mechanisms.has(Mechanism::ParallelQuorum) {
        kinds.push(QuorumKind::Parallel);
    }
    for kind in kinds {
        let path = kind.status(table, part);
        if let Some((status, version)) = zk.get(path.clone()).await? {
            return Ok(Some((path, status.shared_quorum(), version)));
        }
    }
    Ok(None)
}

/// Adds this replica to the pending quorum, and ends the quorum if it is complete.
///
/// /quorum/status is created with version 0 for each insert, so its version alone does not identify
/// the quorum. The end of a quorum changes last_part, or adds a failed part. The node of a parallel
/// quorum belongs to one part for good.
async fn update_quorum(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    kind: QuorumKind,
    part: &Info,
    name: &str,
) -> Result<(), KeeperError> {
    let bugs = table.bugs;
    let serial = kind == QuorumKind::Serial;
    let status_path = kind.status(table, name);
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
        assert!(
            status.replicas.len() < status.needed,
            "a complete quorum is ended"
        );
        let mut last = last.get().expect("the table has this node");
        let mut replicas = status.replicas.clone();
        if !replicas.contains(&table.me) {
            replicas.push(table.me.clone());
        }
        let mut operations = Vec::with_capacity(4);
        if !table.disk.device.quiet() && !bugs.has(Bug::AcknowledgedFailure) {
            // The part check may have removed the part since it was announced.
            let active = table.active.borrow();
            let Some((_, has)) = active.covering(part) else {
                return Ok(());
            };
            operations.push(Operation::check(child(&table.own.parts, &has.name), None));
        }
        if serial && bugs.has(Bug::QuorumAba) {
            let again = zk.get(last_path.clone()).await?;
            last = again.expect("the table has this node");
        } else if serial {
            operations.push(Operation::check(last_path.clone(), Some(last.1)));
            operations.push(Operation::absent(failed_path(table, name)));
        }
        if replicas.len() >= status.needed || bugs.has(Bug::QuorumUncounted) {
            operations.push(Operation::Remove {
                path: status_path.clone(),
                version: Some(version),
            });
            operations.extend(serial.then(|| Operation::Put {
                path: last_path.clone(),
                data: Data::payload(with_last(table, last.0.as_last(), part)),
                version: Some(last.1),
            }));
        } else {
            operations.push(joined(status, replicas, &status_path, version));
        }
        match zk.multi(operations).await {
            Err(error) if [BAD_VERSION, NODE_EXISTS].contains(&error.code) => {}
            Err(error) if error.code != NO_NODE => return Err(error),
            _ => return Ok(()),
        }
    }
}

/// Returns the operation that writes a pending quorum with more replicas.
fn joined(status: &Quorum, replicas: Vec<Rc<str>>, path: &Rc<str>, version: i64) -> Operation {
    assert!(
        replicas.len() < status.needed,
        "the replica that completes a quorum ends it"
    );
    let quorum = Quorum {
        replicas,
        ..Quorum::clone(status)
    };
    Operation::Put {
        path: path.clone(),
        data: Data::payload(quorum),
        version: Some(version),
    }
}

/// Returns the last parts after a quorum of this part.
fn with_last(table: &Table, last: &LastParts, part: &Info) -> LastParts {
    let mut out = last.clone();
    let at = out
        .iter()
        .position(|(partition, _)| *partition == part.partition);
    let before = at.map_or(part, |at| &last[at].1);
    let bugs = table.bugs;
    let now = if bugs.has(Bug::LastPartBack) {
        part.min(before)
    } else if bugs.has(Bug::LastPartLate) {
        part
    } else {
        part.max(before)
    };
    assert!(
        now >= before || bugs.has(Bug::LastPartBack) || bugs.has(Bug::LastPartLate),
        "last_part does not go back"
    );
    match at {
        Some(at) => out[at].1 = now.clone(),
        None => out.push((part.partition.clone(), now.clone())),
    }
    out
}

/// Returns the node that exists if the quorum of the part has failed.
pub fn failed_path(table: &Table, name: &str) -> Path {
    child(&table.paths.failed_parts, name)
}
