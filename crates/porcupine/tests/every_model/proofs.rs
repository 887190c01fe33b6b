//! Checks what a verdict shows: an order or a witness.

use std::collections::BTreeSet;

use pyporcupine::objects::Kind;
use pyporcupine::order::{Consistency, NEVER};
use pyporcupine::verdict::Verdict;

use super::rows::{Row, Value};
use super::specification::{
    after, initial, is_container, is_possible, legal, legal_until, possible, precedes, puts, takes,
};

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

/// Checks what a search shows as in [`assert_found`], and that any other witness is illegal by
/// itself, and legal if any of its operations is dropped.
///
/// Reads of a set, and of a log whose values are all different, are restricted to added values. In
/// a queue, an enqueue is dropped with its dequeue, and a dequeue that never returned is none to drop:
/// with all of those that the history has, the witness must be illegal. In other models, operations that are then
/// impossible in any order are dropped as well, because they would be illegal for another reason.
pub fn assert_witness(kind: Kind, rows: &[Row], verdict: &Verdict, consistency: Consistency) {
    let part: Vec<Row> = verdict.witness.iter().map(|&i| rows[i].clone()).collect();
    assert!(!part.is_empty());
    if verdict.reason.starts_with("no o") {
        assert_found(kind, rows, verdict, consistency);
        return;
    }
    if let Some(addend) = equal_addend(kind, rows) {
        assert_sums(rows, verdict, addend);
        return;
    }
    let given = rows.iter().filter(|row| row.f == "append" || puts(row));
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
    let is_lost = |row: &Row| takes(row) && row.at.ret == NEVER;
    let mut undone = whole;
    undone.retain(|row| !is_lost(row));
    undone.extend(rows.iter().filter(|row| is_lost(row)).cloned());
    assert!(!legal(&undone), "{consistency:?} {rows:?} {verdict:?}");
    for dropped in (0..part.len()).filter(|&at| !is_lost(&part[at])) {
        let mut rest = without(&part, &part[dropped]);
        if let Some(partner) = partner(&part, &part[dropped]) {
            rest = without(&rest, partner);
        }
        let row = verdict.witness[dropped];
        assert!(
            legal(&fair(rest)),
            "{row} can be dropped, {consistency:?}: {rows:?} {verdict:?}"
        );
    }
}

/// Checks that the witness proves that a row cannot be placed, and does not without any one of its
/// operations; or that nothing makes the row possible.
fn assert_found(kind: Kind, rows: &[Row], verdict: &Verdict, consistency: Consistency) {
    let stuck = &rows[verdict.steps[0].from];
    let until = match consistency {
        Consistency::Linearizable => stuck.at.ret,
        Consistency::Sequential => NEVER - 1,
    };
    let known = |row: &&Row| row.at.call <= until;
    let known: Vec<Row> = rows.iter().filter(known).cloned().collect();
    let part: Vec<Row> = verdict.witness.iter().map(|&i| rows[i].clone()).collect();
    if verdict.reason.starts_with("no operations") {
        let others = without(&known, stuck);
        assert!(verdict.witness.contains(&stuck.at.row), "{verdict:?}");
        assert!(!is_possible(kind, stuck, &others), "{rows:?} {verdict:?}");
        return;
    }
    let legal = |part: &[Row]| {
        legal_until(
            (until, stuck.at.row),
            kind,
            part,
            0,
            &initial(kind),
            consistency,
        )
    };
    let can = |part: &[Row], row: &Row| is_possible(kind, row, &without(part, row));
    let proves = |part: &[Row]| {
        let failing = match consistency {
            Consistency::Linearizable => legal(&without(part, stuck)) && can(part, stuck),
            Consistency::Sequential => {
                let mut returned = part.iter().filter(|row| row.at.ret != NEVER);
                returned.all(|row| can(part, row))
            }
        };
        let there = part.iter().any(|row| row.at.row == stuck.at.row);
        there && failing && !legal(part) && are_taken_out(kind, &known, part)
    };
    assert!(proves(&part), "{consistency:?} {rows:?} {verdict:?}");
    for row in &part {
        assert!(
            !proves(&without(&part, row)),
            "{row:?} can be dropped, {consistency:?}: {rows:?} {verdict:?}"
        );
    }
}

