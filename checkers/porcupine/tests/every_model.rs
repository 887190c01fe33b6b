//! Every model against a walk through all orders, on small random histories.
//!
//! The histories are valid ones, most of them then damaged. ORACLE_HISTORIES sets how many there are for each model.

mod random;

use std::collections::BTreeSet;

use pyporcupine::objects::{decide_all, Kind};
use pyporcupine::order::{Consistency, Timing, NEVER};
use pyporcupine::request::Request;
use pyporcupine::rows::{Datum, Field, Rows};
use pyporcupine::verdict::{Status, Verdict};
use random::Rng;

fn one_in(rng: &mut Rng, n: u64) -> bool {
    rng.below(n) == 0
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Ints(Vec<i64>),
}

impl Value {
    fn datum(&self) -> Datum<'_> {
        match self {
            Value::Null => Datum::Null,
            Value::Bool(flag) => Datum::Bool(*flag),
            Value::Int(value) => Datum::Int(*value),
            Value::Text(text) => Datum::Text(text),
            Value::Ints(values) => Datum::Ints(values),
        }
    }

    fn int(&self) -> i64 {
        match self {
            Value::Int(value) => *value,
            other => panic!("{other:?}"),
        }
    }

    fn ints(&self) -> Vec<i64> {
        match self {
            Value::Ints(values) => values.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Clone, Debug)]
struct Row {
    at: Timing,
    f: &'static str,
    value: Value,
    output: Value,
}

struct Table(Vec<Row>);

impl Rows for Table {
    fn timing(&self, row: usize) -> Timing {
        self.0[row].at
    }
    fn f(&self, row: usize) -> &str {
        self.0[row].f
    }
    fn datum(&self, row: usize, field: Field) -> Datum<'_> {
        match field {
            Field::Value => self.0[row].value.datum(),
            Field::Output => self.0[row].output.datum(),
            Field::Expected => Datum::Null,
        }
    }
}

fn initial(kind: Kind) -> Value {
    match kind {
        Kind::Register | Kind::CasRegister => Value::Null,
        Kind::KeyValue => Value::Text(String::new()),
        Kind::Counter | Kind::Mutex => Value::Int(0),
        _ => Value::Ints(Vec::new()),
    }
}

/// What the operation may return in the state, and the state after: the specification of each model.
fn outcomes(kind: Kind, state: &Value, row: &Row) -> Vec<(Value, Value)> {
    let value = &row.value;
    let same = |output: Value| vec![(output, state.clone())];
    match (kind, row.f) {
        (Kind::Register | Kind::CasRegister, "read") | (Kind::KeyValue, "get") => {
            same(state.clone())
        }
        (Kind::AppendLog | Kind::Counter, "read") => same(state.clone()),
        (Kind::Set, "read") => same(state.clone()),
        (Kind::Register | Kind::CasRegister, "write") | (Kind::KeyValue, "put") => {
            vec![(Value::Null, value.clone())]
        }
        (Kind::CasRegister, "cas") => {
            let pair = value.ints();
            if *state == Value::Int(pair[0]) {
                return vec![(Value::Bool(true), Value::Int(pair[1]))];
            }
            same(Value::Bool(false))
        }
        (Kind::KeyValue, "append") => {
            vec![(Value::Null, Value::Text(state.text() + &value.text()))]
        }
        (Kind::AppendLog, "append") => {
            let mut log = state.ints();
            log.push(value.int());
            vec![(Value::Null, Value::Ints(log))]
        }
        (Kind::Set, "add") => {
            let mut set: BTreeSet<i64> = state.ints().into_iter().collect();
            set.insert(value.int());
            vec![(Value::Null, Value::Ints(set.into_iter().collect()))]
        }
        (Kind::Counter, "add") => {
            let sum = Value::Int(state.int() + value.int());
            vec![(Value::Null, sum.clone()), (sum.clone(), sum)]
        }
        (Kind::Queue | Kind::FifoQueue, "enqueue") => {
            let mut queue = state.ints();
            queue.push(value.int());
            vec![(Value::Null, Value::Ints(queue))]
        }
        (Kind::Queue | Kind::FifoQueue, "dequeue") => {
            let queue = state.ints();
            if queue.is_empty() {
                return same(Value::Null);
            }
            let most = if kind == Kind::FifoQueue {
                1
            } else {
                queue.len()
            };
            let take = |i: usize| {
                let mut rest = queue.clone();
                let taken = rest.remove(i);
                (Value::Int(taken), Value::Ints(rest))
            };
            (0..most).map(take).collect()
        }
        (Kind::Mutex, "acquire") if state.int() == 0 => vec![(Value::Null, Value::Int(1))],
        (Kind::Mutex, "release") if state.int() == 1 => vec![(Value::Null, Value::Int(0))],
        (Kind::Mutex, _) => vec![],
        other => panic!("{other:?}"),
    }
}

