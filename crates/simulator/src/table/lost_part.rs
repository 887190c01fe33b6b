//! Replaces a merged part that no replica has any more by what is left of its source parts, and a
//! part of which nothing is left by an empty one.
//!
//! A replica that had only the merged part knows nothing of its source parts, which another one may
//! still have: it had not merged them yet, or a power cut took the merged part and left them. 18.16.1
//! gives the part up, so that these rows stay on some replicas and never reach the others; or it waits
//! for good, because the first and the last of the source parts are there ("we hope that all parts in
//! between are present too", searchForMissingPart).
//!
//! An empty part lets go on what waits for the lost one: a merge, a mutation, a REPLACE_RANGE. 25.8
//! makes it (onPartIsLostForever, createEmptyPartInsteadOfLost).

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError};
use crate::keeper::session::{KeeperSession, Reading};
use crate::keeper::tree::{child, Operation};
use crate::table::active_parts::ActivePartSet;
use crate::table::entries::{Data, Entry, TableData};
use crate::table::listed::cover_of;
use crate::table::log;
use crate::table::part_files;
use crate::table::parts::{Info, Part, Rows};
use crate::table::replace_range::listed;
use crate::table::replica::Table;

/// What became of a part that no replica lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Some replica may still merge it, or it is not needed any more.
    Waits,
    /// Its entry was replaced.
    Replaced,
    /// Nothing is left of it.
    Gone,
}

/// Replaces the entry of a lost part by fetches of its source parts that other replicas list, and
/// shows those again that are on this disk, unless some replica may still make it.
///
/// The entry must be there until then: a drop may have removed it, and with it these parts.
pub async fn replace(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    lost: &Info,
) -> Result<Fate, KeeperError> {
    let Some(name) = table.queue.entry_of(lost).filter(|_| !lost.is_block()) else {
        return Ok(Fate::Gone);
    };
    // No source part is removed while it is decided which are left.
    let _guard = table.removals.hold().await;
    let here = old_sources(table, lost).await;
    let replicas = replicas(table, zk).await?;
    if replicas.iter().any(|one| one.makes(lost, &replicas)) {
        return Ok(Fate::Waits);
    }
    let sources = source_parts(lost, here, &replicas);
    let active = |info: &Info| table.active.borrow().containing(info).is_some();
    let sources: Vec<_> = sources.pairs().filter(|(info, _)| !active(info)).collect();
    if sources.is_empty() {
        return Ok(Fate::Gone);
    }
    let elsewhere = sources.iter().filter(|(_, part)| part.is_none());
    let elsewhere = elsewhere.filter(|(info, _)| !table.queue.makes(info, lost));
    let fetches = elsewhere.map(|(info, _)| Rc::new(Entry::get((*info).clone())));
    let fetches: Vec<Rc<Entry>> = fetches.collect();
    let data = fetches.iter().map(|entry| Data::Payload(entry.clone()));
    let mut operations: Vec<_> = data.map(|entry| log::queued(table, entry)).collect();
    operations.push(Operation::remove(child(&table.own.queue, &name)));
    let made = zk.multi(operations).await?;
    table.queue.give_up(lost);
    let here = sources.iter().filter_map(|(_, part)| part.as_ref());
    for part in here.filter_map(|part| table.part(&part.name)) {
        part.old_ns.set(0);
        table.activate(&part);
    }
    uncover(table, lost);
    for (entry, done) in fetches.into_iter().zip(made.iter()) {
        table.queue.add(log::last_word(done.path()), entry);
    }
    table.queue.wake();
    Ok(Fate::Replaced)
}

/// Lets the parts count again that a merge covered which was given up: those that are here, and those
/// that other entries make. Without that no later merge or mutation would take them.
pub fn uncover(table: &Table, lost: &Info) {
    let entries = table.queue.entries.borrow();
    let active = table.active.borrow();
    let queued = entries.values().flat_map(|one| one.entry.made());
    let left = active.infos(&lost.partition).chain(queued);
    let mut virtual_parts = table.queue.virtual_parts.borrow_mut();
    for info in left.filter(|info| lost.contains(info)) {
        virtual_parts.add(info, ());
    }
}

/// Whether another replica has yet to copy this part from another table, so that it is not lost: if
/// that replica cannot copy it either, it puts an empty one in its place.
pub async fn may_be_copied(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    lost: &Info,
) -> Result<bool, KeeperError> {
    let replicas = replicas(table, zk).await?;
    let mut others = replicas.iter().filter(|one| !one.is_own);
    Ok(others.any(|one| one.copies(lost)))
}

