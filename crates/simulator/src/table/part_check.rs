//! Simulates the part check thread: it looks on every replica, active or not, for parts that could
//! not be fetched.
//!
//! It also reads local parts that a query, a merge or another replica could not read.
//!
//! Source: ReplicatedMergeTreePartCheckThread::checkPart and searchForMissingPart of 18.16.1; and of
//! 25.8, for every version, that no part is checked which a drop removes: otherwise a fetch of the
//! part would be queued when the drop has emptied the queue of its range (pausePartsCheck and
//! cancelRemovedPartsCheck).

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::QueryError;
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::child;
use crate::protocol::Mechanism;
use crate::table::log;
use crate::table::lost_part::{self, Fate};
use crate::table::part_files;
use crate::table::parts::{Info, Part};
use crate::table::quorum::leave;
use crate::table::replica::Table;
use crate::world::{Ns, SECOND};

/// PART_CHECK_ERROR_SLEEP_MS.
const ERROR_SLEEP_NS: Ns = 5 * SECOND;

/// Checks parts forever.
pub async fn search(table: Rc<Table>) {
    while !table.dropped.get() {
        let part = table.missing.first().await;
        if check_first(&table, &part).await.is_err() {
            table.world.sleep(ERROR_SLEEP_NS).await;
        }
    }
}

/// Checks the first of the parts, unless a drop has cancelled that meanwhile.
async fn check_first(table: &Rc<Table>, part: &Info) -> Result<(), QueryError> {
    let _guard = table.checks.hold().await;
    if table.missing.has(part) {
        check(table, part).await?;
        table.missing.remove(part);
    }
    Ok(())
}

async fn check(table: &Rc<Table>, part: &Info) -> Result<(), QueryError> {
    if table.queue.drops(part) && !table.bugs.has(Bug::DropUnpaused) {
        return Ok(());
    }
    let name = part.name();
    let here = table.part(&name);
    if let (Some(here), true) = (&here, table.server.host().lacks_files()) {
        return without_files(table, here).await;
    }
    let shown = table.active.borrow().get(part).cloned();
    if let Some(shown) = shown.filter(|_| !table.disk.device.quiet()) {
        return match part_files::is_sound(table, &shown).await {
            true => Ok(()),
            false => detach_broken(table, &shown).await,
        };
    }
    if here.is_some() || table.active.borrow().containing(part).is_some() {
        return Ok(());
    }
    let zk = table.writable()?;
    search_replicas(table, &zk, part).await
}

/// Checks a part without a descriptor for its files. 18.16.1 takes any exception for a broken part,
/// removes it and queues a fetch (checkPart); the repaired protocol keeps the part.
async fn without_files(table: &Rc<Table>, part: &Rc<Part>) -> Result<(), QueryError> {
    let shown = table.active.borrow().get(&part.info).is_some();
    if !shown || !table.bugs.has(Bug::ShortageAsBroken) {
        return Ok(());
    }
    let zk = table.writable()?;
    if zk.exists(child(&table.own.parts, &part.name)).await? {
        log::fetch_again(table, &zk, &part.info).await?;
        table.forget(part);
    }
    Ok(())
}

/// Detaches a part that cannot be read, removes it from ZooKeeper and queues a fetch.
async fn detach_broken(table: &Rc<Table>, part: &Rc<Part>) -> Result<(), QueryError> {
    let zk = table.writable()?;
    if !table.bugs.has(Bug::AcknowledgedFailure) {
        leave(table, &zk, &part.info, &part.name).await?;
    }
    log::fetch_again(table, &zk, &part.info).await?;
    let same = |here: &Rc<Part>| Rc::ptr_eq(here, part);
    if table.part(&part.name).as_ref().is_some_and(same) {
        table.forget(part);
    }
    Ok(())
}

/// Fetches a part again if ZooKeeper lists it for this replica. If no replica has the part, nor
/// parts at both of its ends from which a merge could make it, it is lost forever.
async fn search_replicas(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
) -> Result<(), QueryError> {
    if zk.exists(child(&table.own.parts, &part.name())).await? {
        return Ok(log::fetch_again(table, zk, part).await?);
    }
    let hopes = table.bugs.has(Bug::LostPartUnreplaced);
    let (mut first, mut last) = (false, false);
    for replica in zk.children(table.paths.replicas.clone()).await?.iter() {
        let parts = zk.children(table.paths.of(replica).parts.clone()).await?;
        for other in parts.iter().map(|name| Info::named(name)) {
            if other.contains(part) {
                return Ok(());
            }
            if part.contains(&other) {
                first = first || other.min == part.min;
                last = last || other.max == part.max;
            }
        }
        if hopes && first && last {
            return Ok(());
        }
    }
    if hopes || lost_part::replace(table, zk, part).await? == Fate::Gone {
        lose(table, zk, part).await?;
    }
    Ok(())
}

/// Puts an empty part in place of one that is lost forever; if there is no need, or the server does
/// not do so, removes the entry that waits for it, unless another replica may still copy the part. Of the part of a merge or a mutation that is still
/// queued, the source parts are checked instead: some of them may be left.
async fn lose(table: &Rc<Table>, zk: &Rc<KeeperSession>, part: &Info) -> Result<(), QueryError> {
    if table.mechanisms.has(Mechanism::EmptyParts) {
        let sources = table.queue.sources_of(part);
        if !sources.is_empty() && table.bugs.has(Bug::LostPartUnreplaced) {
            sources.iter().for_each(|source| table.missing.add(source));
            return Ok(());
        }
        if lost_part::put_empty(table, zk, part).await? {
            return Ok(());
        }
    }
    let hopes = table.bugs.has(Bug::LostPartUnreplaced);
    let copies = table.mechanisms.has(Mechanism::CopiedPartitions) && !hopes;
    if copies && lost_part::may_be_copied(table, zk, part).await? {
        return Ok(());
    }
    log::give_up(table, zk, part).await?;
    if !hopes {
        lost_part::uncover(table, part);
    }
    Ok(())
}