fn without(part: &[Row], gone: &Row) -> Vec<Row> {
    let others = part.iter().filter(|row| row.at.row != gone.at.row);
    others.cloned().collect()
}

/// Whether a part of a queue's history leaves no value in the queue that the history took out.
fn are_taken_out(kind: Kind, rows: &[Row], part: &[Row]) -> bool {
    let left = |rows: &[Row], value: &Value| {
        let put_in = rows.iter().filter(|r| puts(r) && r.value == *value);
        let taken = rows.iter().filter(|r| takes(r) && r.output == *value);
        put_in.count().saturating_sub(taken.count())
    };
    let mut enqueues = part.iter().filter(|row| is_container(kind) && puts(row));
    enqueues.all(|row| left(part, &row.value) <= left(rows, &row.value))
}

/// Returns the dequeue of an enqueue and the reverse: the first value that was put in is the first
/// that is taken out.
fn partner<'a>(part: &'a [Row], row: &Row) -> Option<&'a Row> {
    let of = |put: bool, value: &Value| -> Vec<&'a Row> {
        let is_of = |row: &&Row| match put {
            true => puts(row) && row.value == *value,
            false => takes(row) && row.output == *value,
        };
        let mut rows: Vec<&Row> = part.iter().filter(is_of).collect();
        rows.sort_by_key(|row| match put {
            true => (row.at.ret, row.at.row),
            false => (row.at.call, row.at.row),
        });
        rows
    };
    let value = match puts(row) {
        true => &row.value,
        false if takes(row) => &row.output,
        false => return None,
    };
    let (own, others) = (of(puts(row), value), of(!puts(row), value));
    let place = own.iter().position(|own| own.at.row == row.at.row)?;
    others.get(place).copied()
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

/// Returns what all additions of a counter's history add, if it is the same and not 0.
fn equal_addend(kind: Kind, rows: &[Row]) -> Option<i64> {
    let adds = rows
        .iter()
        .filter(|row| kind == Kind::Counter && row.f == "add");
    let mut addends: Vec<i64> = adds.map(|row| row.value.int()).collect();
    addends.dedup();
    match addends.as_slice() {
        &[addend] if addend != 0 => Some(addend),
        _ => None,
    }
}

/// Checks the witness of a counter whose additions are equal: it is illegal whatever number of
/// further additions happened, and not without any one of its operations; or too few additions were
/// there, even if those that are not in the witness had returned nothing.
fn assert_sums(rows: &[Row], verdict: &Verdict, addend: i64) {
    let part: Vec<Row> = verdict.witness.iter().map(|&i| rows[i].clone()).collect();
    if verdict.reason.starts_with("too few") {
        let others = rows
            .iter()
            .filter(|row| !verdict.witness.contains(&row.at.row));
        let mut all = part;
        all.extend(others.filter(|row| row.f == "add").cloned().map(|row| Row {
            output: Value::Null,
            ..row
        }));
        assert!(!is_legal_sum(&all, 0, 0, addend, 0), "{rows:?} {verdict:?}");
        return;
    }
    assert!(
        !is_legal_sum(&part, 0, 0, addend, 12),
        "{rows:?} {verdict:?}"
    );
    for row in &part {
        let rest = without(&part, row);
        assert!(
            is_legal_sum(&rest, 0, 0, addend, 12),
            "{row:?} can be dropped: {rows:?} {verdict:?}"
        );
    }
}

/// Whether the operations that were not taken have an order from this sum on, with up to `more`
/// further additions.
fn is_legal_sum(rows: &[Row], taken: u32, sum: i64, addend: i64, more: u32) -> bool {
    let left = |i: usize| taken & (1 << i) == 0;
    if (0..rows.len()).all(|i| !left(i) || rows[i].at.ret == NEVER) {
        return true;
    }
    let is_next = |i: usize| {
        let is_free = |j| !left(j) || !precedes(&rows[j], &rows[i], Consistency::Linearizable);
        left(i) && (0..rows.len()).all(is_free)
    };
    let goes_on = |i: usize| {
        let mut nexts = after(Kind::Counter, &Value::Int(sum), &rows[i]).into_iter();
        is_next(i) && nexts.any(|next| is_legal_sum(rows, taken | 1 << i, next.int(), addend, more))
    };
    (0..rows.len()).any(goes_on)
        || (more > 0 && is_legal_sum(rows, taken, sum + addend, addend, more - 1))
}
