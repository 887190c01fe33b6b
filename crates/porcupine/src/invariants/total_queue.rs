//! Decides whether what goes into a queue comes out of it.
//!
//! Values are counted, so they may come again. An acknowledged value is lost if it never came out
//! although the queue was seen empty later: by a dequeue that found nothing, or by a drain that
//! returned, whose call was after the acknowledgement. A dequeue that never returned may have taken
//! one value, and a drain that never returned any number.

use super::answer::{counted, elements, listed, Answer, Finding, Known, NAMED_MAX};
use super::pace::{Pace, Stop};
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};

/// What happened to one value.
#[derive(Default)]
struct Tally {
    attempted: usize,
    acknowledged: usize,
    /// Acknowledged before the queue was seen empty.
    settled: usize,
    out: usize,
    /// The row of its last enqueue, and that of its last dequeue.
    put: usize,
    took: usize,
}

impl Tally {
    fn missing(&self) -> usize {
        self.acknowledged.saturating_sub(self.out)
    }

    fn lost(&self) -> usize {
        self.settled.saturating_sub(self.out)
    }

    fn unexpected(&self) -> usize {
        if self.attempted == 0 {
            self.out
        } else {
            0
        }
    }

    fn duplicated(&self) -> usize {
        if self.attempted == 0 {
            0
        } else {
            self.out.saturating_sub(self.attempted)
        }
    }

    fn recovered(&self) -> usize {
        self.out
            .min(self.attempted)
            .saturating_sub(self.acknowledged)
    }
}

/// The values of a queue, and what may have taken others.
#[derive(Default)]
struct Contents<'a> {
    known: Known<'a>,
    tallies: Vec<Tally>,
    lost_dequeues: usize,
    lost_drains: usize,
}

impl<'a> Contents<'a> {
    fn tally(&mut self, value: Datum<'a>) -> &mut Tally {
        let number = self.known.number(value);
        if number == self.tallies.len() {
            self.tallies.push(Tally::default());
        }
        &mut self.tallies[number]
    }

    fn take(&mut self, value: Datum<'a>, row: usize) {
        let tally = self.tally(value);
        tally.out += 1;
        tally.took = row;
    }

    fn finding(
        &self,
        (name, forbidden): (&'static str, bool),
        what: &str,
        count: impl Fn(&Tally) -> usize,
        row: impl Fn(&Tally) -> usize,
    ) -> Finding {
        let found: Vec<usize> = (0..self.tallies.len())
            .filter(|&number| count(&self.tallies[number]) > 0)
            .collect();
        let total: usize = found
            .iter()
            .map(|&number| count(&self.tallies[number]))
            .sum();
        let texts = found.iter().map(|&number| self.known.text(number));
        let rows = found.iter().take(NAMED_MAX);
        Finding {
            name,
            forbidden,
            count: total,
            rows: rows.map(|&number| row(&self.tallies[number])).collect(),
            text: format!(
                "{} {what}: {}",
                counted(total, "value"),
                listed(found.len(), texts)
            ),
        }
    }
}

/// Decides the operations on one queue. O(n + v), where v is the number of drained values.
pub fn decide(rows: &dyn Rows, object: &[u32], pace: &mut Pace) -> Result<Answer, Stop> {
    let emptied = emptied(rows, object, pace)?;
    let mut contents = Contents::default();
    for row in each(rows, object) {
        pace.step(1)?;
        let at = rows.timing(row);
        match rows.f(row) {
            "enqueue" => {
                let tally = contents.tally(rows.value(row));
                tally.attempted += 1;
                tally.put = row;
                tally.acknowledged += usize::from(at.ret != NEVER);
                tally.settled += usize::from(emptied.is_some_and(|emptied| at.ret < emptied));
            }
            "dequeue" if at.ret == NEVER => contents.lost_dequeues += 1,
            "dequeue" => match rows.output(row) {
                Datum::Null => {}
                value => contents.take(value, row),
            },
            "drain" if at.ret == NEVER => contents.lost_drains += 1,
            "drain" => {
                let values = drained(rows, row)?;
                pace.step(values.len())?;
                for value in values {
                    contents.take(value, row);
                }
            }
            f => return Err(BadRow::f(row, f, "\"enqueue\", \"dequeue\" or \"drain\"").into()),
        }
    }
    Ok(judge(&contents))
}

/// Returns the latest call of an operation that saw the queue empty: a drain that returned, or a
/// dequeue that found nothing.
fn emptied(rows: &dyn Rows, object: &[u32], pace: &mut Pace) -> Result<Option<i64>, Stop> {
    let mut latest = None;
    for row in each(rows, object) {
        pace.step(1)?;
        let at = rows.timing(row);
        let found_nothing = || rows.output(row) == Datum::Null;
        let saw = match rows.f(row) {
            "drain" => at.ret != NEVER,
            "dequeue" => at.ret != NEVER && found_nothing(),
            _ => false,
        };
        if saw {
            latest = latest.max(Some(at.call));
        }
    }
    Ok(latest)
}

fn drained(rows: &dyn Rows, row: usize) -> Result<Vec<Datum<'_>>, BadRow> {
    match rows.output(row) {
        Datum::Null => Ok(Vec::new()),
        output => elements(output.clone())
            .ok_or_else(|| BadRow::field(row, "output", &output, "a list of the values")),
    }
}

