//! Checks the four session guarantees on one key: what each read had to show, and which did not.
//!
//! Each write carries what its process knew of the key before it: the process's own acknowledged
//! values and the union of its reads.

use rustc_hash::FxHashMap;

use crate::history::{History, NO_ROW};
use crate::lines::Kind;
use crate::masks::Mask;
use crate::sets::{Insert, Set};
use crate::words::Word;

/// A read that lacks a value that a guarantee demands.
pub struct Violation {
    /// The index of the read in the set.
    pub read: usize,
    /// The bit of the first missing value.
    pub missing: u32,
    /// The bit of the first write that demands the value; `NO_ROW` if the demand comes from the
    /// read's own process.
    pub write: u32,
}

/// The result of one guarantee.
#[derive(Default)]
pub struct GuaranteeResult {
    /// Number of reads of which something is demanded.
    pub reads: usize,
    /// Number of those reads that lack a demanded value.
    pub broken: usize,
    /// The violations whose reads ended first.
    pub violations: Vec<Violation>,
}

#[derive(Default)]
struct Known {
    written: Mask,
    seen: Mask,
}

/// A write and what its process knew before it.
struct Write {
    bit: u32,
    known: Known,
}

/// Checks monotonic reads, read your writes, monotonic writes and writes follow reads, in this
/// order, and returns at most `max_violations` violations of each. Each value must have been
/// tried only once.
pub fn bounds(history: &History, set: &Set, max_violations: usize) -> [GuaranteeResult; 4] {
    let mut monotonic = DemandedReads::default();
    let mut own = DemandedReads::default();
    let writes = replay(history, set, &mut monotonic, &mut own);
    let written = reads_after_writes(history, set, &writes, |known| &known.written);
    let seen = reads_after_writes(history, set, &writes, |known| &known.seen);
    [
        monotonic.into_result(set, max_violations, |_, _| NO_ROW),
        own.into_result(set, max_violations, |_, _| NO_ROW),
        written.into_result(set, max_violations, |read, missing| {
            first_demanding_write(set, &writes, read, missing, |known| &known.written)
        }),
        seen.into_result(set, max_violations, |read, missing| {
            first_demanding_write(set, &writes, read, missing, |known| &known.seen)
        }),
    ]
}

/// Collects the reads of which something is demanded.
#[derive(Default)]
struct DemandedReads {
    reads: usize,
    /// The index of each read that lacks something, with the first value that it lacks.
    lacking: Vec<(usize, u32)>,
}

impl DemandedReads {
    fn demand(&mut self, set: &Set, read: usize, demanded: &Mask) {
        if demanded.is_empty() {
            return;
        }
        self.reads += 1;
        let mask = set.mask(&set.reads[read]);
        if demanded.exceeds(mask) {
            self.lacking.extend(
                demanded
                    .difference(mask)
                    .positions()
                    .next()
                    .map(|at| (read, at)),
            );
        }
    }

    fn into_result(
        mut self,
        set: &Set,
        max_violations: usize,
        write: impl Fn(usize, u32) -> u32,
    ) -> GuaranteeResult {
        self.lacking
            .sort_unstable_by_key(|&(read, _)| set.reads[read].end);
        let first = self
            .lacking
            .iter()
            .take(max_violations)
            .map(|&(read, missing)| Violation {
                read,
                missing,
                write: write(read, missing),
            });
        GuaranteeResult {
            reads: self.reads,
            broken: self.lacking.len(),
            violations: first.collect(),
        }
    }
}

/// Replays the calls in order of invocation and returns the writes that may have happened.
fn replay(
    history: &History,
    set: &Set,
    monotonic: &mut DemandedReads,
    own: &mut DemandedReads,
) -> Vec<Write> {
    let mut processes: FxHashMap<i64, Known> = FxHashMap::default();
    let mut writes: Vec<Write> = Vec::new();
    let mut inserts: Vec<&Insert> = set.inserts.iter().collect();
    inserts.retain(|insert| insert.kind != Kind::Fail);
    inserts.sort_unstable_by_key(|insert| insert.invoke);
    let mut inserts = inserts.into_iter().peekable();
    for (place, read) in set.reads.iter().enumerate() {
        while let Some(insert) = inserts.next_if(|insert| insert.invoke < read.invoke) {
            writes.push(write(history, insert, &mut processes));
        }
        let known = processes
            .entry(history.process[read.invoke as usize])
            .or_default();
        monotonic.demand(set, place, &known.seen);
        own.demand(set, place, &known.written);
        known.seen.insert_all(set.mask(read));
    }
    for insert in inserts {
        writes.push(write(history, insert, &mut processes));
    }
    writes
}

fn write(history: &History, insert: &Insert, processes: &mut FxHashMap<i64, Known>) -> Write {
    let known = processes
        .entry(history.process[insert.invoke as usize])
        .or_default();
    let before = Known {
        written: known.written.clone(),
        seen: known.seen.clone(),
    };
    if insert.ack != NO_ROW {
        known.written.set(insert.bit);
    }
    Write {
        bit: insert.bit,
        known: before,
    }
}

/// A read that shows a write must show everything that the write's process knew before it.
fn reads_after_writes(
    history: &History,
    set: &Set,
    writes: &[Write],
    before: impl Fn(&Known) -> &Mask,
) -> DemandedReads {
    let mut needs: Vec<Option<&Mask>> = vec![None; set.values.len()];
    let mut binding = Mask::default();
    for write in writes {
        let mask = before(&write.known);
        if !mask.is_empty() {
            needs[write.bit as usize] = Some(mask);
            binding.set(write.bit);
        }
    }
    // A replica's answers mostly grow. So the demand is kept per replica and only extended by what
    // new values add. It is recomputed after an answer that shrank.
    let mut last: FxHashMap<Word, (u32, Mask)> = FxHashMap::default();
    let nothing = Mask::default();
    let mut found = DemandedReads::default();
    for (place, read) in set.reads.iter().enumerate() {
        let mask = set.mask(read);
        let (known, demanded) = last
            .entry(history.node[read.invoke as usize])
            .or_insert_with(|| (NO_ROW, Mask::default()));
        if *known != read.mask {
            let mut old = set.masks.get(*known as usize).unwrap_or(&nothing);
            if old.exceeds(mask) {
                *demanded = Mask::default();
                old = &nothing;
            }
            for at in mask.difference(old).intersection(&binding).positions() {
                demanded.insert_all(needs[at as usize].expect("a write that binds"));
            }
            *known = read.mask;
        }
        found.demand(set, place, demanded);
    }
    found
}

fn first_demanding_write(
    set: &Set,
    writes: &[Write],
    read: usize,
    missing: u32,
    before: impl Fn(&Known) -> &Mask,
) -> u32 {
    let mask = set.mask(&set.reads[read]);
    let demands = |write: &&Write| mask.has(write.bit) && before(&write.known).has(missing);
    let found = writes.iter().find(demands);
    found.map_or(NO_ROW, |write| write.bit)
}