/// Puts an empty part in place of one of which nothing is left, and returns whether it did. It does
/// not if nothing waits for the part itself, if a drop removes it or has done so, or if there is, or
/// will be, another part of its blocks: one of a merged part's source parts may have been mutated
/// since another replica replaced the merge. Returns BAD_VERSION if the log has changed meanwhile.
pub async fn put_empty(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    lost: &Info,
) -> Result<bool, QueryError> {
    // The repaired protocol gives up whatever a replica can go on without, and decides in `replace`
    // what becomes of a merge, which counts on it that no source part appears anew.
    let spared = || !table.bugs.has(Bug::LostPartUnreplaced) && !table.queue.copies(lost);
    let unneeded = || !table.queue.needs(lost) || table.queue.has_dropped(lost) || spared();
    if unneeded() {
        return Ok(false);
    }
    let log = &table.paths.log;
    let (_, version) = zk.get(log.clone()).await?.expect("a table has a log");
    log::pull(table, zk, None).await?;
    if unneeded() || is_crossed(table, zk, lost).await? {
        return Ok(false);
    }
    let name: Rc<str> = lost.name().into();
    // Nor does a fetch or a copy make the part meanwhile.
    if table.part(&name).is_none()
        && table
            .fetching
            .borrow_mut()
            .insert(name.clone(), ())
            .is_none()
    {
        let done = announce_empty(table, zk, lost, version).await;
        table.fetching.borrow_mut().shift_remove(&name);
        done?;
    }
    Ok(true)
}

