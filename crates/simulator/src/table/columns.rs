//! Follows the columns of a table, which ALTER … ADD and DROP COLUMN change.
//!
//! Every replica of 18.16.1 watches `/columns`. Since 20.3 an ALTER is an entry of the log.
//!
//! Source: ReplicatedMergeTreeAlterThread::run and checkTableStructure of 18.16.1;
//! executeMetadataAlter and cloneMetadataIfNeeded of StorageReplicatedMergeTree for 25.8. Columns that
//! were added are never written, so parts do not have them.

use std::rc::Rc;

use crate::errors::{KeeperError, QueryError};
use crate::keeper::session::{Found, KeeperSession, Reading};
use crate::keeper::tree::Operation;
use crate::protocol::Mechanism;
use crate::table::entries::{Columns, Data, Entry};
use crate::table::part_files;
use crate::table::paths::ReplicaPaths;
use crate::table::replica::Table;
use crate::world::{Ns, SECOND};

/// ALTER_ERROR_SLEEP_MS.
const ERROR_SLEEP_NS: Ns = 10 * SECOND;

/// Returns whether ALTERs are entries of the log.
pub fn in_log(table: &Table) -> bool {
    table.mechanisms.has(Mechanism::AlterInLog)
}

/// Returns what a table creates with its first replica, or checks with a later one.
pub fn shared_nodes(table: &Table, first: bool) -> Vec<Operation> {
    let paths = &table.paths;
    if !first {
        // A replica joins with the columns that the table has, or not at all (122).
        let version = table.columns().version;
        return vec![Operation::check(paths.columns.clone(), Some(version))];
    }
    vec![
        Operation::create(paths.columns.clone(), table.columns().data()),
        Operation::create(paths.metadata.clone(), Data::Number(0)),
    ]
}

/// Returns the nodes of a replica's own columns.
pub fn own_nodes(table: &Table) -> Vec<Operation> {
    let own = &table.own;
    let mut nodes = vec![Operation::create(
        own.columns.clone(),
        table.columns().data(),
    )];
    if in_log(table) {
        let version = own.metadata_version.clone();
        nodes.push(Operation::create(
            version,
            Data::Number(table.columns().version),
        ));
    }
    nodes
}

/// Executes an entry of the log: first in ZooKeeper, then on the disk.
pub async fn execute(
    table: &Table,
    zk: &KeeperSession,
    after: &Rc<Columns>,
) -> Result<(), QueryError> {
    let before = table.columns();
    if after.version < before.version {
        return Ok(());
    }
    let own = &table.own;
    zk.multi(vec![
        Operation::put(own.columns.clone(), after.data()),
        Operation::put(own.metadata_version.clone(), Data::Number(after.version)),
    ])
    .await?;
    part_files::write_metadata(table)?;
    assert!(
        table.columns().version <= after.version,
        "ALTERs are executed in order"
    );
    table.disk.columns.replace(after.clone());
    Ok(())
}

/// Returns the readings by which a replica learns its columns when the server starts: the shared
/// node, or with entries of the log its own nodes.
pub fn readings(table: &Table) -> Vec<Reading> {
    let own = &table.own;
    if in_log(table) {
        let nodes = [&own.columns, &own.metadata_version];
        return nodes.map(|node| Reading::get(node.clone())).into();
    }
    vec![Reading::get(table.paths.columns.clone())]
}

/// Takes over the columns that these readings found.
pub fn take_over(table: &Table, found: Vec<Found>) {
    let mut nodes = found.into_iter().filter_map(Found::get);
    let (columns, version) = nodes.next().expect("a table's nodes are created together");
    let version = nodes
        .next()
        .map_or(version, |(version, _)| version.as_number());
    if version != table.columns().version {
        let columns = Columns::of(&columns, version);
        table.disk.columns.replace(Rc::new(columns));
    }
}

/// Returns the entry that gives a lost replica the columns of the one that it clones, if they are
/// newer than its own.
pub async fn cloned(
    table: &Table,
    zk: &KeeperSession,
    source: &ReplicaPaths,
) -> Result<Option<Entry>, KeeperError> {
    if !in_log(table) {
        return Ok(None);
    }
    let columns = zk.data(source.columns.clone()).await?;
    let version = zk.data(source.metadata_version.clone()).await?.as_number();
    let columns = Rc::new(Columns::of(&columns, version));
    let newer = version > table.columns().version;
    Ok(newer.then(|| Entry::alter(table.me.clone(), columns)))
}

/// Follows the shared columns as 18.16.1 does: on the disk first, then in ZooKeeper.
pub async fn follow(table: &Table, zk: &KeeperSession, found: Found) -> Result<(), KeeperError> {
    // The alter thread tries again until it has written the columns.
    while !table.disk.device.quiet() && part_files::write_metadata(table).is_err() {
        table.world.sleep(ERROR_SLEEP_NS).await;
    }
    take_over(table, vec![found]);
    let after = table.columns();
    if table.columns_set.get() == after.version {
        return Ok(());
    }
    zk.put(table.own.columns.clone(), after.data()).await?;
    table.columns_set.set(after.version);
    Ok(())
}