/// What the operation did return in the state, if that is possible: the states after.
fn after(kind: Kind, state: &Value, row: &Row) -> Vec<Value> {
    let lost = row.at.ret == NEVER;
    let fits = |output: &Value| match kind {
        Kind::Set => {
            let mut read = row.output.clone();
            if let Value::Ints(values) = &mut read {
                values.sort_unstable();
            }
            lost || *output == read
        }
        _ => lost || *output == row.output,
    };
    let all = outcomes(kind, state, row).into_iter();
    all.filter(|(output, _)| fits(output))
        .map(|(_, after)| after)
        .collect()
}

fn precedes(a: &Row, b: &Row, consistency: Consistency) -> bool {
    match consistency {
        Consistency::Linearizable => a.at.ret < b.at.call,
        Consistency::Sequential => {
            let key = |r: &Row| (r.at.call, r.at.ret, r.at.row);
            a.at.process == b.at.process && a.at.ret != NEVER && key(a) < key(b)
        }
    }
}

/// Tries every order and, for calls that never returned, every choice of whether they took effect.
fn legal(kind: Kind, rows: &[Row], taken: u32, state: &Value, consistency: Consistency) -> bool {
    let left = |i: usize| taken & (1 << i) == 0;
    if (0..rows.len()).all(|i| !left(i) || rows[i].at.ret == NEVER) {
        return true;
    }
    (0..rows.len()).any(|i| {
        let free = |j: usize| j == i || !left(j) || !precedes(&rows[j], &rows[i], consistency);
        left(i)
            && (0..rows.len()).all(free)
            && after(kind, state, &rows[i])
                .iter()
                .any(|next| legal(kind, rows, taken | 1 << i, next, consistency))
    })
}

/// An operation of the model, not yet with its output.
fn operation(kind: Kind, rng: &mut Rng) -> (&'static str, Value) {
    let int = |rng: &mut Rng| Value::Int(rng.below(3) as i64);
    let many = |rng: &mut Rng| Value::Int(rng.below(12) as i64);
    let text = |rng: &mut Rng| Value::Text((*pick(rng, &["a", "b", "aa"])).to_owned());
    match kind {
        Kind::Set => match rng.below(2) {
            0 => ("read", Value::Null),
            _ => ("add", Value::Int(rng.below(6) as i64)),
        },
        Kind::Register => match rng.below(2) {
            0 => ("read", Value::Null),
            _ => ("write", Value::Int(rng.below(6) as i64)),
        },
        Kind::CasRegister => match rng.below(3) {
            0 => ("read", Value::Null),
            1 => ("write", int(rng)),
            _ => {
                let pair = vec![rng.below(3) as i64, rng.below(3) as i64];
                ("cas", Value::Ints(pair))
            }
        },
        Kind::KeyValue => match rng.below(5) {
            0 | 1 => ("get", Value::Null),
            2 => ("put", text(rng)),
            _ => ("append", text(rng)),
        },
        Kind::AppendLog => match rng.below(2) {
            0 => ("read", Value::Null),
            _ => ("append", many(rng)),
        },
        Kind::Counter => match rng.below(2) {
            0 => ("read", Value::Null),
            _ => ("add", Value::Int(rng.below(4) as i64 - 1)),
        },
        Kind::Queue | Kind::FifoQueue => match rng.below(2) {
            0 => ("dequeue", Value::Null),
            _ => ("enqueue", many(rng)),
        },
        Kind::Mutex => (*pick(rng, &["acquire", "release"]), Value::Null),
    }
}

