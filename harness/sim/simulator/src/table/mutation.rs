//! ALTER TABLE … UPDATE and DELETE: parts below the mutation's number are rewritten, in the end.
//!
//! Source: StorageReplicatedMergeTree::mutate and ReplicatedMergeTreeQueue of 18.16.1. One
//! departure: each partition has a mutation of its own, with the one block number that it takes.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, ServerError, Trouble, BAD_VERSION};
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::{child, Operation};
use crate::table::entries::{Data, Mutation};
use crate::table::parts::{Info, Part, Rows};
use crate::table::replica::{Mutations, Table};

/// Writes the mutation for every partition that there is.
pub async fn order(table: &Rc<Table>, change: &str) -> Result<(), Trouble> {
    let zk = table.writable()?;
    let change: Rc<str> = change.into();
    let partitions = zk.children(table.paths.block_numbers.clone()).await?;
    for partition in partitions.iter() {
        while !ordered(table, &zk, partition, &change).await? {}
    }
    Ok(())
}

/// False: another mutation was written since this one began. Mutations come in the order of their
/// numbers, so it needs a later one.
async fn ordered(
    table: &Table,
    zk: &KeeperSession,
    partition: &Rc<str>,
    change: &Rc<str>,
) -> Result<bool, KeeperError> {
    let mutations = &table.paths.mutations;
    let found = zk.get(mutations.clone()).await?;
    let (data, version) = found.expect("a table has mutations");
    let taken = Operation::Create {
        path: child(&child(&table.paths.block_numbers, partition), "block-"),
        data: Data::default(),
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
    let operations = vec![
        Operation::Put {
            path: mutations.clone(),
            data,
            version: Some(version),
        },
        Operation::numbered(child(mutations, ""), Data::Mutation(mutation.into())),
        Operation::remove(lock.clone()),
    ];
    match zk.multi(operations).await {
        Err(error) if error.code == BAD_VERSION => {
            zk.remove(lock).await?;
            Ok(false)
        }
        done => done.map(|_| true),
    }
}

/// Of a sequential node: the ten digits at its end.
pub fn number_of(path: &str) -> i64 {
    let number = path[path.len() - 10..].parse();
    number.expect("a sequential node ends with its number")
}

/// The number of the latest mutation that the part needs no more. Only parts that agree may be
/// merged: of two that will both be brought to 25, one may lack 18 and one have come after it.
pub fn current_version(table: &Table, info: &Info) -> i64 {
    let mutations = table.mutations.borrow();
    let numbers = numbers(&mutations, info).filter(|number| *number <= info.version());
    numbers.max().unwrap_or(0)
}

/// The number of the latest mutation that the part lacks.
pub fn desired_version(table: &Table, info: &Info) -> Option<i64> {
    let late = table.bugs.has(Bug::MutationLate);
    let mutations = table.mutations.borrow();
    let lacks = |number: &i64| (*number > info.version() || late) && *number > info.mutation;
    numbers(&mutations, info).filter(lacks).max()
}

/// Of its partition's mutations.
fn numbers<'a>(mutations: &'a Mutations, info: &'a Info) -> impl Iterator<Item = i64> + 'a {
    let mutations = mutations.iter().map(|(_, mutation)| mutation);
    let own = mutations.filter(|mutation| mutation.partition == info.partition);
    own.map(|mutation| mutation.number)
}

/// The part's rows after every mutation up to `version` that it lacks.
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
