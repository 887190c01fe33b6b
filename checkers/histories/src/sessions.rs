//! The four session guarantees on one key: what each read had to hold, and which did not.
//!
//! With each call goes what its process knew of the key before: its own values acknowledged, and
//! the union of its reads.

use rustc_hash::FxHashMap;

use crate::history::{History, NO_ROW};
use crate::lines::Kind;
use crate::masks::Mask;
use crate::sets::{Insert, Set};
use crate::words::Word;

/// A read that does not hold what it must.
pub struct Demand {
    /// Its place in the set.
    pub read: usize,
    /// The first value that is missing, by its bit.
    pub missing: u32,
    /// The bit of the first write that demands it; `NO_ROW`: the read's own process does.
    pub write: u32,
}

/// What one guarantee comes to.
#[derive(Default)]
pub struct Bound {
    /// Of how many reads something is demanded.
    pub reads: usize,
    /// How many of them lack some of it.
    pub broken: usize,
    /// Those that ended first.
    pub first: Vec<Demand>,
}

#[derive(Default)]
struct Known {
    written: Mask,
    seen: Mask,
}

/// A write, with what its process knew before.
struct Write {
    at: u32,
    known: Known,
}

/// Monotonic reads, read your writes, monotonic writes and writes follow reads, in this order. At
/// most `few` demands of each are told. Every value was tried once.
pub fn bounds(history: &History, set: &Set, few: usize) -> [Bound; 4] {
    let mut monotonic = Found::default();
    let mut own = Found::default();
    let writes = past(history, set, &mut monotonic, &mut own);
    let written = ordered(history, set, &writes, |known| &known.written);
    let seen = ordered(history, set, &writes, |known| &known.seen);
    [
        monotonic.told(set, few, |_, _| NO_ROW),
        own.told(set, few, |_, _| NO_ROW),
        written.told(set, few, |read, missing| {
            demanding(set, &writes, read, missing, |known| &known.written)
        }),
        seen.told(set, few, |read, missing| {
            demanding(set, &writes, read, missing, |known| &known.seen)
        }),
    ]
}

/// Reads of which something is demanded, as they are found.
#[derive(Default)]
struct Found {
    reads: usize,
    /// The place of each that lacks something, and the first value that it lacks.
    lacking: Vec<(usize, u32)>,
}

impl Found {
    fn demand(&mut self, set: &Set, read: usize, demanded: &Mask) {
        if demanded.is_empty() {
            return;
        }
        self.reads += 1;
        let mask = set.mask(&set.reads[read]);
        if demanded.exceeds(mask) {
            self.lacking
                .extend(demanded.less(mask).positions().next().map(|at| (read, at)));
        }
    }

    fn told(mut self, set: &Set, few: usize, write: impl Fn(usize, u32) -> u32) -> Bound {
        self.lacking
            .sort_unstable_by_key(|&(read, _)| set.reads[read].end);
        let first = self
            .lacking
            .iter()
            .take(few)
            .map(|&(read, missing)| Demand {
                read,
                missing,
                write: write(read, missing),
            });
        Bound {
            reads: self.reads,
            broken: self.lacking.len(),
            first: first.collect(),
        }
    }
}

/// Goes through the calls in order of invocation; returns the writes that were not refused.
fn past(history: &History, set: &Set, monotonic: &mut Found, own: &mut Found) -> Vec<Write> {
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
        known.seen.add(set.mask(read));
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
        known.written.set(insert.at);
    }
    Write {
        at: insert.at,
        known: before,
    }
}

/// Every read that saw a write must hold what came before that write in its process.
fn ordered(
    history: &History,
    set: &Set,
    writes: &[Write],
    before: impl Fn(&Known) -> &Mask,
) -> Found {
    let mut needs: Vec<Option<&Mask>> = vec![None; set.values.len()];
    let mut bound = Mask::default();
    for write in writes {
        let mask = before(&write.known);
        if !mask.is_empty() {
            needs[write.at as usize] = Some(mask);
            bound.set(write.at);
        }
    }
    // A replica's answers mostly grow, so what a read demands is mostly what the replica's last
    // read demanded and what its new values add; after an answer that shrank it is summed anew.
    let mut last: FxHashMap<Word, (u32, Mask)> = FxHashMap::default();
    let nothing = Mask::default();
    let mut found = Found::default();
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
            for at in mask.less(old).and(&bound).positions() {
                demanded.add(needs[at as usize].expect("a write that binds"));
            }
            *known = read.mask;
        }
        found.demand(set, place, demanded);
    }
    found
}

fn demanding(
    set: &Set,
    writes: &[Write],
    read: usize,
    missing: u32,
    before: impl Fn(&Known) -> &Mask,
) -> u32 {
    let mask = set.mask(&set.reads[read]);
    let demands = |write: &&Write| mask.has(write.at) && before(&write.known).has(missing);
    let found = writes.iter().find(demands);
    found.map_or(NO_ROW, |write| write.at)
}
