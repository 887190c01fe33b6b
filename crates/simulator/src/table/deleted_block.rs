//! Decides whether a block that was inserted before may be inserted again, since its rows were
//! deleted.
//!
//! 25.8 deduplicates by the hash of the block alone, whatever has become of its rows
//! (`forgotten-insert`; ReplicatedMergeTreeSink::commitPart looks at /blocks and nothing else). The
//! repaired protocol takes a block for a duplicate only if the mutations since have left some row
//! of it, at a moment at which ZooKeeper's leader has both the block and no other mutation.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, BAD_VERSION, NO_NODE};
use crate::keeper::paths::Path;
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::Operation;
use crate::protocol::Mechanism;
use crate::table::entries::TableData;
use crate::table::mutation::survive;
use crate::table::parts::{Info, Rows};
use crate::table::replica::Table;

/// Forgets a block that was inserted before if mutations have removed all of its rows since. Returns
/// whether the insert has to begin again: the block was forgotten, or something has changed
/// meanwhile.
pub async fn forget_deleted(
    table: &Table,
    zk: &Rc<KeeperSession>,
    path: &Path,
    partition: &str,
    rows: &Rows,
) -> Result<bool, QueryError> {
    let retries = table.mechanisms.has(Mechanism::InsertRetries);
    if table.bugs.has(Bug::ForgottenInsert) || !retries {
        return Ok(false);
    }
    let mutations = &table.paths.mutations;
    let readings = [
        Reading::get(path.clone()),
        Reading::exists(mutations.clone()),
        Reading::values(mutations.clone()),
    ];
    let [block, latest, listed] = zk.read_all(readings, None).await?;
    let Some((part, version)) = block.get() else {
        return Ok(true);
    };
    let inserted = Info::named(part.as_text()).min;
    let mutations_since = listed
        .values()
        .into_iter()
        .map(|(_, data)| data.shared_mutation());
    let mutations_since =
        mutations_since.filter(|one| *one.partition == *partition && one.number > inserted);
    let is_left = survive(table, rows, mutations_since)?;
    let operations = if is_left {
        vec![
            Operation::check(path.clone(), Some(version)),
            Operation::check(mutations.clone(), latest.exists()),
        ]
    } else {
        vec![Operation::Remove {
            path: path.clone(),
            version: Some(version),
        }]
    };
    match zk.multi(operations).await {
        Ok(_) => Ok(!is_left),
        Err(error) if has_changed(&error) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn has_changed(error: &KeeperError) -> bool {
    error.code == BAD_VERSION || error.code == NO_NODE
}
