//! Executes ALTER TABLE … UPDATE and DELETE: parts below the mutation's number are eventually
//! rewritten.
//!
//! Source: StorageReplicatedMergeTree::mutate and ReplicatedMergeTreeQueue of 18.16.1. One
//! departure: each partition has its own mutation, with the one block number that it takes. Whoever
//! waits for another replica looks at its parts and entries, and not at its mutation_pointer.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError, BAD_VERSION};
use crate::keeper::paths::number_of;
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation};
use crate::table::block_numbers::OTHER;
use crate::table::entries::{Data, Mutation, TableData};
use crate::table::listed::cover_of;
use crate::table::parts::{Info, Part, Rows};
use crate::table::replica::{Mutations, Table};
use crate::table::schema::Schema;
use crate::world::{Ns, MS};

/// Time between two looks whether a replica has finished a mutation.
const LOOK_NS: Ns = 50 * MS;

/// Creates the mutation for every existing partition, and waits until as many replicas have
/// finished it as `mutations_sync` says: none, this one, or all.
pub async fn order(table: &Rc<Table>, change: &str, sync: i64) -> Result<(), QueryError> {
    let zk = table.writable()?;
    let change: Rc<str> = change.into();
    let partitions = zk.children(table.paths.block_numbers.clone()).await?;
    let only = Schema::named_partition(&change);
    let wanted = |name: &&Rc<str>| only.as_ref().is_none_or(|only| only == *name);
    let mut numbers = Vec::new();
    for partition in partitions.iter().filter(wanted) {
        let number = loop {
            if let Some(number) = ordered(table, &zk, partition, &change).await? {
                break number;
            }
        };
        numbers.push((partition.clone(), number));
    }
    let replicas = match sync {
        0 => Vec::new(),
        1 => vec![table.me.clone()],
        _ => zk.children(table.paths.replicas.clone()).await?.to_vec(),
    };
    for replica in replicas {
        while is_behind(table, &replica, &numbers).await? {
            table.world.sleep(LOOK_NS).await;
        }
    }
    Ok(())
}

/// Whether a replica has a part, or has yet to make one, that lacks one of these mutations. A
/// replica that was dropped has none.
async fn is_behind(
    table: &Table,
    replica: &Rc<str>,
    numbers: &[(Rc<str>, i64)],
) -> Result<bool, KeeperError> {
    let own = table.paths.of(replica);
    let readings = [
        Reading::children(own.parts.clone()),
        Reading::values(own.queue.clone()),
        Reading::ahead(table.paths.log.clone(), own.log_pointer.clone()),
    ];
    let [parts, queue, log] = table.session()?.read_all(readings, None).await?;
    let names = parts.children().unwrap_or_default();
    let mut entries = queue.values();
    entries.extend(log.values());
    let made: Vec<&Info> = entries
        .iter()
        .flat_map(|(_, entry)| entry.as_entry().made())
        .collect();
    let cover = cover_of(names.iter().map(|name| (Info::named(name), ())));
    let lacks = |info: &Info| {
        let mut own = numbers.iter().filter(|(name, _)| *name == info.partition);
        own.any(|(_, number)| info.version() < *number)
    };
    let yet = |info: &Info| lacks(info) && cover.containing(info).is_none();
    let here = cover.pairs().any(|(info, ())| lacks(info));
    Ok(here || made.into_iter().any(yet))
}

/// Creates a mutation and returns its number; `None` if another one was created meanwhile.
/// Mutations must be created in the order of their numbers, so this one needs a later number.
async fn ordered(
    table: &Table,
    zk: &KeeperSession,
    partition: &Rc<str>,
    change: &Rc<str>,
) -> Result<Option<i64>, KeeperError> {
    let mutations = &table.paths.mutations;
    let found = zk.get(mutations.clone()).await?;
    let (data, version) = found.expect("a table has mutations");
    let taken = Operation::Create {
        path: child(&child(&table.paths.block_numbers, partition), "block-"),
        data: Data::text(OTHER),
        ephemeral: true,
        sequential: true,
    };
    let lock = zk.create(taken).await?;
    let mutation = Mutation {
        number: number_of(&lock),
        partition: partition.clone(),
        change: change.clone(),
        made_by: table.me.clone(),
    };
    let newest = numbers(&table.mutations.borrow(), &Info::block(partition, 0)).max();
    assert!(
        newest.is_none_or(|newest| newest < mutation.number) || table.bugs.any_planted(),
        "mutations are created in the order of their numbers"
    );
    let operations = vec![
        Operation::Put {
            path: mutations.clone(),
            data,
            version: Some(version),
        },
        Operation::numbered(child(mutations, ""), Data::payload(mutation)),
        Operation::remove(lock.clone()),
    ];
    match zk.multi(operations).await {
        Err(error) if error.code == BAD_VERSION => {
            zk.remove(lock).await?;
            Ok(None)
        }
        done => done.map(|_| Some(number_of(&lock))),
    }
}

/// Returns the number of the latest mutation that the part does not need any more. Only parts with
/// the same number may be merged: of two parts whose target is 25, one may lack 18 while the other
/// was inserted after it.
pub fn current_version(table: &Table, info: &Info) -> i64 {
    let mutations = table.mutations.borrow();
    let numbers = numbers(&mutations, info).filter(|number| *number <= info.version());
    numbers.max().unwrap_or(0)
}

/// Returns the number of the latest mutation that the part lacks.
pub fn desired_version(table: &Table, info: &Info) -> Option<i64> {
    let late = table.bugs.has(Bug::MutationLate);
    let mutations = table.mutations.borrow();
    let lacks = |number: &i64| (*number > info.version() || late) && *number > info.mutation;
    numbers(&mutations, info).filter(lacks).max()
}

/// Returns the numbers of a partition's mutations.
fn numbers<'a>(mutations: &'a Mutations, info: &'a Info) -> impl Iterator<Item = i64> + 'a {
    let mutations = mutations.iter().map(|(_, mutation)| mutation);
    let own = mutations.filter(|mutation| mutation.partition == info.partition);
    own.map(|mutation| mutation.number)
}

/// Returns the part's rows after every mutation up to `version` that it lacks.
pub fn changed(table: &Table, part: &Part, version: i64) -> Result<Rows, ServerError> {
    let info = &part.info;
    let late = table.bugs.has(Bug::MutationLate) && info.mutation == 0;
    let mut rows = part.rows.clone();
    for (_, mutation) in table.mutations.borrow().iter() {
        let lacks = mutation.number > info.version() || late;
        if mutation.partition == info.partition && mutation.number <= version && lacks {
            rows = table.schema.apply(&mutation.change, &rows)?;
        }
    }
    Ok(rows)
}

/// Whether these mutations leave some of the rows.
pub fn survive(
    table: &Table,
    rows: &Rows,
    mutations: impl Iterator<Item = Rc<Mutation>>,
) -> Result<bool, ServerError> {
    let mut rows = rows.clone();
    for mutation in mutations {
        rows = table.schema.apply(&mutation.change, &rows)?;
    }
    Ok(!rows.is_empty())
}
