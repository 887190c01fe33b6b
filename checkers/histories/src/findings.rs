//! What became of every value of one key: missed, lost, unaccounted, duplicated, phantom.
//!
//! An acknowledgement and the invocation of a read at the very same nanosecond are concurrent, and
//! so are the end of a read and the invocation of an insert: times are closed intervals.

use rustc_hash::FxHashSet;

use crate::history::{History, NO_ROW};
use crate::lines::Kind;
use crate::masks::Mask;
use crate::sets::{Insert, Read, Set};
use crate::words::Word;

/// Inserts by their bit, reads by their place in the set.
#[derive(Default)]
#[cfg_attr(
    feature = "python",
    pyo3::pyclass(frozen, get_all, module = "pyhistories")
)]
pub struct Findings {
    /// Reads that lack at least one value acknowledged before they were invoked.
    pub stale_reads: usize,
    /// Acknowledged values with the first and the last read, invoked after the acknowledgement, that
    /// lack them; in order of the first read; lost values included.
    pub missed: Vec<(u32, usize, usize)>,
    /// Acknowledged, and in no final read though every replica answered one; with those reads.
    pub lost: Vec<(u32, Vec<usize>)>,
    /// Acknowledged, in no final read, but some replica answered none after the acknowledgement.
    pub unaccounted: Vec<u32>,
    /// Acknowledged, in no read at all, and not lost.
    pub never_read: usize,
    /// Values that one read returned several times: their bit, the first such read, how often.
    pub duplicates: Vec<(u32, usize, usize)>,
    /// Values in a read that ended before their insert began, or that nobody inserted: their bit,
    /// the first such read.
    pub phantoms: Vec<(u32, usize)>,
    /// Inserts of unknown outcome that some read shows.
    pub appeared: usize,
}

/// All of it. `replicas`: of whom a final read is due.
pub fn examined(history: &History, set: &Set, replicas: &[Word]) -> Findings {
    let mut findings = Findings::default();
    let mut ever = Mask::default();
    for mask in distinct(set) {
        ever.add(mask);
    }
    let unknown = set.inserts.iter().filter(|one| one.kind == Kind::Info);
    findings.appeared = unknown.filter(|one| ever.has(one.at)).count();
    find_missed(history, set, &mut findings);
    find_lost(history, set, replicas, &ever, &mut findings);
    find_duplicates(history, set, &mut findings);
    find_phantoms(history, set, &mut findings);
    findings
}

/// The masks of the reads, without repetition in a row.
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
        .map(|one| (history.time_ns[one.ack as usize], one.at))
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
            missing.push((place, due.less(mask)));
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

/// Each bit of the masks with the first read whose mask has it.
fn first_holders<'a>(reads: impl Iterator<Item = (usize, &'a Mask)>) -> Vec<(u32, usize)> {
    let mut before = Mask::default();
    let mut found = Vec::new();
    for (place, mask) in reads {
        if mask.exceeds(&before) {
            found.extend(mask.less(&before).positions().map(|at| (at, place)));
            before.add(mask);
        }
    }
    found
}

fn find_lost(
    history: &History,
    set: &Set,
    replicas: &[Word],
    ever: &Mask,
    findings: &mut Findings,
) {
    let mut at_last = Mask::default();
    for read in set.finals() {
        at_last.add(set.mask(read));
    }
    let missing = |one: &&Insert| one.ack != NO_ROW && !at_last.has(one.at);
    for insert in set.inserts.iter().filter(missing) {
        let ack_ns = history.time_ns[insert.ack as usize];
        let is_after = |read: &Read| history.time_ns[read.invoke as usize] > ack_ns;
        let after: Vec<usize> = (0..set.reads.len())
            .filter(|&place| set.reads[place].last && is_after(&set.reads[place]))
            .collect();
        let node = |&place: &usize| history.node[set.reads[place].invoke as usize];
        let answered: FxHashSet<Word> = after.iter().map(node).collect();
        if !after.is_empty() && replicas.iter().all(|replica| answered.contains(replica)) {
            findings.lost.push((insert.at, after));
            continue;
        }
        findings.unaccounted.push(insert.at);
        findings.never_read += usize::from(!ever.has(insert.at));
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
    // The first read to end that has a value is the only one that can have it too early.
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
