//! Compares the decision of sets with a search through all orders, on small random histories.

mod random;

use pyporcupine::order::{Consistency, Timing, NEVER};
use pyporcupine::set::{decide, Add, History};
use pyporcupine::verdict::{Status, Verdict, Why};
use random::Rng;

/// An operation: an add of one value, or a read.
#[derive(Clone, Debug)]
struct Op {
    at: Timing,
    add: Option<i64>,
    read: Vec<i64>,
}

fn precedes(a: &Op, b: &Op, consistency: Consistency) -> bool {
    match consistency {
        Consistency::Linearizable => a.at.ret < b.at.call,
        Consistency::Sequential => {
            let key = |o: &Op| (o.at.call, o.at.ret, o.at.row);
            a.at.process == b.at.process && a.at.ret != NEVER && key(a) < key(b)
        }
    }
}

/// Tries every order: any operation that no remaining one precedes may be next.
fn legal(ops: &[Op], taken: u32, set: &[i64], consistency: Consistency) -> bool {
    let left = |i: usize| taken & (1 << i) == 0;
    if (0..ops.len()).all(|i| !left(i) || ops[i].at.ret == NEVER) {
        return true;
    }
    (0..ops.len()).any(|i| {
        let free = |j: usize| j == i || !left(j) || !precedes(&ops[j], &ops[i], consistency);
        if !left(i) || !(0..ops.len()).all(free) {
            return false;
        }
        let mut next = set.to_vec();
        match ops[i].add {
            Some(value) if !next.contains(&value) => next.push(value),
            Some(_) => {}
            None => {
                let mut returned = ops[i].read.clone();
                returned.sort_unstable();
                next.sort_unstable();
                if returned != next {
                    return false;
                }
            }
        }
        legal(ops, taken | 1 << i, &next, consistency)
    })
}

fn history(ops: &[Op]) -> History<'_> {
    let mut history = History::default();
    for op in ops {
        match op.add {
            Some(value) => history.adds.push(Add { at: op.at, value }),
            None => history.push_read(op.at, &op.read),
        }
    }
    history
}

/// Draws up to seven operations of up to three processes; reads are mostly nearly right.
fn random(rng: &mut Rng, repeats: bool) -> Vec<Op> {
    let count = 1 + rng.below(7) as usize;
    let processes = 1 + rng.below(4);
    let span = 2 + rng.below(12);
    let mut free_at = vec![0; processes as usize];
    let mut ops: Vec<Op> = Vec::new();
    let mut added = Vec::new();
    for row in 0..count {
        let p = rng.below(processes) as usize;
        if free_at[p] == NEVER {
            continue;
        }
        let call = free_at[p] + rng.below(span / 2 + 1) as i64;
        let is_add = rng.below(2) == 0;
        let never = is_add && rng.below(5) == 0;
        let ret = if never {
            NEVER
        } else {
            call + rng.below(span) as i64
        };
        free_at[p] = ret;
        let at = Timing {
            row: row * 3,
            process: p as i64,
            call,
            ret,
        };
        let value = if repeats {
            rng.below(3) as i64
        } else {
            row as i64
        };
        if is_add {
            added.push((value, call));
        }
        ops.push(Op {
            at,
            add: is_add.then_some(value),
            read: Vec::new(),
        });
    }
    for op in ops.iter_mut().filter(|o| o.add.is_none()) {
        let horizon = op.at.call + rng.below(span) as i64;
        for &(value, call) in &added {
            let likely = if call <= horizon { 9 } else { 1 };
            if !op.read.contains(&value) && rng.below(10) < likely {
                op.read.push(value);
            }
        }
        match rng.below(60) {
            0 => op.read.push(99),
            1 if !op.read.is_empty() => op.read.push(op.read[0]),
            _ => {}
        }
    }
    ops
}

/// Checks that the witness alone is illegal, and legal without any one of its operations, with
/// reads restricted to the values of the witness's adds.
fn assert_minimal(ops: &[Op], verdict: &Verdict, consistency: Consistency) {
    if let Why::Duplicate | Why::NeverAdded = verdict.steps[0].why {
        assert_eq!(verdict.witness.len(), 1);
        return;
    }
    let part = |without: Option<usize>| {
        let within = |o: &&Op| verdict.witness.contains(&o.at.row) && Some(o.at.row) != without;
        let mut part: Vec<Op> = ops.iter().filter(within).cloned().collect();
        let values: Vec<i64> = part.iter().filter_map(|o| o.add).collect();
        for op in &mut part {
            op.read.retain(|v| values.contains(v));
        }
        part
    };
    assert!(
        !legal(&part(None), 0, &[], consistency),
        "{ops:?} {verdict:?}"
    );
    for &row in &verdict.witness {
        assert!(
            legal(&part(Some(row)), 0, &[], consistency),
            "without {row}: {ops:?} {verdict:?}"
        );
    }
}

/// Checks that in a cycle each step starts where its predecessor ended, and the last step ends at
/// the start.
fn assert_explains(ops: &[Op], verdict: &Verdict, consistency: Consistency) {
    let op = |row: usize| {
        ops.iter()
            .find(|o| o.at.row == row)
            .expect("a row of the history")
    };
    let ends = verdict.steps.iter().map(|s| s.to);
    let mut starts = verdict.steps.iter().map(|s| s.from).cycle().skip(1);
    let placed = |s: &&pyporcupine::verdict::Step| s.why != Why::CannotPlace;
    for (step, end) in verdict.steps.iter().zip(ends).filter(|(s, _)| placed(s)) {
        assert_eq!(starts.next(), Some(end));
        let (from, to) = (op(step.from), op(step.to));
        match step.why {
            Why::RealTime | Why::ProcessOrder => assert!(precedes(from, to, consistency)),
            Why::ReadSeesAdd => assert!(to.read.contains(&from.add.expect("an add"))),
            Why::ReadMissesAdd => assert!(!from.read.contains(&to.add.expect("an add"))),
            _ => {}
        }
    }
}

fn agree(seed: u64, histories: usize, repeats: bool) {
    let mut rng = Rng::new(seed);
    let mut invalid = 0;
    for _ in 0..histories {
        let ops = random(&mut rng, repeats);
        for consistency in [Consistency::Linearizable, Consistency::Sequential] {
            let verdict = decide(&history(&ops), consistency);
            let expected = if has_doubles(&ops) {
                false
            } else {
                legal(&ops, 0, &[], consistency)
            };
            assert_eq!(
                verdict.status == Status::Valid,
                expected,
                "{consistency:?} {ops:?} {verdict:?}"
            );
            if !expected {
                invalid += 1;
                assert_minimal(&ops, &verdict, consistency);
                assert_explains(&ops, &verdict, consistency);
            }
        }
    }
    assert!(
        invalid > histories / 4 && invalid < 2 * histories * 3 / 4,
        "{invalid}"
    );
}

fn has_doubles(ops: &[Op]) -> bool {
    ops.iter()
        .any(|o| (1..o.read.len()).any(|i| o.read[..i].contains(&o.read[i])))
}

#[test]
fn distinct_values_agree_with_all_orders() {
    agree(1, 200_000, false);
}

#[test]
fn repeated_values_agree_with_all_orders() {
    agree(2, 200_000, true);
}
