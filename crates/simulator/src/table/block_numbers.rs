//! Allocates block numbers: ephemeral sequential nodes, which are unique within their partition.
//!
//! Source: allocateBlockNumber of StorageReplicatedMergeTree of 18.16.1.

use std::cell::RefCell;
use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, NODE_EXISTS};
use crate::keeper::paths::number_of;
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::{child, Operation, Path};
use crate::table::entries::Data;
use crate::table::replica::Table;

/// The data of a number's node, which says who holds it: an insert, whose number another statement
/// may take away before the part is committed; ...
pub const INSERT: &str = "";
/// ... whoever else makes a part or a mutation; ...
pub const OTHER: &str = "other";
/// ... or a statement that removes the parts below, and makes none of this number.
pub const RANGE: &str = "range";

/// Allocates a block number. Returns it with the ephemeral node that marks the insert as in
/// progress; `None` if the block is a duplicate. `taken` is what an earlier try took.
pub async fn allocate(
    table: &Table,
    zk: &KeeperSession,
    partition: &Rc<str>,
    block_path: Option<&Path>,
    taken: &RefCell<Option<Path>>,
) -> Result<Option<(i64, Path)>, KeeperError> {
    let path = prefix(table, zk, partition).await?;
    let mut operations = Vec::with_capacity(2);
    operations.extend(block_path.cloned().map(Operation::absent));
    let kept = match taken.take() {
        Some(kept) if !zk.exists(kept.clone()).await? => Some(kept),
        _ => None,
    };
    operations.push(Operation::Create {
        sequential: kept.is_none(),
        path: kept.unwrap_or(path),
        data: Data::default(),
        ephemeral: true,
    });
    match zk.multi(operations).await {
        Ok(made) => {
            let lock = made.last().expect("every operation has a result").path();
            let kept = table.bugs.has(Bug::NumberKept).then(|| lock.clone());
            taken.replace(kept);
            Ok(Some((number_of(lock), lock.clone())))
        }
        Err(error) if exists(&error, block_path) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the prefix of the nodes of a partition's numbers, and creates the node above them.
async fn prefix(
    table: &Table,
    zk: &KeeperSession,
    partition: &Rc<str>,
) -> Result<Path, KeeperError> {
    let known = table.numbered.borrow().get(partition).cloned();
    if let Some(path) = known {
        return Ok(path);
    }
    let numbers = child(&table.paths.block_numbers, partition);
    zk.ensure(&numbers, Data::default()).await?;
    let path = child(&numbers, "block-");
    let mut numbered = table.numbered.borrow_mut();
    numbered.insert(partition.clone(), path.clone());
    Ok(path)
}

/// Allocates a block number for something else than an insert; `None` if the block is a duplicate.
pub async fn reserve(
    table: &Table,
    zk: &KeeperSession,
    partition: &Rc<str>,
    block_path: Option<&Path>,
    holder: &str,
) -> Result<Option<(i64, Path)>, KeeperError> {
    let mut operations: Vec<_> = block_path
        .cloned()
        .map(Operation::absent)
        .into_iter()
        .collect();
    operations.push(Operation::Create {
        path: prefix(table, zk, partition).await?,
        data: Data::text(holder),
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
pub fn exists(error: &KeeperError, path: Option<&Path>) -> bool {
    error.code == NODE_EXISTS && path == Some(&error.path)
}
