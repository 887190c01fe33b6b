//! Measures the check alone, of operations in memory: grouping by object, numbering values and
//! actions, ordering calls and returns, deciding. It excludes reading and validating.
//!
//! `cargo run --release --example check_alone -- MODEL INITIAL FILE…` prints the median
//! milliseconds of many checks of all files, on one thread, and the status of each file.
//!
//! Each line of a file is an operation, in order of calls, with eight fields separated by tabs:
//! process, f, key, value, expected, output, call, ret. A value is an int, a text after a quote
//! ('), or empty for null; ret is empty if the call never returned.

use std::time::Instant;

use pyporcupine::budget::Budget;
use pyporcupine::datum::Datum;
use pyporcupine::models::numbers::Numbers;
use pyporcupine::objects::{decide_all, Kind};
use pyporcupine::order::{Consistency, Timing, NEVER};
use pyporcupine::partition::Partition;
use pyporcupine::rows::{Field, Rows};
use pyporcupine::verdict::{Request, Status};

enum Value {
    Null,
    Int(i64),
    Text(String),
}

impl Value {
    fn parse(cell: &str) -> Self {
        match cell.strip_prefix('\'') {
            Some(text) => Value::Text(text.to_owned()),
            None if cell.is_empty() => Value::Null,
            None => Value::Int(cell.parse().expect("an int")),
        }
    }

    fn datum(&self) -> Datum<'_> {
        match self {
            Value::Null => Datum::Null,
            Value::Int(int) => Datum::Int(*int),
            Value::Text(text) => Datum::Text(text),
        }
    }
}

struct Operation {
    process: i64,
    f: String,
    key: Value,
    value: Value,
    expected: Value,
    output: Value,
    call: i64,
    ret: i64,
}

impl Operation {
    fn parse(line: &str) -> Self {
        let cells: Vec<&str> = line.split('\t').collect();
        let [process, f, key, value, expected, output, call, ret] = cells[..] else {
            panic!("eight fields, not {line:?}");
        };
        let int = |cell: &str| cell.parse().expect("an int");
        Self {
            process: int(process),
            f: f.to_owned(),
            key: Value::parse(key),
            value: Value::parse(value),
            expected: Value::parse(expected),
            output: Value::parse(output),
            call: int(call),
            ret: if ret.is_empty() { NEVER } else { int(ret) },
        }
    }
}

struct History(Vec<Operation>);

impl Rows for History {
    fn timing(&self, row: usize) -> Timing {
        let op = &self.0[row];
        Timing {
            row,
            process: op.process,
            call: op.call,
            ret: op.ret,
        }
    }

    fn f(&self, row: usize) -> &str {
        &self.0[row].f
    }

    fn datum(&self, row: usize, field: Field) -> Datum<'_> {
        let op = &self.0[row];
        match field {
            Field::Value => op.value.datum(),
            Field::Output => op.output.datum(),
            Field::Expected => op.expected.datum(),
        }
    }
}

impl History {
    fn check(&self, kind: Kind, initial: &Datum) -> Status {
        let mut keys = Numbers::default();
        let of: Vec<u32> = (self.0.iter())
            .map(|op| keys.number(op.key.datum()))
            .collect();
        let objects = Partition::new(of, keys.len());
        let request = Request {
            witness: false,
            ..Request::plain(Consistency::Linearizable)
        };
        let verdicts = decide_all(
            self,
            &objects,
            kind,
            initial,
            &request,
            (&Budget::unlimited(), 1),
        );
        let statuses = verdicts.expect("good rows").into_iter().map(|v| v.status);
        statuses.max().unwrap_or(Status::Valid)
    }
}

/// Returns the milliseconds of runs: five, or as many up to a thousand as fit in a second.
fn times(mut run: impl FnMut()) -> Vec<f64> {
    let begun = Instant::now();
    let mut times = Vec::new();
    while times.len() < 5 || times.len() < 1000 && begun.elapsed().as_secs_f64() < 1.0 {
        let start = Instant::now();
        run();
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().unwrap_or_else(|| panic!("no {what}"));
    let kind = Kind::from_name(&next("model")).expect("the name of a model");
    let initial = Value::parse(&next("initial value"));
    let read = |path: String| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        History(text.lines().map(Operation::parse).collect())
    };
    let histories: Vec<History> = arguments.map(read).collect();
    let mut statuses = Vec::new();
    let mut times = times(|| {
        let status = |history: &History| history.check(kind, &initial.datum());
        statuses = histories.iter().map(status).collect();
    });
    times.sort_by(f64::total_cmp);
    let names: Vec<&str> = statuses.iter().map(|status| status.name()).collect();
    println!("{:.4} {}", times[times.len() / 2], names.join(" "));
}
