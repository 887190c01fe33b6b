//! Decides whether reads of the same keys saw them being written in one order.
//!
//! Each key is written once, alone, and a read transaction reads a group of keys. The keys that it
//! found written are a set, and in every order of the writes the sets of the reads of one group form
//! a chain. Two sets of which neither contains the other are a long fork: it is allowed under
//! parallel snapshot isolation, and forbidden under snapshot isolation.

use rustc_hash::FxHashMap;

use super::answer::{counted, elements, listed, Answer, Finding, Known, NAMED_MAX};
use super::pace::{Pace, Stop};
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};

/// A read of a group: its row, and by key of the group whether it found it written.
struct Read {
    row: usize,
    written: Box<[bool]>,
}

impl Read {
    fn count(&self) -> usize {
        self.written.iter().filter(|&&written| written).count()
    }

    fn is_within(&self, other: &Read) -> bool {
        let pairs = self.written.iter().zip(&other.written);
        pairs.into_iter().all(|(&mine, &other)| !mine || other)
    }
}

/// The transactions, by what they do.
#[derive(Default)]
struct Transactions<'a> {
    keys: Known<'a>,
    /// By key: how often it was written.
    writes: Vec<usize>,
    /// By key: the value that reads found.
    values: Vec<Option<Datum<'a>>>,
    /// The first key that two reads found with different values.
    disagreed: Option<usize>,
    /// The reads of each group of keys, which ascend.
    groups: FxHashMap<Box<[usize]>, Vec<Read>>,
    reads: usize,
}

const EXPECTED: &str = "one write such as [\"w\", key, 1], or reads such as [\"r\", key, value]";

impl<'a> Transactions<'a> {
    fn key(&mut self, key: Datum<'a>) -> usize {
        let number = self.keys.number(key);
        if number == self.writes.len() {
            self.writes.push(0);
            self.values.push(None);
        }
        number
    }

    /// Takes the micro-operations of a transaction; `None` if they are neither one write nor reads.
    fn add(&mut self, row: usize, steps: Vec<Datum<'a>>, returned: bool) -> Option<()> {
        let mut found: Vec<(usize, bool)> = Vec::new();
        let alone = steps.len() == 1;
        for step in steps {
            let [f, key, value] = <[Datum; 3]>::try_from(elements(step)?).ok()?;
            let Datum::Text(f) = f else { return None };
            let key = self.key(key);
            match f.trim_start_matches(':') {
                "w" | "write" if alone => {
                    self.writes[key] += 1;
                    return Some(());
                }
                "r" | "read" => found.push((key, value != Datum::Null)),
                _ => return None,
            }
            if returned && value != Datum::Null {
                match &self.values[key] {
                    Some(other) if *other != value => self.disagreed = Some(key),
                    _ => self.values[key] = Some(value),
                }
            }
        }
        if returned && !found.is_empty() {
            found.sort_unstable();
            found.dedup();
            let (group, written): (Vec<usize>, Vec<bool>) = found.into_iter().unzip();
            let written = written.into();
            self.groups
                .entry(group.into())
                .or_default()
                .push(Read { row, written });
            self.reads += 1;
        }
        Some(())
    }
}

/// Decides the transactions. O(n log n) for groups of bounded size.
pub fn decide(rows: &dyn Rows, object: &[u32], pace: &mut Pace) -> Result<Answer, Stop> {
    let mut all = Transactions::default();
    for row in each(rows, object) {
        pace.step(1)?;
        let f = rows.f(row);
        if !matches!(f, "txn" | "read" | "write") {
            return Err(BadRow::f(row, f, "\"txn\", \"read\" or \"write\"").into());
        }
        let returned = rows.timing(row).ret != NEVER;
        let (field, steps) = match rows.output(row) {
            Datum::Null => ("value", rows.value(row)),
            output => ("output", output),
        };
        if steps == Datum::Null && !returned {
            continue;
        }
        elements(steps.clone())
            .and_then(|parts| all.add(row, parts, returned))
            .ok_or_else(|| BadRow::field(row, field, &steps, EXPECTED))?;
    }
    let mut forks = Vec::new();
    let mut compared = 0;
    for reads in all.groups.values_mut() {
        pace.step(reads.len())?;
        reads.sort_by_key(|read| (read.count(), read.row));
        let pairs = reads.windows(2).map(|pair| (&pair[0], &pair[1]));
        compared += pairs.clone().filter(|(_, more)| more.count() > 0).count();
        let apart = pairs.filter(|(fewer, more)| !fewer.is_within(more));
        forks.extend(apart.map(|(fewer, more)| (fewer.row, more.row)));
    }
    forks.sort_unstable();
    Ok(judge(&all, &forks, compared))
}

fn judge(all: &Transactions, forks: &[(usize, usize)], compared: usize) -> Answer {
    let counts = vec![
        ("reads", all.reads as u64),
        ("groups", all.groups.len() as u64),
        ("forks", forks.len() as u64),
    ];
    let unknown = |reason: String| Answer {
        counts: counts.clone(),
        ..Answer::unknown(reason)
    };
    let again: Vec<usize> = (0..all.writes.len())
        .filter(|&key| all.writes[key] > 1)
        .collect();
    if !again.is_empty() {
        let texts = again.iter().map(|&key| all.keys.text(key));
        return unknown(format!(
            "{} written more than once: {}; a long fork is defined where each key is written once",
            counted(again.len(), "key"),
            listed(again.len(), texts)
        ));
    }
    if let Some(key) = all.disagreed {
        return unknown(format!(
            "reads found different values of key {}; a long fork is defined where each key is \
             written once",
            all.keys.text(key)
        ));
    }
    let mut rows: Vec<usize> = Vec::new();
    for &(one, other) in forks.iter().take(NAMED_MAX / 2) {
        rows.extend([one, other]);
    }
    let finding = Finding {
        name: "long-fork",
        forbidden: true,
        count: forks.len(),
        rows,
        text: format!(
            "{} of reads of the same keys, each of which found a key written that the other did not",
            counted(forks.len(), "pair")
        ),
    };
    let nothing = "nothing was checked: no two reads of the same keys of which one found a write";
    let open = (compared == 0).then(|| nothing.to_owned());
    let valid = format!("{} in one order of the writes", counted(all.reads, "read"));
    Answer::of(counts, vec![finding], open, valid)
}
