//! Compares every model with a walk through all orders, on small random histories.
//!
//! The histories are valid ones, most of them then damaged. ORACLE_HISTORIES sets their number per
//! model.

mod made;
mod proofs;
#[path = "../random/mod.rs"]
mod random;
mod rows;
mod specification;

use made::{damage, valid, Shape};
use proofs::{assert_order, assert_witness};
use pyporcupine::budget::Budget;
use pyporcupine::objects::{decide_all, Kind};
use pyporcupine::order::{Consistency, NEVER};
use pyporcupine::partition::Partition;
use pyporcupine::verdict::{Request, Status, Verdict};
use random::Rng;
use rows::{Row, Table, Value};
use specification::{initial, legal};

fn decide(kind: Kind, rows: &[Row], consistency: Consistency, linearization: bool) -> Verdict {
    let request = Request {
        linearization,
        ..Request::plain(consistency)
    };
    // Each history twice, as two objects; the second time with a compare-and-set in two fields.
    let count = rows.len();
    let mut table = [rows, rows].concat();
    for row in &mut table[count..] {
        row.at.row += count;
        if let ("cas", Value::Ints(pair)) = (row.f, &row.value) {
            (row.expected, row.value) = (Value::Int(pair[0]), Value::Int(pair[1]));
        }
    }
    let of = (0..2).flat_map(|object| vec![object; count]).collect();
    let objects = Partition::new(of, 2);
    let initial = kind.initial();
    let verdicts = decide_all(
        &Table(table),
        &objects,
        kind,
        &initial,
        &request,
        (&Budget::unlimited(), 1),
    );
    let mut verdicts = verdicts.expect("good rows");
    let witness: Vec<usize> = verdicts[0].witness.iter().map(|row| row + count).collect();
    assert_eq!(
        (verdicts[0].status, &witness),
        (verdicts[1].status, &verdicts[1].witness)
    );
    verdicts.remove(0)
}

fn agree(kind: Kind, seed: u64) {
    agree_on(Shape::of(kind), seed, histories(20_000));
}

/// Returns the number of histories; `default` unless it is set.
fn histories(default: u64) -> u64 {
    std::env::var("ORACLE_HISTORIES").map_or(default, |n| n.parse().expect("a number"))
}

fn agree_on(shape: Shape, seed: u64, histories: u64) {
    let kind = shape.kind;
    let mut rng = Rng::new(seed);
    let mut invalid = 0;
    for _ in 0..histories {
        let mut rows = valid(shape, &mut rng);
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
fn stack() {
    let (kind, seed) = (Kind::Stack, 18);
    agree_on(Shape::of(kind), seed, histories(5_000));
}

#[test]
fn priority_queue() {
    let (kind, seed) = (Kind::PriorityQueue, 19);
    agree_on(Shape::of(kind), seed, histories(5_000));
}

#[test]
fn deque() {
    let (kind, seed) = (Kind::Deque, 20);
    agree_on(Shape::of(kind), seed, histories(5_000));
}

#[test]
fn multi_register() {
    agree(Kind::MultiRegister, 10);
}

#[test]
fn mutex() {
    agree(Kind::Mutex, 9);
}

#[test]
fn different_values_with_lost_calls() {
    let kinds = [
        (Kind::Queue, 11),
        (Kind::FifoQueue, 12),
        (Kind::Stack, 15),
        (Kind::PriorityQueue, 16),
        (Kind::Deque, 17),
    ];
    for (kind, seed) in kinds {
        let shape = Shape {
            operations: 8,
            lost_in: 1,
            distinct: true,
            ..Shape::of(kind)
        };
        agree_on(shape, seed, histories(3_000));
    }
}

#[test]
fn counters_of_equal_additions_with_lost_calls() {
    for (addend, seed) in [(1, 13), (-3, 14)] {
        let shape = Shape {
            operations: 8,
            lost_in: 2,
            addend: Some(addend),
            ..Shape::of(Kind::Counter)
        };
        agree_on(shape, seed, histories(3_000));
    }
}
