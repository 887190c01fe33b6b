//! Decides what the consumers of a log such as Kafka's saw, as `jepsen.tests.kafka` does.
//!
//! Each key is a log of values at ascending offsets, not all of which need to be in use. A producer
//! learns the offset of what it sent, and a consumer polls values with their offsets. Values of a
//! key are expected to differ; what was sent more than once may be at several offsets.

use rustc_hash::{FxHashMap, FxHashSet};

use super::answer::{counted, elements, listed, Answer, Finding, Known, NAMED_MAX};
use super::pace::{Pace, Stop};
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};

/// A value at an offset, as a send was told or a poll found.
#[derive(Clone, Copy)]
struct Record {
    row: usize,
    process: i64,
    key: usize,
    offset: i64,
    value: usize,
    /// Which assignment of keys the process had; `None` if its keys are those of a
    /// subscription, which may change between two polls.
    assignment: Option<u32>,
}

/// What producers and consumers did, in order of call.
#[derive(Default)]
struct Log<'a> {
    keys: Known<'a>,
    values: Known<'a>,
    /// By key and value: how many sends may have happened.
    attempts: FxHashMap<(usize, usize), usize>,
    sent: Vec<Record>,
    polled: Vec<Record>,
    /// Number of sends that returned, and of polls that never did.
    acknowledged: usize,
    lost_polls: usize,
    /// By process.
    assignments: FxHashMap<i64, Option<u32>>,
}

const EXPECTED: &str = "[\"send\", key, value], which an offset joins in the output, [\"send\", key, \
                        [offset, value]], or [\"poll\"] and [\"poll\", {key: [[offset, value], ...]}]";
const OPERATIONS: &str = "\"send\", \"poll\", \"txn\", \"assign\" or \"subscribe\"";

impl<'a> Log<'a> {
    /// Takes a micro-operation of a call. `None` if it is none.
    fn attempt(&mut self, step: Datum<'a>, returned: bool) -> Option<()> {
        let mut parts = elements(step)?.into_iter();
        match word(parts.next()?)? {
            "poll" => self.lost_polls += usize::from(!returned),
            "send" => {
                let key = self.keys.number(parts.next()?);
                let value = self.values.number(parts.next()?);
                *self.attempts.entry((key, value)).or_default() += 1;
            }
            _ => return None,
        }
        Some(())
    }

