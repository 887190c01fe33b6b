//! Generates small random histories, valid ones and damaged ones.

use pyporcupine::objects::Kind;
use pyporcupine::order::{Timing, NEVER};

use super::random::Rng;
use super::rows::{Row, Value};
use super::specification::{initial, is_container, outcomes, takes};

fn one_in(rng: &mut Rng, n: u64) -> bool {
    rng.below(n) == 0
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

/// Which histories of a model to generate.
#[derive(Clone, Copy)]
pub struct Shape {
    pub kind: Kind,
    pub operations: u64,
    /// One in so many histories has calls that never returned.
    pub lost_in: u64,
    /// The number that every addition adds.
    pub addend: Option<i64>,
    /// Whether a queue's values are all different.
    pub distinct: bool,
}

impl Shape {
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            operations: 6,
            lost_in: 3,
            addend: None,
            distinct: false,
        }
    }
}

/// An operation of the model, without its output; `number` is a different one for each.
fn operation(shape: Shape, number: i64, rng: &mut Rng) -> (&'static str, Value) {
    let kind = shape.kind;
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
            _ => {
                let any = rng.below(4) as i64 - 1;
                ("add", Value::Int(shape.addend.unwrap_or(any)))
            }
        },
        _ if is_container(kind) => {
            let (puts, takes): (&[&'static str], &[&'static str]) = match kind {
                Kind::Stack => (&["push"], &["pop"]),
                Kind::PriorityQueue => (&["insert"], &["delete-min"]),
                Kind::Deque => (&["push-front", "push-back"], &["pop-front", "pop-back"]),
                _ => (&["enqueue"], &["dequeue"]),
            };
            let value = match shape.distinct {
                // In another order than that of the calls.
                true => Value::Int(number * 5 % 11),
                false => many(rng),
            };
            match rng.below(2) {
                0 => (*pick(rng, takes), Value::Null),
                _ => (*pick(rng, puts), value),
            }
        }
        Kind::Mutex => (*pick(rng, &["acquire", "release"]), Value::Null),
        Kind::MultiRegister => {
            let count = 1 + rng.below(3);
            let step = |_| {
                let (reads, register) = (one_in(rng, 2), rng.below(3) as i64);
                let written = rng.below(3) as i64;
                (reads, register, (!reads).then_some(written))
            };
            ("txn", Value::Txn((0..count).map(step).collect()))
        }
        other => panic!("{other:?}"),
    }
}

/// Generates a valid history: every operation takes effect at a time between its call and its
/// return.
pub fn valid(shape: Shape, rng: &mut Rng) -> Vec<Row> {
    let kind = shape.kind;
    let count = 1 + rng.below(shape.operations) as i64;
    let processes = 1 + rng.below(4) as usize;
    let span = 2 + rng.below(12);
    let lost = one_in(rng, shape.lost_in);
    let mut free_at = vec![0; processes];
    let mut rows: Vec<(i64, Row)> = Vec::new();
    for number in 0..count {
        let p = rng.below(processes as u64) as usize;
        if free_at[p] == NEVER {
            continue;
        }
        let call = free_at[p] + rng.below(span / 2 + 1) as i64;
        let end = call + rng.below(span) as i64;
        let ret = if lost && one_in(rng, 4) { NEVER } else { end };
        free_at[p] = ret;
        let (f, value) = operation(shape, number, rng);
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
            expected: Value::Null,
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
pub fn damage(kind: Kind, rows: &mut [Row], rng: &mut Rng) {
    let i = rng.below(rows.len() as u64) as usize;
    let j = rng.below(rows.len() as u64) as usize;
    match rng.below(4) {
        0 | 1 if kind == Kind::MultiRegister => {
            if let Value::Txn(steps) = &mut rows[i].output {
                let at = rng.below(steps.len() as u64) as usize;
                if steps[at].0 {
                    steps[at].2 = Some(rng.below(4) as i64);
                }
            }
        }
        0 | 1 if rows[i].f == rows[j].f && rows[i].at.ret != NEVER && rows[j].at.ret != NEVER => {
            let output = rows[i].output.clone();
            rows[i].output = std::mem::replace(&mut rows[j].output, output);
        }
        2 if rows[i].at.ret != NEVER => rows[i].at.ret = rows[i].at.call,
        _ => {
            let state = initial(kind);
            let returned = rows[i].at.ret != NEVER;
            let finds = takes(&rows[i]) || matches!(rows[i].f, "read" | "get");
            if returned && finds {
                rows[i].output = match (kind, rng.below(2)) {
                    (_, 0) if is_container(kind) => Value::Null,
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
