//! Executes ALTER TABLE … UPDATE and DELETE: parts below the mutation's number are eventually
//! rewritten.
//!
//! Source: StorageReplicatedMergeTree::mutate and ReplicatedMergeTreeQueue of 18.16.1. One
//! departure: each partition has its own mutation, with the one block number that it takes.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError, BAD_VERSION};
use crate::keeper::paths::number_of;
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::{child, Operation};
use crate::table::entries::{Data, Mutation};
use crate::table::parts::{Info, Part, Rows};
use crate::table::replica::{Mutations, Table};
use crate::table::schema::Schema;

/// Creates the mutation for every existing partition.
pub async fn order(table: &Rc<Table>, change: &str) -> Result<(), QueryError> {
    let zk = table.writable()?;
    let change: Rc<str> = change.into();
    let partitions = zk.children(table.paths.block_numbers.clone()).await?;
    let only = Schema::named_partition(&change);
    let wanted = |name: &&Rc<str>| only.as_ref().is_none_or(|only| only == *name);
    for partition in partitions.iter().filter(wanted) {
        while !ordered(table, &zk, partition, &change).await? {}
    }
    Ok(())
}

/// Creates a mutation; returns false if another one was created meanwhile. Mutations must be
/// created in the order of their numbers, so this one needs a later number.
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
            Ok(false)
        }
        done => done.map(|_| true),
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
