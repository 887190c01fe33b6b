//! Specifies each model, and decides by brute force whether any order of a few operations is
//! allowed.

use std::collections::BTreeSet;

use pyporcupine::objects::Kind;
use pyporcupine::order::{Consistency, NEVER};

use super::rows::{Row, Value};

pub fn initial(kind: Kind) -> Value {
    match kind {
        Kind::Register | Kind::CasRegister => Value::Null,
        Kind::KeyValue => Value::Text(String::new()),
        Kind::Counter | Kind::Mutex => Value::Int(0),
        Kind::MultiRegister => Value::Ints(vec![0; 3]),
        _ => Value::Ints(Vec::new()),
    }
}

/// Returns what the operation may return in the state, and the state after: the specification of
/// each model.
pub fn outcomes(kind: Kind, state: &Value, row: &Row) -> Vec<(Value, Value)> {
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
        (Kind::Stack | Kind::PriorityQueue | Kind::Deque, f) => {
            let mut row = state.ints();
            let put = |row: Vec<i64>| vec![(Value::Null, Value::Ints(row))];
            match f {
                "push-front" => row.insert(0, value.int()),
                "push" | "push-back" | "insert" => row.push(value.int()),
                _ if row.is_empty() => return same(Value::Null),
                _ => {
                    let least = row.iter().min().expect("not empty");
                    let at = match f {
                        "pop-front" => 0,
                        "delete-min" => row.iter().position(|v| v == least).expect("is there"),
                        _ => row.len() - 1,
                    };
                    let taken = Value::Int(row.remove(at));
                    return vec![(taken, Value::Ints(row))];
                }
            }
            put(row)
        }
        (Kind::Mutex, "acquire") if state.int() == 0 => vec![(Value::Null, Value::Int(1))],
        (Kind::Mutex, "release") if state.int() == 1 => vec![(Value::Null, Value::Int(0))],
        (Kind::Mutex, _) => vec![],
        (Kind::MultiRegister, "txn") => {
            let (Value::Txn(mut steps), mut state) = (value.clone(), state.ints()) else {
                panic!("{value:?}");
            };
            for (reads, register, value) in &mut steps {
                let place = &mut state[*register as usize];
                match *reads {
                    true => *value = Some(*place),
                    false => *place = value.expect("a write"),
                }
            }
            vec![(Value::Txn(steps), Value::Ints(state))]
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the states after the operation, if its actual result is possible in the state.
pub fn after(kind: Kind, state: &Value, row: &Row) -> Vec<Value> {
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

pub fn precedes(a: &Row, b: &Row, consistency: Consistency) -> bool {
    match consistency {
        Consistency::Linearizable => a.at.ret < b.at.call,
        Consistency::Sequential => {
            let key = |r: &Row| (r.at.call, r.at.ret, r.at.row);
            a.at.process == b.at.process && a.at.ret != NEVER && key(a) < key(b)
        }
    }
}

/// Tries every order and, for calls that never returned, every choice of whether they took effect.
pub fn legal(
    kind: Kind,
    rows: &[Row],
    taken: u32,
    state: &Value,
    consistency: Consistency,
) -> bool {
    legal_until((NEVER - 1, 0), kind, rows, taken, state, consistency)
}

/// Does the same for what had returned by a time, of the rows up to one if the times are equal; the
/// rest may have taken effect.
pub fn legal_until(
    until: (i64, usize),
    kind: Kind,
    rows: &[Row],
    taken: u32,
    state: &Value,
    consistency: Consistency,
) -> bool {
    let left = |i: usize| taken & (1 << i) == 0;
    if (0..rows.len()).all(|i| !left(i) || (rows[i].at.ret, rows[i].at.row) > until) {
        return true;
    }
    (0..rows.len()).any(|i| {
        let free = |j: usize| j == i || !left(j) || !precedes(&rows[j], &rows[i], consistency);
        let legal = |next: &Value| {
            let taken = taken | 1 << i;
            legal_until(until, kind, rows, taken, next, consistency)
        };
        left(i) && (0..rows.len()).all(free) && after(kind, state, &rows[i]).iter().any(legal)
    })
}

/// Whether the row is possible after some of the others, in whatever order.
pub fn is_possible(kind: Kind, row: &Row, others: &[Row]) -> bool {
    let mut open = vec![(0u32, initial(kind))];
    let mut seen: BTreeSet<(u32, Value)> = open.iter().cloned().collect();
    while let Some((taken, state)) = open.pop() {
        if !after(kind, &state, row).is_empty() {
            return true;
        }
        for (i, other) in others
            .iter()
            .enumerate()
            .filter(|(i, _)| taken & (1 << i) == 0)
        {
            for next in after(kind, &state, other) {
                let next = (taken | 1 << i, next);
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
    }
    false
}

/// Drops operations that are impossible in any order of the others, until there are none left.
pub fn possible(kind: Kind, mut part: Vec<Row>) -> Vec<Row> {
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

/// Whether some of the operations that were not taken lead to a state in which this one is
/// possible.
fn comes(kind: Kind, rows: &[Row], taken: u32, state: &Value, at: usize) -> bool {
    !after(kind, state, &rows[at]).is_empty()
        || (0..rows.len()).filter(|i| taken & (1 << i) == 0).any(|i| {
            let nexts = after(kind, state, &rows[i]);
            nexts
                .iter()
                .any(|next| comes(kind, rows, taken | 1 << i, next, at))
        })
}

/// Whether the model puts values in and takes them out.
pub fn is_container(kind: Kind) -> bool {
    use Kind::{Deque, FifoQueue, PriorityQueue, Queue, Stack};
    matches!(kind, Queue | FifoQueue | Stack | PriorityQueue | Deque)
}

/// Whether the operation puts a value in.
pub fn puts(row: &Row) -> bool {
    ["enqueue", "push", "push-front", "push-back", "insert"].contains(&row.f)
}

/// Whether the operation takes a value out.
pub fn takes(row: &Row) -> bool {
    ["dequeue", "pop", "pop-front", "pop-back", "delete-min"].contains(&row.f)
}
