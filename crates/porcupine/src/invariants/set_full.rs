//! Decides what became of each element of a grow-only set, as Jepsen's `set-full` does.
//!
//! An element is *known* from the return of its add, or of the first read that showed it. It is
//! *stable* if a read that showed it was called after all reads that did not, and *lost* if it was
//! known before the call of a read that did not show it, and no later read showed it. Otherwise no
//! read says anything about it. A stable element is *stale* if a read that was called when it was
//! known did not show it.

use super::answer::{counted, elements, listed, Answer, Finding, Known, NAMED_MAX};
use super::pace::{Pace, Stop};
use super::Options;
use crate::datum::Datum;
use crate::order::{Timing, NEVER};
use crate::rows::{each, BadRow, Rows};

/// What is known of one element.
struct Element {
    added: bool,
    /// The row of its add, or of the first read with it.
    row: usize,
    known: i64,
    /// The latest call of a read with it.
    present: Option<i64>,
    /// Number of the latest reads that all have it.
    run: usize,
    /// The last read, counted from the latest, in which it was met.
    met: usize,
    repeated: bool,
}

impl Element {
    fn new(added: bool, row: usize, known: i64) -> Self {
        Self {
            added,
            row,
            known,
            present: None,
            run: 0,
            met: usize::MAX,
            repeated: false,
        }
    }

    /// Returns the latest call of a read without it.
    fn absent(&self, reads: &[Timing]) -> Option<i64> {
        reads.get(self.run).map(|read| read.call)
    }

    fn is_stable(&self, reads: &[Timing]) -> bool {
        self.present.is_some() && self.absent(reads) < self.present
    }

    fn is_lost(&self, reads: &[Timing]) -> bool {
        let absent = self.absent(reads);
        self.present < absent && Some(self.known) < absent
    }

    fn is_stale(&self, reads: &[Timing]) -> bool {
        self.is_stable(reads) && self.absent(reads) > Some(self.known)
    }
}

/// Decides the adds and reads. O(n log n + v), where v is the number of elements in all reads.
pub fn decide(
    rows: &dyn Rows,
    object: &[u32],
    options: Options,
    pace: &mut Pace,
) -> Result<Answer, Stop> {
    let mut known = Known::default();
    let mut all: Vec<Element> = Vec::new();
    let mut reads: Vec<Timing> = Vec::new();
    for row in each(rows, object) {
        pace.step(1)?;
        let at = rows.timing(row);
        match rows.f(row) {
            "add" | "broadcast" => {
                let number = known.number(rows.value(row));
                if number == all.len() {
                    all.push(Element::new(true, row, at.ret));
                }
                all[number].known = all[number].known.min(at.ret);
            }
            "read" if at.ret == NEVER || rows.output(row) == Datum::Null => {}
            "read" => reads.push(at),
            f => return Err(BadRow::f(row, f, "\"add\", \"broadcast\" or \"read\"").into()),
        }
    }
    reads.sort_unstable_by_key(|read| std::cmp::Reverse((read.call, read.row)));
    for (place, read) in reads.iter().enumerate() {
        let output = rows.output(read.row);
        let shown = elements(output.clone())
            .ok_or_else(|| BadRow::field(read.row, "output", &output, "a list of the elements"))?;
        pace.step(shown.len())?;
        for element in shown {
            let number = known.number(element);
            if number == all.len() {
                all.push(Element::new(false, read.row, NEVER));
            }
            meet(&mut all[number], place, read);
        }
    }
    Ok(judge(&known, &all, &reads, options))
}

/// Notes that a read, counted from the latest, shows an element.
fn meet(element: &mut Element, place: usize, read: &Timing) {
    element.repeated |= element.met == place;
    element.met = place;
    element.known = element.known.min(read.ret);
    element.present = element.present.max(Some(read.call));
    if element.run == place {
        element.run += 1;
    }
}

fn judge(known: &Known, all: &[Element], reads: &[Timing], options: Options) -> Answer {
    let finding = |name, forbidden, what: &str, is: &dyn Fn(&Element) -> bool| {
        let found: Vec<usize> = (0..all.len()).filter(|&number| is(&all[number])).collect();
        let texts = found.iter().map(|&number| known.text(number));
        let rows = found.iter().take(NAMED_MAX);
        Finding {
            name,
            forbidden,
            count: found.len(),
            rows: rows.map(|&number| all[number].row).collect(),
            text: format!(
                "{} {what}: {}",
                counted(found.len(), "element"),
                listed(found.len(), texts)
            ),
        }
    };
    let is_added = |element: &Element| element.added;
    let findings = vec![
        finding("lost", true, "known, and in no later read", &|element| {
            is_added(element) && element.is_lost(reads)
        }),
        finding("unexpected", true, "read that nobody added", &|element| {
            !element.added
        }),
        finding(
            "duplicated",
            true,
            "several times in one read",
            &|element| element.repeated,
        ),
        finding(
            "stale",
            options.linearizable,
            "known and missing from a read, but found later",
            &|element| is_added(element) && element.is_stale(reads),
        ),
    ];
    let added = all.iter().filter(|element| element.added);
    let stable = added
        .clone()
        .filter(|element| element.is_stable(reads))
        .count();
    let (attempted, lost) = (added.count(), findings[0].count);
    let counts = vec![
        ("attempted", attempted as u64),
        ("stable", stable as u64),
        ("lost", lost as u64),
        ("never-read", (attempted - stable - lost) as u64),
        ("stale", findings[3].count as u64),
        ("unexpected", findings[1].count as u64),
        ("duplicated", findings[2].count as u64),
        ("reads", reads.len() as u64),
    ];
    let nothing = "nothing was checked: no read shows that an element is in the set";
    let open = (stable == 0).then(|| nothing.to_owned());
    let valid = format!("{} stable, none lost", counted(stable, "element"));
    Answer::of(counts, findings, open, valid)
}
