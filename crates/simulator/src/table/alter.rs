//! Executes ALTER TABLE … ADD and DROP COLUMN.
//!
//! 18.16.1 sets `/columns` to a list that it makes from its replica's own, and waits until every
//! replica has it. Since 20.3 an ALTER is an entry of the log, in one multi with the shared nodes, and
//! fails if the version of `/metadata` is not the replica's own.
//!
//! Source: StorageReplicatedMergeTree::alter of 18.16.1 and of 25.8.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError, BAD_VERSION};
use crate::keeper::paths::number_of;
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{Done, Operation};
use crate::table::columns::in_log;
use crate::table::entries::{Columns, Data, Entry};
use crate::table::merge::Logged;
use crate::table::optimize::wait_until_executed;
use crate::table::replica::Table;
use crate::world::{Ns, Promise, SECOND};

/// replication_alter_columns_timeout.
const ALTER_TIMEOUT_NS: Ns = 60 * SECOND;
const ILLEGAL_COLUMN: i32 = 44;
const DUPLICATE_COLUMN: i32 = 15;
const NO_COLUMN: i32 = 10;
const CANNOT_ASSIGN_ALTER: i32 = 517;
const UNFINISHED: i32 = 341;

/// Returns the columns with one more or less, and the next version; `None` if it is there already, or
/// not there.
fn changed(before: &Columns, column: &Rc<str>, added: bool) -> Option<Columns> {
    let mut names = before.names.clone();
    if names.contains(column) == added {
        return None;
    }
    if added {
        names.push(column.clone());
    } else {
        names.retain(|name| name != column);
    }
    let version = before.version + 1;
    Some(Columns { names, version })
}

/// Adds or drops a column.
pub async fn alter(
    table: &Rc<Table>,
    column: &Rc<str>,
    added: bool,
    sync: i64,
) -> Result<(), QueryError> {
    let zk = table.writable()?;
    let before = table.columns();
    let Some(after) = changed(&before, column, added) else {
        let code = match (in_log(table), added) {
            (false, _) => ILLEGAL_COLUMN,
            (true, true) => DUPLICATE_COLUMN,
            (true, false) => NO_COLUMN,
        };
        let there = if added {
            "already exists"
        } else {
            "does not exist"
        };
        let text = format!("Cannot alter column {column}: column with this name {there}");
        return Err(ServerError::new(code, text).into());
    };
    if in_log(table) {
        return log(table, &zk, &before, after, sync).await;
    }
    let repaired = !table.bugs.has(Bug::UndoneAlter);
    let set = Operation::Put {
        path: table.paths.columns.clone(),
        data: after.data(),
        version: repaired.then_some(before.version),
    };
    let done = zk.multi(vec![set]).await.map_err(stale)?;
    let version = match done[0] {
        Done::Put(version) => version,
        _ => unreachable!("a node was set"),
    };
    await_replicas(table, &Columns { version, ..after }).await
}

/// Turns the error of a version that has changed into the server's.
fn stale(error: KeeperError) -> QueryError {
    if error.code != BAD_VERSION {
        return error.into();
    }
    let text = "Metadata on replica is not up to date with common metadata in Zookeeper.";
    ServerError::new(CANNOT_ASSIGN_ALTER, text).into()
}

/// Logs an ALTER, and waits as `replication_alter_partitions_sync` says: 1 for this replica, 2 for
/// all.
async fn log(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    before: &Columns,
    after: Columns,
    sync: i64,
) -> Result<(), QueryError> {
    let paths = &table.paths;
    let after = Rc::new(after);
    let entry = Rc::new(Entry::alter(table.me.clone(), after.clone()));
    let operations = vec![
        Operation::Put {
            path: paths.metadata.clone(),
            data: Data::Number(after.version),
            version: Some(before.version),
        },
        Operation::put(paths.columns.clone(), after.data()),
        Operation::numbered(paths.log_entry.clone(), Data::Payload(entry.clone())),
    ];
    let done = zk.multi(operations).await.map_err(stale)?;
    let number = number_of(done[2].path());
    let logged = Logged { number, entry };
    let replicas = match sync {
        0 => Vec::new(),
        1 => vec![table.me.clone()],
        _ => zk.children(paths.replicas.clone()).await?.to_vec(),
    };
    for replica in &replicas {
        wait_until_executed(table, replica, &logged).await?;
    }
    Ok(())
}

/// Waits as 18.16.1 does until every replica has these columns, or another ALTER has changed them.
async fn await_replicas(table: &Rc<Table>, after: &Columns) -> Result<(), QueryError> {
    let replicas = table.session()?;
    let replicas = replicas.children(table.paths.replicas.clone()).await?;
    let mut missing = Vec::new();
    for replica in replicas.iter() {
        let own = table.paths.of(replica);
        loop {
            let zk = table.session()?;
            if !zk.exists(own.is_active.clone()).await? {
                missing.push(replica.clone());
                break;
            }
            let changed = Promise::new();
            let readings = [
                Reading::get(table.paths.columns.clone()),
                Reading::get(own.columns.clone()),
            ];
            let [shared, has] = zk.read_all(readings, Some(&changed)).await?;
            let version = shared.get().map(|(_, version)| version);
            if version != Some(after.version) {
                return Ok(());
            }
            let has = has.get().expect("a replica's nodes are created together");
            if has.0 == after.data() {
                break;
            }
            let waited = table.world.wait_for(&changed, ALTER_TIMEOUT_NS).await;
            if waited.is_err() {
                missing.push(replica.clone());
                break;
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "Alter is not finished because of {}. Alter will be done asynchronously.",
        missing.join(", ")
    );
    Err(ServerError::new(UNFINISHED, text).into())
}
