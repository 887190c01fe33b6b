//! Removes rows that have expired, in merges: the time that counts is that of the entry of the log, so
//! that every replica removes the same ones.
//!
//! Source: ReplicatedMergeTreeMergePredicate, TTLDeleteMergeSelector and MergeFromLogEntryTask (which
//! takes `create_time` of the entry for the time of the merge) of 25.8. Departures: a merge because of
//! a TTL is of one part, where the server also takes neighbours that have expired, and it comes before
//! other merges of its partition once in `merge_with_ttl_timeout`.

use crate::bugs::Bug;
use crate::table::entries::Entry;
use crate::table::parts::{Info, Part, Row};
use crate::table::replica::Table;
use crate::table::ttl::Ttl;
use crate::world::SECOND;

/// How much too early `ttl-early` removes rows: a time zone is mistaken for another.
const EARLY_S: i64 = 3_600;

/// Returns what the server's wall clock shows, in seconds.
pub fn now_s(table: &Table) -> i64 {
    table.wall_ns().div_euclid(SECOND)
}

/// Returns the TTL of the rows, if there is one.
fn ttl_of(table: &Table) -> Option<&Ttl> {
    let ttl = table.schema.ttl.as_ref();
    ttl.filter(|_| !table.bugs.has(Bug::TtlKeeps))
}

/// Whether a merge takes a row for one that had expired at a time.
fn has_expired(table: &Table, ttl: &Ttl, row: &Row, at_s: i64) -> bool {
    let early_s = EARLY_S * i64::from(table.bugs.has(Bug::TtlEarly));
    ttl.has_expired(row, at_s + early_s)
}

/// Returns a part with a row that has expired by this server's clock, if merges because of the TTL of
/// its partition are due.
pub fn expired_part<'a>(table: &Table, mut parts: impl Iterator<Item = &'a Part>) -> Option<Info> {
    let ttl = ttl_of(table)?;
    let now_s = now_s(table);
    let next = table.next_expiry_s.borrow();
    let part = parts.find(|part| {
        let due = next
            .get(&part.info.partition)
            .is_none_or(|next| *next <= now_s);
        due && part
            .rows
            .iter()
            .any(|row| has_expired(table, ttl, row, now_s))
    });
    part.map(|part| part.info.clone())
}

/// Notes that a merge because of a TTL was chosen in a partition.
pub fn chosen(table: &Table, info: &Info) {
    let next_s = now_s(table) + table.settings.merge_with_ttl_timeout;
    let mut next = table.next_expiry_s.borrow_mut();
    next.insert(info.partition.clone(), next_s);
}

/// Returns the rows of a merge without those that had expired when its entry was made.
pub fn unexpired(table: &Table, entry: &Entry, mut rows: Vec<Row>) -> Vec<Row> {
    let Some(ttl) = ttl_of(table) else {
        return rows;
    };
    let before = rows.len();
    rows.retain(|row| !has_expired(table, ttl, row, entry.made_s));
    if table.bugs.has(Bug::TtlWholePart) && rows.len() < before {
        rows.clear();
    }
    rows
}
