//! Executes SYSTEM DROP REPLICA: removes what a replica that is not active has in ZooKeeper.
//!
//! Source: dropReplica of StorageReplicatedMergeTree, since 20.5.

use std::rc::Rc;

use crate::errors::{KeeperError, QueryError, ServerError, NODE_EXISTS};
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::{child, Operation, Path};
use crate::protocol::Mechanism;
use crate::sql::unknown;
use crate::table::replica::Table;

const TABLE_WAS_NOT_DROPPED: i32 = 305;

/// Drops a replica of the table; error 305 if it is this one or active. No-op if there is none.
///
/// The server removes one node after the other. Here it is one multi, so that no replica can see
/// half of another one.
pub async fn drop_replica(table: &Rc<Table>, replica: &Rc<str>) -> Result<(), QueryError> {
    if !table.mechanisms.has(Mechanism::ManyLeaders) {
        return Err(unknown("SYSTEM DROP REPLICA").into());
    }
    if *replica == table.me {
        let text = "We can't drop local replica, please use `DROP TABLE`";
        return Err(ServerError::new(TABLE_WAS_NOT_DROPPED, text).into());
    }
    let zk = table.connected()?;
    let own = table.paths.of(replica);
    if !zk.exists(own.root.clone()).await? {
        return Ok(());
    }
    let active = own.is_active.clone();
    let mut operations = vec![Operation::absent(active.clone())];
    for above in [&own.parts, &own.queue, &own.root] {
        let children = nodes_below(&zk, above).await?;
        let kept = children.into_iter().filter(|path| *path != active);
        operations.extend(kept.map(Operation::remove));
    }
    operations.push(Operation::remove(own.root.clone()));
    match zk.multi(operations).await {
        Err(error) if error.code == NODE_EXISTS => {
            let text = format!("Can't drop replica: {replica}, because it's active");
            Err(ServerError::new(TABLE_WAS_NOT_DROPPED, text).into())
        }
        done => Ok(done.map(drop)?),
    }
}

async fn nodes_below(zk: &KeeperSession, above: &Path) -> Result<Vec<Path>, KeeperError> {
    let names = zk.children(above.clone()).await?;
    Ok(names.iter().map(|name| child(above, name)).collect())
}