fn judge(contents: &Contents) -> Answer {
    let total = |of: &dyn Fn(&Tally) -> usize| contents.tallies.iter().map(of).sum::<usize>();
    let (missing, settled) = (total(&Tally::missing), total(&Tally::lost));
    let may_have = match contents.lost_drains {
        0 => contents.lost_dequeues,
        _ => usize::MAX,
    };
    let mut lost = contents.finding(
        ("lost", true),
        "acknowledged and never came out, although the queue was empty later",
        Tally::lost,
        |tally| tally.put,
    );
    if settled > may_have {
        lost.count = settled - may_have;
        if may_have > 0 {
            let dequeues = counted(may_have, "dequeue");
            lost.text += &format!("; {dequeues} that never returned may have taken as many");
        }
    } else {
        lost.count = 0;
    }
    let findings = vec![
        lost,
        contents.finding(
            ("unexpected", true),
            "came out that nobody had put in",
            Tally::unexpected,
            |tally| tally.took,
        ),
        contents.finding(
            ("duplicated", false),
            "came out more often than put in",
            Tally::duplicated,
            |tally| tally.took,
        ),
    ];
    let counts = vec![
        ("attempted", total(&|tally| tally.attempted) as u64),
        ("acknowledged", total(&|tally| tally.acknowledged) as u64),
        ("dequeued", total(&|tally| tally.out) as u64),
        ("missing", missing as u64),
        ("lost", findings[0].count as u64),
        ("unexpected", findings[1].count as u64),
        ("duplicated", findings[2].count as u64),
        ("recovered", total(&Tally::recovered) as u64),
    ];
    let valid = format!(
        "{} acknowledged, and each came out",
        counted(total(&|tally| tally.acknowledged), "value")
    );
    Answer::of(counts, findings, open(contents, missing, settled), valid)
}

/// Returns why the queue is undecided if nothing forbidden was found.
fn open(contents: &Contents, missing: usize, settled: usize) -> Option<String> {
    if contents
        .tallies
        .iter()
        .all(|tally| tally.acknowledged + tally.out == 0)
    {
        return Some(
            "nothing was checked: no value was acknowledged, and none came out".to_owned(),
        );
    }
    if missing == 0 {
        return None;
    }
    let never_out = format!(
        "{} acknowledged and never came out",
        counted(missing, "value")
    );
    Some(if missing > settled {
        format!("{never_out}, and nobody saw the queue empty after that: drain it at the end")
    } else {
        let takers = match contents.lost_drains {
            0 => counted(contents.lost_dequeues, "dequeue"),
            drains => counted(drains, "drain"),
        };
        format!("{never_out}, but {takers} never returned and may have taken as many")
    })
}