    /// Takes a micro-operation of what returned.
    fn returned(&mut self, row: usize, process: i64, step: Datum<'a>) -> Option<()> {
        let mut parts = elements(step)?.into_iter();
        let assignment = *self.assignments.get(&process).unwrap_or(&Some(0));
        let record = |key: usize, offset: i64, value: usize| Record {
            row,
            process,
            key,
            offset,
            value,
            assignment,
        };
        match word(parts.next()?)? {
            "send" => {
                let key = self.keys.number(parts.next()?);
                self.acknowledged += 1;
                if let Some((offset, value)) = parts.next().and_then(placed) {
                    let value = self.values.number(value);
                    self.sent.push(record(key, offset, value));
                }
            }
            "poll" => {
                let found = parts.next().unwrap_or(Datum::Null);
                let found = match found {
                    Datum::Null => Vec::new(),
                    found => elements(found)?,
                };
                for pair in found {
                    let [key, records] = <[Datum; 2]>::try_from(elements(pair)?).ok()?;
                    let key = self.keys.number(key);
                    for item in elements(records)? {
                        let (offset, value) = placed(item)?;
                        let value = self.values.number(value);
                        self.polled.push(record(key, offset, value));
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn name(&self, record: &Record) -> String {
        let (key, value) = (self.keys.text(record.key), self.values.text(record.value));
        format!("{value} at offset {} of key {key}", record.offset)
    }

    fn finding(&self, name: &'static str, what: &str, found: &[&Record]) -> Finding {
        let texts = found.iter().map(|record| self.name(record));
        Finding {
            name,
            forbidden: true,
            count: found.len(),
            rows: found.iter().take(NAMED_MAX).map(|one| one.row).collect(),
            text: format!(
                "{} {what}: {}",
                counted(found.len(), "record"),
                listed(found.len(), texts)
            ),
        }
    }
}

fn word<'a>(name: Datum<'a>) -> Option<&'a str> {
    match name {
        Datum::Text(name) => Some(name.trim_start_matches(':')),
        _ => None,
    }
}

/// Returns an offset and its value.
fn placed(pair: Datum<'_>) -> Option<(i64, Datum<'_>)> {
    let [offset, value] = <[Datum; 2]>::try_from(elements(pair)?).ok()?;
    match offset {
        Datum::Int(offset) => Some((offset, value)),
        _ => None,
    }
}

/// Decides sends and polls. O(n log n).
pub fn decide(rows: &dyn Rows, object: &[u32], pace: &mut Pace) -> Result<Answer, Stop> {
    let mut log = Log::default();
    let mut order: Vec<usize> = each(rows, object).collect();
    order.sort_by_key(|&row| rows.timing(row).call);
    for row in order {
        pace.step(1)?;
        let at = rows.timing(row);
        match rows.f(row) {
            "assign" => {
                log.assignments.insert(at.process, Some(row as u32 + 1));
                continue;
            }
            "subscribe" => {
                log.assignments.insert(at.process, None);
                continue;
            }
            "send" | "poll" | "txn" => {}
            "crash" | "debug-topic-partitions" => continue, // of Jepsen, about the client alone
            f => return Err(BadRow::f(row, f, OPERATIONS).into()),
        }
        let returned = at.ret != NEVER;
        let value = rows.value(row);
        let bad = |field: &str, found: &Datum| BadRow::field(row, field, found, EXPECTED);
        let steps = elements(value.clone()).ok_or_else(|| bad("value", &value))?;
        for step in steps {
            log.attempt(step, returned)
                .ok_or_else(|| bad("value", &value))?;
        }
        if returned {
            let output = rows.output(row);
            let steps = elements(output.clone()).ok_or_else(|| bad("output", &output))?;
            for step in steps {
                pace.step(1)?;
                log.returned(row, at.process, step)
                    .ok_or_else(|| bad("output", &output))?;
            }
        }
    }
    Ok(judge(&log))
}

fn judge(log: &Log) -> Answer {
    let mut places: Vec<&Record> = log.sent.iter().chain(&log.polled).collect();
    places.sort_by_key(|one| (one.key, one.offset, one.value, one.row));
    let unexpected: Vec<&Record> = log.polled.iter().filter(|one| !is_sent(log, one)).collect();
    let pairs = places.windows(2).filter(|two| two[0].key == two[1].key);
    let disagreed: Vec<&Record> = pairs
        .filter(|two| two[0].offset == two[1].offset && two[0].value != two[1].value)
        .map(|two| two[1])
        .collect();
    let mut by_value = places.clone();
    by_value.sort_by_key(|one| (one.key, one.value, one.offset, one.row));
    let pairs = by_value.windows(2).filter(|two| {
        (two[0].key, two[0].value) == (two[1].key, two[1].value) && two[0].offset < two[1].offset
    });
    let doubled: Vec<&Record> = pairs
        .map(|two| two[1])
        .filter(|one| log.attempts.get(&(one.key, one.value)) == Some(&1))
        .collect();
    let (missing, unseen) = missing(log);
    let Order { back, skipped } = Order::of(log, &places);
    let counts = vec![
        ("sent", log.attempts.values().sum::<usize>() as u64),
        ("acknowledged", log.acknowledged as u64),
        ("polled", log.polled.len() as u64),
        ("unseen", unseen as u64),
    ];
    // A poll that never returned may have had what nobody else saw.
    let is_open = log.lost_polls > 0 && !missing.is_empty();
    let lost = log.finding(
        "lost",
        "acknowledged and never polled, although a later offset was",
        if is_open { &[] } else { &missing },
    );
    let descending = descending(log);
    let findings =
        vec![
        lost,
        log.finding("unexpected", "polled that nobody sent", &unexpected),
        log.finding("inconsistent-offset", "beside another value there", &disagreed),
        log.finding("duplicate", "sent once, and also at an earlier offset", &doubled),
        log.finding(
            "nonmonotonic-send",
            "sent after a later offset by the same process",
            &descending,
        ),
        log.finding(
            "internal-nonmonotonic-poll",
            "polled after the same or a later offset in one operation",
            &back[0],
        ),
        log.finding(
            "external-nonmonotonic-poll",
            "polled after an operation of the same process had polled the same or a later offset",
            &back[1],
        ),
        log.finding(
            "internal-poll-skip",
            "polled in one operation without a record before it",
            &skipped[0],
        ),
        log.finding(
            "external-poll-skip",
            "polled by a process that had not polled a record before it",
            &skipped[1],
        ),
    ];
    let open = if is_open {
        Some(format!(
            "{} acknowledged and never polled, although a later offset was, but {} never returned \
             and may have had them",
            counted(missing.len(), "record"),
            counted(log.lost_polls, "poll")
        ))
    } else {
        let nothing = log.polled.is_empty();
        nothing.then(|| "nothing was checked: no poll returned a record".to_owned())
    };
    let valid = format!("{} polled in order", counted(log.polled.len(), "record"));
    Answer::of(counts, findings, open, valid)
}

fn is_sent(log: &Log, record: &Record) -> bool {
    log.attempts.contains_key(&(record.key, record.value))
}

/// Returns the records that a send was told of and nobody polled although a later offset of the key
/// was, and the number of the others that nobody polled.
fn missing<'b>(log: &'b Log) -> (Vec<&'b Record>, usize) {
    let seen: FxHashSet<(usize, usize)> = log.polled.iter().map(|p| (p.key, p.value)).collect();
    let mut latest: FxHashMap<usize, i64> = FxHashMap::default();
    for one in &log.polled {
        let latest = latest.entry(one.key).or_insert(one.offset);
        *latest = one.offset.max(*latest);
    }
    let unseen = log
        .sent
        .iter()
        .filter(|one| !seen.contains(&(one.key, one.value)));
    let (missing, unseen): (Vec<&'b Record>, Vec<&Record>) =
        unseen.partition(|one| latest.get(&one.key).is_some_and(|&at| one.offset < at));
    (missing, unseen.len())
}

/// Returns the sends whose offsets are less than those of earlier ones of the same process.
fn descending<'b>(log: &'b Log) -> Vec<&'b Record> {
    let mut last: FxHashMap<(i64, usize), i64> = FxHashMap::default();
    let is_before = |one: &&Record| {
        let last = last.insert((one.process, one.key), one.offset);
        last.is_some_and(|last| one.offset <= last)
    };
    log.sent.iter().filter(is_before).collect()
}

/// The polled records that are out of order: within an operation, and between two of a process.
#[derive(Default)]
struct Order<'b> {
    back: [Vec<&'b Record>; 2],
    skipped: [Vec<&'b Record>; 2],
}

impl<'b> Order<'b> {
    /// `places` are all records in order of key and offset.
    fn of(log: &'b Log, places: &[&Record]) -> Self {
        let mut order = Self::default();
        let mut last: FxHashMap<(i64, usize), &Record> = FxHashMap::default();
        for one in &log.polled {
            let Some(before) = last.insert((one.process, one.key), one) else {
                continue;
            };
            let is_external = before.row != one.row;
            let is_same = one.assignment.is_some() && before.assignment == one.assignment;
            if is_external && !is_same {
                continue;
            }
            let which = usize::from(is_external);
            if one.offset <= before.offset {
                order.back[which].push(one);
                continue;
            }
            let is_up_to = |other: &&Record| (other.key, other.offset) <= (one.key, before.offset);
            let next = places.get(places.partition_point(is_up_to));
            if next.is_some_and(|next| next.offset < one.offset) {
                order.skipped[which].push(one);
            }
        }
        order
    }
}
