//! Updates the quorum of an insert: replicas join it, and the one that completes it ends it.
//!
//! Source: updateQuorum of 18.16.1.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, BAD_VERSION, NODE_EXISTS, NO_NODE};
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation, Path};
use crate::table::entries::{Data, LastParts, Quorum, TableData};
use crate::table::parts::Info;
use crate::table::replica::Table;

/// Adds this replica to the pending quorum, and ends the quorum if it is complete.
///
/// /quorum/status is created with version 0 for each insert, so its version alone does not identify
/// the quorum. The end of a quorum changes last_part, or adds a failed part.
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
        operations.push(Operation::check(last_path.clone(), Some(last.1)));
        operations.push(Operation::absent(failed_path(table, name)));
        if bugs.has(Bug::QuorumAba) {
            last = zk
                .get(last_path.clone())
                .await?
                .expect("the table has this node");
            operations.clear();
        }
        if replicas.len() >= status.needed || bugs.has(Bug::QuorumUncounted) {
            operations.push(Operation::Remove {
                path: status_path.clone(),
                version: Some(version),
            });
            operations.push(Operation::Put {
                path: last_path.clone(),
                data: Data::payload(with_last(table, last.0.as_last(), part)),
                version: Some(last.1),
            });
        } else {
            assert!(
                replicas.len() < status.needed,
                "the replica that completes a quorum ends it"
            );
            let quorum = Quorum {
                replicas,
                ..Quorum::clone(status)
            };
            operations.push(Operation::Put {
                path: status_path.clone(),
                data: Data::payload(quorum),
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
