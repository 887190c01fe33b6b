//! Classifies every value of one key: missed, lost, unaccounted, duplicated, phantom.
//!
//! Times are closed intervals. An acknowledgement and the invocation of a read in the same
//! nanosecond are therefore concurrent, and so are the end of a read and the invocation of an
//! insert.

use rustc_hash::FxHashSet;

use crate::history::{History, NO_ROW};
use crate::lines::Kind;
use crate::masks::Mask;
use crate::sets::{Insert, Read, Set};
use crate::words::Word;

/// What was found about the values of one key.
#[derive(Default)]
#[cfg_attr(
    feature = "python",
    pyo3::pyclass(frozen, get_all, module = "harness.native.histories")
)]
pub struct Findings {
    /// Number of reads that lack a value acknowledged before they were invoked.
    pub stale_reads: usize,
    /// Acknowledged inserts that a later read lacks, lost ones included, with the first and the
    /// last such read; in order of the first one.
    pub missed: Vec<(u32, usize, usize)>,
    /// Acknowledged inserts that no final read has although every replica answered one after
    /// the acknowledgement, with those final reads.
    pub lost: Vec<(u32, Vec<usize>)>,
    /// Acknowledged inserts that no final read has, while some replica answered none after the
    /// acknowledgement.
    pub unaccounted: Vec<u32>,
    /// Number of unaccounted inserts that no read has at all.
    pub never_read: usize,
    /// Bits whose value one read returned several times, the first such read, and how often it
    /// returned the value.
    pub duplicates: Vec<(u32, usize, usize)>,
    /// Bits whose value a read returned although no insert can have caused it by the end of the
    /// first such read: nobody tried, every attempt was refused, or none had begun; with that
    /// read.
    pub phantoms: Vec<(u32, usize)>,
    /// Number of inserts of unknown outcome that some read shows.
    pub appeared: usize,
}

/// Examines every value of a key. `replicas` are the nodes from which a final read is expected.
pub fn examine(history: &History, set: &Set, replicas: &[Word]) -> Findings {
    let mut findings = Findings::default();
    let mut ever_read = Mask::default();
    for mask in distinct(set) {
        ever_read.insert_all(mask);
    }
    let unknown = set.inserts.iter().filter(|one| one.kind == Kind::Info);
    findings.appeared = unknown.filter(|one| ever_read.has(one.bit)).count();
    find_missed(history, set, &mut findings);
    find_lost(history, set, replicas, &ever_read, &mut findings);
    find_duplicates(history, set, &mut findings);
    find_phantoms(history, set, &mut findings);
    findings
}

/// Returns the masks of the reads, each once where successive reads share it.
fn distinct(set: &Set) -> impl Iterator<Item = &Mask> {
    let mut last = NO_ROW;
    set.reads.iter().filter_map(move |read| {
        let fresh = read.mask != last;
        last = read.mask;
        fresh.then(|| set.mask(read))
    })
}

fn find_missed(history: &History, set: &Set, findings: &mut Findings) {
    let acknowledged = set.inserts.iter().filter(|one| one.ack != NO_ROW);
    let mut acks: Vec<(i64, u32)> = acknowledged
        .map(|one| (history.time_ns[one.ack as usize], one.bit))
        .collect();
    acks.sort_unstable();
    let mut due = Mask::default();
    let mut at = 0;
    let mut missing: Vec<(usize, Mask)> = Vec::new();
    for (place, read) in set.reads.iter().enumerate() {
        let begin_ns = history.time_ns[read.invoke as usize];
        while at < acks.len() && acks[at].0 < begin_ns {
            due.set(acks[at].1);
            at += 1;
        }
        let mask = set.mask(read);
        if due.exceeds(mask) {
            missing.push((place, due.difference(mask)));
        }
    }
    findings.stale_reads = missing.len();
    let masks = || missing.iter().map(|(place, mask)| (*place, mask));
    let mut last = vec![0; set.inserts.len()];
    for (at, place) in first_holders(masks().rev()) {
        last[at as usize] = place;
    }
    let first = first_holders(masks());
    findings.missed = first
        .into_iter()
        .map(|(at, place)| (at, place, last[at as usize]))
        .collect();
}

/// Returns each bit of the masks with the first read whose mask has it.
fn first_holders<'a>(reads: impl Iterator<Item = (usize, &'a Mask)>) -> Vec<(u32, usize)> {
    let mut before = Mask::default();
    let mut found = Vec::new();
    for (place, mask) in reads {
        if mask.exceeds(&before) {
            found.extend(mask.difference(&before).positions().map(|at| (at, place)));
            before.insert_all(mask);
        }
    }
    found
}

fn find_lost(
    history: &History,
    set: &Set,
    replicas: &[Word],
    ever_read: &Mask,
    findings: &mut Findings,
) {
    let mut at_last = Mask::default();
    for read in set.finals() {
        at_last.insert_all(set.mask(read));
    }
    let missing = |one: &&Insert| one.ack != NO_ROW && !at_last.has(one.bit);
    for insert in set.inserts.iter().filter(missing) {
        let ack_ns = history.time_ns[insert.ack as usize];
        let is_after = |read: &Read| history.time_ns[read.invoke as usize] > ack_ns;
        let after: Vec<usize> = (0..set.reads.len())
            .filter(|&place| set.reads[place].is_final && is_after(&set.reads[place]))
            .collect();
        let node = |&place: &usize| history.node[set.reads[place].invoke as usize];
        let answered: FxHashSet<Word> = after.iter().map(node).collect();
        if !after.is_empty() && replicas.iter().all(|replica| answered.contains(replica)) {
            findings.lost.push((insert.bit, after));
            continue;
        }
        findings.unaccounted.push(insert.bit);
        findings.never_read += usize::from(!ever_read.has(insert.bit));
    }
}

fn find_duplicates(history: &History, set: &Set, findings: &mut Findings) {
    let mut known: FxHashSet<i64> = FxHashSet::default();
    for (place, read) in set.reads.iter().enumerate() {
        if !read.duplicated {
            continue;
        }
        let values = history.ints(read.end).unwrap_or_default();
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        for &value in values {
            let from = sorted.partition_point(|&other| other < value);
            let times = sorted[from..].partition_point(|&other| other == value);
            if times > 1 && known.insert(value) {
                let at = set.values.iter().position(|&other| other == value);
                let at = at.expect("a value that was read has a bit");
                findings.duplicates.push((at as u32, place, times));
            }
        }
    }
}

fn find_phantoms(history: &History, set: &Set, findings: &mut Findings) {
    // If any read returned a value too early, the one that ended first did.
    let mut places: Vec<usize> = (0..set.reads.len()).collect();
    places.sort_unstable_by_key(|&place| set.reads[place].end);
    let masks = places
        .into_iter()
        .map(|place| (place, set.mask(&set.reads[place])));
    for (at, place) in first_holders(masks) {
        let end_ns = history.time_ns[set.reads[place].end as usize];
        let early = set.insert(at).is_none_or(|insert| {
            insert.kind == Kind::Fail || history.time_ns[insert.invoke as usize] > end_ns
        });
        if early {
            findings.phantoms.push((at, place));
        }
    }
}