/// A valid history: every operation takes effect at a time between its call and its return.
fn valid(kind: Kind, rng: &mut Rng) -> Vec<Row> {
    let count = 1 + rng.below(6) as usize;
    let processes = 1 + rng.below(4) as usize;
    let span = 2 + rng.below(12);
    let lost = one_in(rng, 3);
    let mut free_at = vec![0; processes];
    let mut rows: Vec<(i64, Row)> = Vec::new();
    for _ in 0..count {
        let p = rng.below(processes as u64) as usize;
        if free_at[p] == NEVER {
            continue;
        }
        let call = free_at[p] + rng.below(span / 2 + 1) as i64;
        let end = call + rng.below(span) as i64;
        let ret = if lost && one_in(rng, 4) { NEVER } else { end };
        free_at[p] = ret;
        let (f, value) = operation(kind, rng);
        let at = Timing {
            row: 0,
            process: p as i64,
            call,
            ret,
        };
        let row = Row {
            at,
            f,
            value,
            output: Value::Null,
        };
        rows.push((call + rng.below((end - call + 1) as u64) as i64, row));
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&i| rows[i].0);
    let mut state = initial(kind);
    for i in order {
        let row = &mut rows[i].1;
        let all = outcomes(kind, &state, row);
        if all.is_empty() || (row.at.ret == NEVER && one_in(rng, 2)) {
            continue; // lost before it took effect, or impossible and so not valid after all
        }
        let (output, next) = pick(rng, &all).clone();
        if row.at.ret != NEVER {
            row.output = output;
        }
        state = next;
    }
    let rows = rows.into_iter().enumerate();
    rows.map(|(i, (_, mut row))| {
        row.at.row = i;
        row
    })
    .collect()
}

/// Swaps two outputs of one kind, or moves a return or a call.
fn damage(kind: Kind, rows: &mut [Row], rng: &mut Rng) {
    let i = rng.below(rows.len() as u64) as usize;
    let j = rng.below(rows.len() as u64) as usize;
    match rng.below(4) {
        0 | 1 if rows[i].f == rows[j].f && rows[i].at.ret != NEVER && rows[j].at.ret != NEVER => {
            let output = rows[i].output.clone();
            rows[i].output = std::mem::replace(&mut rows[j].output, output);
        }
        2 if rows[i].at.ret != NEVER => rows[i].at.ret = rows[i].at.call,
        _ => {
            let state = initial(kind);
            let returned = rows[i].at.ret != NEVER;
            if let (true, "read" | "get" | "dequeue") = (returned, rows[i].f) {
                rows[i].output = match (kind, rng.below(2)) {
                    (Kind::Queue | Kind::FifoQueue, 0) => Value::Null,
                    (_, 0) => state,
                    (Kind::AppendLog | Kind::Set, _) => {
                        let count = rng.below(3);
                        Value::Ints((0..count).map(|_| rng.below(3) as i64).collect())
                    }
                    (Kind::KeyValue, _) => Value::Text("ab".to_owned()),
                    _ => Value::Int(rng.below(4) as i64),
                };
            }
        }
    }
}

fn decide(kind: Kind, rows: &[Row], consistency: Consistency, linearization: bool) -> Verdict {
    let object: Vec<u32> = (0..rows.len() as u32).collect();
    let request = Request {
        linearization,
        ..Request::plain(consistency)
    };
    // Twice, as two objects of one history.
    let count = rows.len();
    let mut table = [rows, rows].concat();
    table[count..]
        .iter_mut()
        .for_each(|row| row.at.row += count);
    let other = object.iter().map(|row| row + count as u32).collect();
    let initial = kind.initial();
    let verdicts = decide_all(&Table(table), &[object, other], kind, &initial, &request, 1);
    let mut verdicts = verdicts.expect("good rows");
    let witness: Vec<usize> = verdicts[0].witness.iter().map(|row| row + count).collect();
    assert_eq!(
        (verdicts[0].status, &witness),
        (verdicts[1].status, &verdicts[1].witness)
    );
    verdicts.remove(0)
}