/// Whether some replica lists a part of these blocks, or this one will have such a part that does not
/// cover the lost one.
async fn is_crossed(table: &Table, zk: &KeeperSession, lost: &Info) -> Result<bool, KeeperError> {
    let meets = |info: &Info| {
        info.partition == lost.partition && info.max >= lost.min && info.min <= lost.max
    };
    let coming = |info: &Info| meets(info) && !info.contains(lost);
    if table
        .queue
        .virtual_parts
        .borrow()
        .infos(&lost.partition)
        .any(coming)
    {
        return Ok(true);
    }
    for replica in zk.children(table.paths.replicas.clone()).await?.iter() {
        let parts = zk.children(table.paths.of(replica).parts.clone()).await?;
        if parts.iter().any(|name| meets(&Info::named(name))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Announces an empty part that no replica lists, if the log is still of this version, and shows it
/// unless a drop has removed it meanwhile.
async fn announce_empty(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    lost: &Info,
    version: i64,
) -> Result<(), QueryError> {
    let part = Part::new(lost.clone(), Rows::default(), table.world.now_ns());
    part.written.set(part_files::write(table).await?);
    let log = table.paths.log.clone();
    let mut operations = vec![Operation::check(log, Some(version))];
    for replica in zk.children(table.paths.replicas.clone()).await?.iter() {
        if *replica != table.me {
            let path = child(&table.paths.of(replica).parts, &part.name);
            operations.push(Operation::absent(path));
        }
    }
    operations.push(listed(table, &part));
    table.store(part.clone());
    if let Err(error) = zk.multi(operations).await {
        table.forget(&part);
        return Err(error.into());
    }
    if table.queue.has_dropped(lost) {
        table.forget(&part);
        zk.remove(child(&table.own.parts, &part.name)).await?;
        return Ok(());
    }
    table.activate(&part);
    table.queue.wake();
    Ok(())
}

/// Returns the parts that the lost one had replaced here, and that can be read.
async fn old_sources(table: &Rc<Table>, lost: &Info) -> Vec<Rc<Part>> {
    let was_source = |part: &Part| lost.contains(&part.info) && part.old_ns.get() > 0;
    let old = table.disk.parts.borrow().some(was_source);
    let mut sound = Vec::new();
    for part in old {
        if part_files::is_sound(table, &part).await {
            sound.push(part);
        }
    }
    sound
}

/// Returns the source parts that are left, each with the part if it is on this disk.
fn source_parts(
    lost: &Info,
    here: Vec<Rc<Part>>,
    replicas: &[Replica],
) -> ActivePartSet<Option<Rc<Part>>> {
    let here = here.into_iter().map(|part| (part.info.clone(), Some(part)));
    let listed = replicas
        .iter()
        .filter(|one| !one.is_own)
        .flat_map(|one| &one.parts);
    let listed = listed.filter(|info| lost.contains(info));
    cover_of(here.chain(listed.map(|info| (info.clone(), None))))
}

/// What a replica has and what it is to do.
struct Replica {
    is_own: bool,
    parts: Vec<Info>,
    /// The entries of its queue, and those of the log that it has not copied yet.
    entries: Vec<Rc<Entry>>,
}

/// Returns all replicas at one moment, behind a write. A part that is listed later comes from one that
/// was listed then, because no insert uses a block number of a merged part.
async fn replicas(table: &Rc<Table>, zk: &Rc<KeeperSession>) -> Result<Vec<Replica>, KeeperError> {
    zk.barrier().await?;
    let names = zk.children(table.paths.replicas.clone()).await?;
    let paths = names.iter().map(|name| table.paths.of(name));
    let readings = paths.flat_map(|own| {
        [
            Reading::children(own.parts.clone()),
            Reading::values(own.queue.clone()),
            Reading::ahead(table.paths.log.clone(), own.log_pointer.clone()),
        ]
    });
    let mut found = zk.read(readings.collect(), None).await?.into_iter();
    let mut next = || found.next().expect("every reading has an answer");
    let replicas = names.iter().map(|name| {
        let parts = next().children().unwrap_or_default();
        let entries = [next().values(), next().values()].concat();
        Replica {
            is_own: *name == table.me,
            parts: parts.iter().map(|name| Info::named(name)).collect(),
            entries: entries
                .iter()
                .map(|(_, entry)| entry.shared_entry())
                .collect(),
        }
    });
    Ok(replicas.collect())
}

impl Replica {
    /// Returns whether the replica has yet to copy the part from another table.
    fn copies(&self, part: &Info) -> bool {
        let mut copying = self.entries.iter().filter(|entry| entry.copies.is_some());
        copying.any(|entry| entry.made().any(|made| made == part))
    }

    /// Returns whether the replica may still merge or mutate others to this part: each of them is
    /// here, or to be copied from another table, or to be fetched from a replica that has it or may
    /// make it.
    fn makes(&self, part: &Info, replicas: &[Replica]) -> bool {
        let comes = |source: &Info| {
            let has = |other: &Replica| other.parts.iter().any(|info| info.contains(source));
            self.parts.contains(source)
                || self.copies(source)
                || self.entries.iter().any(|entry| entry.new == *source)
                    && replicas
                        .iter()
                        .any(|one| has(one) || one.makes(source, replicas))
        };
        let mut entries = self.entries.iter().filter(|entry| entry.new == *part);
        entries.any(|entry| !entry.parts.is_empty() && entry.parts.iter().all(comes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::entries::EntryKind;

    fn info(name: &&str) -> Info {
        Info::named(name)
    }

    fn replica(parts: &[&str], entries: &[(&str, &[&str])]) -> Replica {
        let entry = |(new, parts): &(&str, &[&str])| {
            let kind = if parts.is_empty() {
                EntryKind::Get
            } else {
                EntryKind::Merge
            };
            Rc::new(Entry {
                kind,
                parts: parts.iter().map(info).collect(),
                ..Entry::get(info(new))
            })
        };
        Replica {
            is_own: false,
            parts: parts.iter().map(info).collect(),
            entries: entries.iter().map(entry).collect(),
        }
    }

    #[test]
    fn a_part_may_be_made_where_its_merge_is_queued_and_each_source_comes() {
        const MERGE: (&str, &[&str]) = ("0_1_3_1", &["0_1_1_0", "0_2_2_0", "0_3_3_0"]);
        const FETCH: (&str, &[&str]) = ("0_2_2_0", &[]);
        let ends = &["0_1_1_0", "0_3_3_0"];
        let cases = [
            (
                "the middle is nowhere",
                vec![replica(ends, &[MERGE])],
                false,
            ),
            (
                "nobody fetches the middle, which another has",
                vec![replica(ends, &[MERGE]), replica(&["0_2_2_0"], &[])],
                false,
            ),
            (
                "the middle is fetched from another",
                vec![replica(ends, &[MERGE, FETCH]), replica(&["0_2_2_0"], &[])],
                true,
            ),
            (
                "the middle is queued and nowhere",
                vec![replica(ends, &[MERGE, FETCH])],
                false,
            ),
            (
                "all parts are there and no merge is queued",
                vec![replica(&["0_1_1_0", "0_2_2_0", "0_3_3_0"], &[])],
                false,
            ),
        ];
        for (what, replicas, may) in cases {
            let part = Info::named("0_1_3_1");
            let makes = replicas.iter().any(|one| one.makes(&part, &replicas));
            assert_eq!(makes, may, "{what}");
        }
    }

    #[test]
    fn a_merge_of_a_merge_may_be_made() {
        let queue: [(&str, &[&str]); 2] = [
            ("0_1_2_1", &["0_1_1_0", "0_2_2_0"]),
            ("0_1_3_2", &["0_1_2_1", "0_3_3_0"]),
        ];
        let replicas = [replica(&["0_1_1_0", "0_2_2_0", "0_3_3_0"], &queue)];
        assert!(replicas[0].makes(&Info::named("0_1_3_2"), &replicas));
    }
}
