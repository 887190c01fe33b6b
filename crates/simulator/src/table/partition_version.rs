//! The version of a table's partitions, which every statement that removes or copies whole
//! partitions sets at the version that it read, so that of two that overlap one begins again.
//!
//! Without it, a drop would have a number between those that a copy has taken: a replica that
//! executes the drop first would have the parts below it for good.
//!
//! Source: dropAllPartsInPartitions, replacePartitionFrom, movePartitionToTable of
//! StorageReplicatedMergeTree of 25.8.

use crate::bugs::Bug;
use crate::errors::{KeeperError, ServerError};
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::Operation;
use crate::table::entries::Data;
use crate::table::replica::Table;

/// Number of times that a statement begins again because another one changed the partition.
pub const TRIES: usize = 1000;
const CANNOT_ASSIGN_ALTER: i32 = 517;

/// Returns the version of the node. The first statement creates it.
pub async fn version_of(table: &Table, zk: &KeeperSession) -> Result<i64, KeeperError> {
    let path = &table.paths.alter_partition_version;
    zk.ensure(path, Data::default()).await?;
    let (_, version) = zk.get(path.clone()).await?.expect("it was created");
    Ok(version)
}

/// The operation that makes the next version, if it is still this one.
pub fn next_version(table: &Table, version: i64) -> Operation {
    Operation::Put {
        path: table.paths.alter_partition_version.clone(),
        data: Data::default(),
        version: (!table.bugs.has(Bug::PartitionUnversioned)).then_some(version),
    }
}

/// Returns the operations that check that no statement which removes or copies whole partitions, and
/// no mutation, has changed the table since.
///
/// Without them two statements that copy in opposite directions could each take what the other is
/// about to replace, and the tables would have exchanged their rows.
pub async fn unchanged(table: &Table, zk: &KeeperSession) -> Result<Vec<Operation>, KeeperError> {
    let partitions = version_of(table, zk).await?;
    Ok(vec![
        Operation::check(
            table.paths.alter_partition_version.clone(),
            Some(partitions),
        ),
        unmutated(table, zk).await?,
    ])
}

/// Returns the operation that checks that no mutation of the table has been created since.
pub async fn unmutated(table: &Table, zk: &KeeperSession) -> Result<Operation, KeeperError> {
    let mutations = &table.paths.mutations;
    let found = zk.get(mutations.clone()).await?;
    let (_, version) = found.expect("a table has mutations");
    Ok(Operation::check(mutations.clone(), Some(version)))
}

pub fn changed_meanwhile() -> ServerError {
    let text = "Another ALTER PARTITION query was concurrently executed";
    ServerError::new(CANNOT_ASSIGN_ALTER, text)
}