/// The order explains the history.
fn assert_order(kind: Kind, rows: &[Row], order: &[usize], consistency: Consistency) {
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

/// What the witness names is illegal by itself, and legal when any of it is dropped.
///
/// Reads of a set, and of a log whose values are all different, are restricted to what is added; what puts
/// a value into a FIFO queue goes together with what takes it out, where values are different. Elsewhere what can then not be in any order is dropped as well: it would be illegal for another reason.
fn assert_witness(kind: Kind, rows: &[Row], verdict: &Verdict, consistency: Consistency) {
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
            legal(&fair(rest)),
            "{row} can be dropped, {consistency:?}: {rows:?} {verdict:?}"
        );
    }
}

/// Of an operation of a queue, but for a dequeue that found nothing.
fn value_of(row: &Row) -> Option<&Value> {
    [&row.value, &row.output]
        .into_iter()
        .find(|value| **value != Value::Null)
}

/// Reads only what is added.
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

/// Without what cannot be after any of the others in any order, until there is nothing such.
fn possible(kind: Kind, mut part: Vec<Row>) -> Vec<Row> {
    loop {
        let fits = |at: &usize| comes(kind, &part, 1 << at, &initial(kind), *at);
        let kept: Vec<Row> = (0..part.len())
            .filter(fits)
            .map(|at| part[at].clone())
            .collect();
        if kept.len() == part.len() {
            return part;
        }
        part = kept;
    }
}

/// Whether some of those that are not taken lead to a state in which the operation can be.
fn comes(kind: Kind, rows: &[Row], taken: u32, state: &Value, at: usize) -> bool {
    !after(kind, state, &rows[at]).is_empty()
        || (0..rows.len()).filter(|i| taken & (1 << i) == 0).any(|i| {
            let nexts = after(kind, state, &rows[i]);
            nexts
                .iter()
                .any(|next| comes(kind, rows, taken | 1 << i, next, at))
        })
}

fn agree(kind: Kind, seed: u64) {
    let histories =
        std::env::var("ORACLE_HISTORIES").map_or(20_000, |n| n.parse().expect("a number"));
    let mut rng = Rng::new(seed);
    let mut invalid = 0;
    for _ in 0..histories {
        let mut rows = valid(kind, &mut rng);
        for _ in 0..rng.below(3) {
            damage(kind, &mut rows, &mut rng);
        }
        for consistency in [Consistency::Linearizable, Consistency::Sequential] {
            let expected = legal(kind, &rows, 0, &initial(kind), consistency);
            let verdict = decide(kind, &rows, consistency, false);
            let status = if expected {
                Status::Valid
            } else {
                Status::Invalid
            };
            assert_eq!(
                verdict.status, status,
                "{consistency:?} {rows:#?} {verdict:?}"
            );
            if expected {
                let verdict = decide(kind, &rows, consistency, true);
                let lost_reads =
                    |i: &usize| !matches!(rows[*i].f, "read" | "get") || rows[*i].at.ret != NEVER;
                let order: Vec<usize> = verdict.order.into_iter().filter(lost_reads).collect();
                assert_order(kind, &rows, &order, consistency);
            }
            if !expected {
                invalid += 1;
                assert_witness(kind, &rows, &verdict, consistency);
            }
        }
    }
    println!(
        "{kind:?}: {} decisions, {invalid} invalid, no disagreement",
        2 * histories
    );
    assert!(invalid > histories / 20, "{invalid} of {histories}");
}

#[test]
fn set() {
    agree(Kind::Set, 1);
}

#[test]
fn register() {
    agree(Kind::Register, 2);
}

#[test]
fn cas_register() {
    agree(Kind::CasRegister, 3);
}

#[test]
fn key_value() {
    agree(Kind::KeyValue, 4);
}

#[test]
fn append_log() {
    agree(Kind::AppendLog, 5);
}

#[test]
fn counter() {
    agree(Kind::Counter, 6);
}

#[test]
fn queue() {
    agree(Kind::Queue, 7);
}

#[test]
fn fifo_queue() {
    agree(Kind::FifoQueue, 8);
}

#[test]
fn mutex() {
    agree(Kind::Mutex, 9);
}
