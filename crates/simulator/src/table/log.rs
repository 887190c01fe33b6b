//! Follows the replication log: each replica copies new entries to its own queue.
//!
//! Source: ReplicatedMergeTreeQueue::load, pullLogsToQueue and updateMutations of 18.16.1.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::KeeperError;
use crate::keeper::paths::number_of;
use crate::keeper::session::{Found, KeeperSession, Reading};
use crate::keeper::tree::{child, Operation};
use crate::protocol::Mechanism;
use crate::table::columns;
use crate::table::entries::{Data, Entry, TableData};
use crate::table::parts::Info;
use crate::table::replica::{Mutations, Table};
use crate::world::{Ns, Promise, SECOND};

const PULL_ERROR_SLEEP_NS: Ns = SECOND;

/// Load what is in ZooKeeper but not in memory.
pub async fn load(table: &Rc<Table>, zk: &Rc<KeeperSession>) -> Result<(), KeeperError> {
    let queue = &table.queue;
    let pointer = zk.data(table.own.log_pointer.clone()).await?;
    queue.pointer.set(pointer.as_number());
    let path = table.own.queue.clone();
    let found = zk.read_one(Reading::values(path), None).await?;
    for (name, entry) in found.values() {
        let known = queue.entries.borrow().contains_key(&name);
        if !known {
            queue.add(name, entry.shared_entry());
        }
    }
    Ok(())
}

/// Copies the log's new entries to the queue and moves the pointer, in one multi. One pull runs at
/// a time.
pub async fn pull(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    watch: Option<&Promise<()>>,
) -> Result<(), KeeperError> {
    let _guard = table.pulls.hold().await;
    let pointer = &table.own.log_pointer;
    let ahead = Reading::ahead(table.paths.log.clone(), pointer.clone());
    let logged = zk.read_one(ahead, watch).await?;
    let mutations = zk.read_one(mutations_listed(table), None).await?;
    table.mutations.replace(known(mutations));
    let mut copied = logged.values();
    let Some((newest, _)) = copied.last() else {
        return Ok(());
    };
    let end = number_of(newest) + 1;
    assert!(end > table.queue.pointer.get(), "a log pointer increases");
    let first = number_of(&copied[0].0);
    assert_eq!(end - first, copied.len() as i64, "the log has no gaps");
    if table.bugs.has(Bug::PointerSkips) && copied.len() > 2 {
        copied.remove(0);
    }
    let mut operations = Vec::with_capacity(copied.len() + 1);
    let entries = copied.iter().map(|(_, entry)| queued(table, entry.clone()));
    operations.extend(entries);
    operations.push(Operation::put(pointer.clone(), Data::Number(end)));
    let made = zk.multi(operations).await?;
    table.queue.pointer.set(end);
    for ((_, entry), done) in copied.iter().zip(made.iter()) {
        table
            .queue
            .add(last_word(done.path()), entry.shared_entry());
    }
    table.queue.wake();
    Ok(())
}

/// Pulls whenever the log changes, as long as the session lives.
pub async fn follow(table: Rc<Table>, zk: Rc<KeeperSession>) {
    while table.uses(&zk) {
        let changed = Promise::new();
        if pull(&table, &zk, Some(&changed)).await.is_ok() {
            table.world.wait(&changed).await;
        } else {
            table.world.sleep(PULL_ERROR_SLEEP_NS).await;
        }
    }
}

fn mutations_listed(table: &Table) -> Reading {
    Reading::values(table.paths.mutations.clone())
}

fn known(listed: Found) -> Mutations {
    let listed = listed.values().into_iter();
    let mutations = listed.map(|(name, data)| (name, data.shared_mutation()));
    mutations.collect()
}

/// Reads the mutations and the columns whenever they change, as long as the session lives.
pub async fn learn(table: Rc<Table>, zk: Rc<KeeperSession>) {
    while table.uses(&zk) {
        let changed = Promise::new();
        let shared = Reading::get(table.paths.columns.clone());
        let readings = [mutations_listed(&table), shared];
        let Ok([listed, shared]) = zk.read_all(readings, Some(&changed)).await else {
            return;
        };
        table.mutations.replace(known(listed));
        let in_log = table.mechanisms.has(Mechanism::AlterInLog);
        if !in_log && columns::follow(&table, &zk, shared).await.is_err() {
            return;
        }
        table.world.wait(&changed).await;
    }
}

// --- the queue ----------------------------------------------------------------------------------

/// Queues the fetch of a part that ZooKeeper lists and that is not here.
pub async fn fetch_again(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
) -> Result<(), KeeperError> {
    let entry = Rc::new(Entry::get(part.clone()));
    let operations = vec![
        queued(table, Data::Payload(entry.clone())),
        Operation::remove(child(&table.own.parts, &part.name())),
    ];
    let made = zk.multi(operations).await?;
    table.queue.add(last_word(made[0].path()), entry);
    table.queue.wake();
    Ok(())
}

/// Removes the entry of a part that will never exist.
pub async fn give_up(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
) -> Result<(), KeeperError> {
    if let Some(name) = table.queue.give_up(part) {
        zk.remove(child(&table.own.queue, &name)).await?;
    }
    Ok(())
}

/// Returns the last component of a node's path.
pub fn last_word(path: &str) -> Rc<str> {
    let (_, name) = path.rsplit_once('/').expect("a path");
    name.into()
}

/// Returns the creation of an entry in the replica's queue.
pub fn queued(table: &Table, entry: Data) -> Operation {
    Operation::numbered(table.own.queue_entry.clone(), entry)
}
