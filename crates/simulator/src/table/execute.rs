//! Executes a replica's queue.
//!
//! Source: StorageReplicatedMergeTree::queueTask and executeLogEntry of 18.16.1.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::QueryError;
use crate::keeper::tree::child;
use crate::table::columns;
use crate::table::copied_range;
use crate::table::detached::attach_own;
use crate::table::drop_range;
use crate::table::entries::{Entry, EntryKind};
use crate::table::fetch::fetch;
use crate::table::merge::{merge, mutate};
use crate::table::parts::Info;
use crate::table::queue::Attempt;
use crate::table::quorum::join;
use crate::table::replica::Table;
use crate::world::{Ns, SECOND};

/// Time for which 18.16.1's pool sleeps after a failed attempt, unless there is new work, plus up
/// to a second.
const ERROR_SLEEP_NS: Ns = 10 * SECOND;

/// One thread of the pool, which never ends.
pub async fn work(table: Rc<Table>) {
    loop {
        let may = |entry: &Entry, made: &[&Info]| is_executable(&table, entry, made);
        match table.queue.begin(may) {
            None => table.queue.sleep(None).await,
            Some(attempt) => {
                if !process(&table, attempt).await {
                    let ns = ERROR_SLEEP_NS + table.world.below(SECOND as u64) as Ns;
                    table.queue.sleep(Some(ns)).await;
                }
            }
        }
    }
}

/// Whether an entry may be executed: nothing that covers its part is being made, nor anything that
/// it needs.
fn is_executable(table: &Table, entry: &Entry, made: &[&Info]) -> bool {
    if table.readonly.get() {
        return false;
    }
    if entry.kind == EntryKind::Get && table.fetches_stopped.get() && entry.source != table.me {
        return false;
    }
    !waits(entry, made)
}

/// Whether an entry waits for what is being executed: `made` are the parts that other entries make,
/// and the ranges that they remove.
///
/// A REPLACE_RANGE also waits while a range around its own is removed, as on 25.8, where each of two
/// such entries could wait for the other (shouldExecuteLogEntry). One that copies an empty partition
/// makes no part, so that nothing else holds it back.
fn waits(entry: &Entry, made: &[&Info]) -> bool {
    let nested = |new: &Info, range: &Info| {
        range.contains(new) || (entry.copies.is_some() && new.contains(range))
    };
    let meets = |range: &Info| made.iter().any(|new| nested(new, range));
    if entry.range().is_some_and(meets) {
        return true;
    }
    let covers = |new: &Info| entry.made().any(|own| new.contains(own));
    let needed = |new: &Info| covers(new) || entry.parts.contains(new);
    !entry.kind.removes_range() && made.iter().any(|new| needed(new))
}

async fn process(table: &Rc<Table>, attempt: Attempt) -> bool {
    let (done, failure) = match execute(table, &attempt.entry).await {
        Ok(done) => (done, String::new()),
        Err(error) => (false, error.to_string()),
    };
    table.queue.end(&attempt, failure);
    if done {
        executed(table, &attempt.name).await;
    }
    done
}

async fn executed(table: &Rc<Table>, name: &str) {
    let zk = table.zk.borrow().clone();
    table.queue.remove(name);
    if let Some(zk) = zk {
        // If this fails, the entry is executed again after the restart and found done.
        let _ = zk.remove(child(&table.own.queue, name)).await;
    }
}

/// Executes an entry; it must be retried after false or an error.
async fn execute(table: &Rc<Table>, entry: &Entry) -> Result<bool, QueryError> {
    let zk = table.connected()?;
    if entry.kind.removes_range() {
        drop_range::execute(table, &zk, entry).await?;
        return Ok(true);
    }
    if let Some(copies) = &entry.copies {
        copied_range::execute(table, &zk, entry, copies).await?;
        return Ok(true);
    }
    if let Some(after) = &entry.columns {
        columns::execute(table, &zk, after).await?;
        return Ok(true);
    }
    let existing = {
        let active = table.active.borrow();
        let covering = active.covering(&entry.new);
        let covering = covering.map(|(_, part)| part.name.clone());
        // An insert that does not know yet whether it was committed has the part, hidden (PreActive).
        // A fetch would find no other active replica with it, and mark it as failed.
        covering.or_else(|| table.part(&entry.name).map(|part| part.name.clone()))
    };
    if let Some(existing) = existing {
        if zk.exists(child(&table.own.parts, &existing)).await? {
            if table.bugs.has(Bug::QuorumUncounted) && entry.quorum > 0 {
                join(table, &zk, &entry.new, &entry.name).await?;
            }
            return Ok(true);
        }
    }
    if entry.quorum > 0 {
        let failed = child(&table.paths.failed_parts, &entry.name);
        if zk.exists(failed).await? {
            return Ok(true);
        }
    }
    let made = match entry.kind {
        EntryKind::Drop | EntryKind::Detach | EntryKind::Alter | EntryKind::Replace => {
            unreachable!("these entries make no part of their own name")
        }
        EntryKind::Get => false,
        EntryKind::Attach => attach_own(table, &zk, entry).await?,
        EntryKind::Merge => merge(table, &zk, entry).await?,
        EntryKind::Mutate => mutate(table, &zk, entry).await?,
    };
    if made {
        return Ok(true);
    }
    fetch(table, &zk, entry).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::entries::Copies;
    use crate::table::replace_range::range_until;

    #[test]
    fn a_replace_by_nothing_waits_while_a_range_around_its_own_is_removed() {
        let until = |max| range_until(&"1".into(), max);
        let replace = Entry {
            copies: Some(Rc::new(Copies {
                from: "u".into(),
                range: Some(until(3)),
                parts: Vec::new(),
            })),
            ..Entry::get(until(3))
        };
        assert!(waits(&replace, &[&until(9)]));
        assert!(waits(&replace, &[&Info::named("1_2_2_0")]));
        assert!(!waits(&replace, &[&Info::named("1_4_4_0")]));
        assert!(!waits(&replace, &[&range_until(&"2".into(), 9)]));
    }
}
