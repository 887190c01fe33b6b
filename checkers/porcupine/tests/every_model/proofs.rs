//! Checks what a verdict shows: an order or a witness.

use std::collections::BTreeSet;

use pyporcupine::objects::Kind;
use pyporcupine::order::{Consistency, NEVER};
use pyporcupine::verdict::Verdict;

use super::rows::{Row, Value};
use super::specification::{after, initial, legal, possible, precedes};

/// Checks that the order explains the history.
pub fn assert_order(kind: Kind, rows: &[Row], order: &[usize], consistency: Consistency) {
    let mut states = vec![initial(kind)];
    for &row in order {
        states = states
            .iter()
            .flat_map(|s| after(kind, s, &rows[row]))
            .collect();
    }
    assert!(!states.is_empty(), "{rows:?} {order:?}");
    for (i, row) in rows.iter().enumerate().filter(|(_, r)| r.at.ret != NEVER) {
        assert_eq!(
            order.iter().filter(|&&o| o == i).count(),
            1,
            "{row:?} {order:?}"
        );
    }
    for (i, &b) in order.iter().enumerate() {
        let right = |&a: &usize| !precedes(&rows[b], &rows[a], consistency);
        assert!(order[..i].iter().all(right), "{rows:?} {order:?}");
    }
}

/// Checks that the witness is illegal by itself, and legal if any of its operations is dropped.
///
/// Reads of a set, and of a log whose values are all different, are restricted to added values. In
/// a FIFO queue whose values are all different, an enqueue is dropped with its dequeue. In other
/// models, operations that are then impossible in any order are dropped as well, because they would
/// be illegal for another reason.
pub fn assert_witness(kind: Kind, rows: &[Row], verdict: &Verdict, consistency: Consistency) {
    let part: Vec<Row> = verdict.witness.iter().map(|&i| rows[i].clone()).collect();
    assert!(!part.is_empty());
    let given = rows
        .iter()
        .filter(|row| ["append", "enqueue"].contains(&row.f));
    let values: Vec<&Value> = given.map(|row| &row.value).collect();
    let distinct = values.iter().collect::<BTreeSet<_>>().len() == values.len();
    let restricted = kind == Kind::Set || (kind == Kind::AppendLog && distinct);
    let fair = |part: Vec<Row>| match restricted {
        true => restrict(part),
        false => possible(kind, part),
    };
    let whole = match restricted && part.len() > 1 {
        true => restrict(part.clone()),
        false => part.clone(),
    };
    let legal = |part: &[Row]| legal(kind, part, 0, &initial(kind), consistency);
    assert!(!legal(&whole), "{consistency:?} {rows:?} {verdict:?}");
    for dropped in 0..part.len() {
        let mut rest = part.clone();
        let gone = rest.remove(dropped);
        if kind == Kind::FifoQueue && distinct {
            rest.retain(|row| value_of(row) != value_of(&gone));
        }
        let row = verdict.witness[dropped];
        assert!(
            without(rest, &gone).any(|rest| legal(&fair(rest))),
            "{row} can be dropped, {consistency:?}: {rows:?} {verdict:?}"
        );
    }
    if kind == Kind::Queue {
        assert_taken_out(rows, &part, verdict, consistency);
    }
}

/// Returns the rest, and the rest without any one enqueue of the value that `gone` dequeued.
fn without(rest: Vec<Row>, gone: &Row) -> impl Iterator<Item = Vec<Row>> {
    let taken = Some(&gone.output).filter(|_| gone.f == "dequeue");
    let put_in = |row: &Row| row.f == "enqueue" && Some(&row.value) == taken;
    let places: Vec<usize> = (0..rest.len()).filter(|&at| put_in(&rest[at])).collect();
    let whole = rest.clone();
    let less = places.into_iter().map(move |at| {
        let mut less = rest.clone();
        less.remove(at);
        less
    });
    std::iter::once(whole).chain(less)
}

/// Checks, if a queue was found empty, that the witness does not show dequeued values as still in
/// it.
fn assert_taken_out(rows: &[Row], part: &[Row], verdict: &Verdict, consistency: Consistency) {
    let empty = |row: &Row| row.f == "dequeue" && row.at.ret != NEVER && row.output == Value::Null;
    let Some(stuck) = verdict.stuck.filter(|_| rows.iter().any(empty)) else {
        return;
    };
    let looked_at =
        |row: &&Row| consistency == Consistency::Sequential || row.at.call <= rows[stuck].at.ret;
    let all: Vec<Row> = rows.iter().filter(looked_at).cloned().collect();
    for row in part.iter().filter(|row| row.f == "enqueue") {
        let left = |rows: &[Row]| {
            let put_in = rows
                .iter()
                .filter(|r| r.f == "enqueue" && r.value == row.value);
            let taken = rows.iter().filter(|r| r.output == row.value);
            put_in.count().saturating_sub(taken.count())
        };
        assert!(
            left(part) <= left(&all),
            "{row:?} was taken out: {rows:?} {verdict:?}"
        );
    }
}

/// Returns the value of a queue operation, unless it is a dequeue that found nothing.
fn value_of(row: &Row) -> Option<&Value> {
    [&row.value, &row.output]
        .into_iter()
        .find(|value| **value != Value::Null)
}

/// Restricts reads to added values.
fn restrict(mut part: Vec<Row>) -> Vec<Row> {
    let adds = part.iter().filter(|r| r.f == "add" || r.f == "append");
    let added: Vec<i64> = adds.map(|row| row.value.int()).collect();
    for row in &mut part {
        if let Value::Ints(values) = &mut row.output {
            values.retain(|value| added.contains(value));
        }
    }
    part
}
