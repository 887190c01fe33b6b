//! Compares the search with a walk through all orders, on small random histories of every model.

mod random;

use pyporcupine::budget::Limits;
use pyporcupine::order::NEVER;
use pyporcupine::register::model::{Action, Register};
use pyporcupine::search::{search_widening, Ended, Model, Op};
use random::Rng;

/// Tries every order and, for calls that never returned, every choice of whether they took effect.
fn legal<M: Model>(model: &mut M, ops: &[Op], taken: u32, state: u64) -> bool {
    let left = |i: usize| taken & (1 << i) == 0;
    if (0..ops.len()).all(|i| !left(i) || ops[i].ret == NEVER) {
        return true;
    }
    for i in 0..ops.len() {
        let first = |j: usize| !left(j) || ops[j].ret >= ops[i].call;
        if !left(i) || !(0..ops.len()).all(first) {
            continue;
        }
        let mut states = Vec::new();
        model.steps(state, ops[i].action, &mut states);
        if states
            .into_iter()
            .any(|s| legal(model, ops, taken | 1 << i, s))
        {
            return true;
        }
    }
    false
}

/// Checks that the order explains the history.
fn assert_order<M: Model>(model: &mut M, ops: &[Op], order: &[u32]) {
    let at = |row: u32| ops.iter().find(|o| o.row == row).expect("a row");
    let mut states = vec![model.initial()];
    for &row in order {
        let mut next = Vec::new();
        for state in states {
            model.steps(state, at(row).action, &mut next);
        }
        states = next;
    }
    assert!(!states.is_empty(), "{ops:?} {order:?}");
    for op in ops.iter().filter(|o| o.ret != NEVER) {
        assert_eq!(order.iter().filter(|&&r| r == op.row).count(), 1);
    }
    for (i, &row) in order.iter().enumerate() {
        assert!(order[..i].iter().all(|&r| at(row).ret >= at(r).call));
    }
}

/// Draws the times of up to `most` operations; a fifth never return.
fn times(rng: &mut Rng, most: u64) -> Vec<(i64, i64)> {
    let count = 1 + rng.below(most);
    let span = 2 + rng.below(14);
    let pace = 1 + rng.below(4);
    let lost = rng.below(3) == 0;
    let time = |i: u64, rng: &mut Rng| {
        let call = (i * pace + rng.below(span)) as i64;
        let ret = call + rng.below(span) as i64;
        (
            call,
            if lost && rng.below(4) == 0 {
                NEVER
            } else {
                ret
            },
        )
    };
    (0..count).map(|i| time(i, rng)).collect()
}

fn agree<M: Model>(
    seed: u64,
    histories: usize,
    most: u64,
    mut make: impl FnMut(&mut Rng) -> M,
    actions: u64,
) {
    let mut rng = Rng::new(seed);
    let mut invalid = 0;
    for _ in 0..histories {
        let mut model = make(&mut rng);
        let times = times(&mut rng, most);
        let ops: Vec<Op> = (0u32..)
            .zip(times)
            .map(|(i, (call, ret))| Op {
                row: 5 * i,
                action: rng.below(actions) as u32,
                call,
                ret,
            })
            .collect();
        let initial = model.initial();
        let expected = legal(&mut model, &ops, 0, initial);
        for (traced, widths) in [(false, &[][..]), (true, &[]), (true, &[1, 2])] {
            match search_widening(&mut model, &ops, Limits::default(), traced, widths) {
                Ended::Explained { order } => {
                    assert!(expected, "{ops:?}");
                    if traced {
                        assert_order(&mut model, &ops, &order);
                    }
                }
                Ended::Stuck { at, .. } => {
                    assert!(!expected, "{at} {ops:?}");
                    let end = ops.iter().find(|o| o.row == at).expect("a row").ret;
                    let until = |o: &Op, end| Op {
                        ret: if o.ret < end { o.ret } else { NEVER },
                        ..*o
                    };
                    let before: Vec<Op> = ops
                        .iter()
                        .filter(|o| o.call <= end)
                        .map(|o| if o.row == at { *o } else { until(o, end + 1) })
                        .collect();
                    assert!(!legal(&mut model, &before, 0, initial), "{at} {ops:?}");
                }
                Ended::GaveUp { .. } => panic!("without limits"),
            }
        }
        invalid += usize::from(!expected);
    }
    assert!(
        invalid > histories / 10 && invalid < histories * 9 / 10,
        "{invalid}"
    );
}

#[test]
fn cas_register_agrees_with_all_orders() {
    let make = |rng: &mut Rng| {
        let values = 2 + rng.below(2) as u32;
        let mut actions = Vec::new();
        for _ in 0..12 {
            let (a, b) = (
                rng.below(values.into()) as u32,
                rng.below(values.into()) as u32,
            );
            actions.push(match rng.below(5) {
                0 => Action::Read(a),
                1 | 2 => Action::Write(a),
                3 => Action::Cas(a, b),
                _ => Action::CasFailed(a),
            });
        }
        Register {
            initial: 0,
            actions,
        }
    };
    agree(1, 300_000, 7, make, 12);
}

/// Generates a valid history of `count` operations, 30 of them in flight at a time; one in 50 never
/// returns.
fn long(rng: &mut Rng, model: &mut Register, count: i64) -> Vec<Op> {
    let mut state = model.initial();
    let mut ops = Vec::new();
    for at in 0..count {
        let action = loop {
            let action = rng.below(model.actions.len() as u64) as u32;
            if let Some(after) = model.step(state, action) {
                state = after;
                break action;
            }
        };
        let early = rng.below(30) as i64;
        let late = if rng.below(50) == 0 {
            NEVER
        } else {
            at + rng.below(30) as i64
        };
        ops.push(Op {
            row: at as u32,
            action,
            call: at - early,
            ret: late,
        });
    }
    ops
}

#[test]
fn what_is_found_on_detours_is_an_order() {
    let values = 0..4;
    let pairs = values
        .clone()
        .flat_map(|a| (0..4).map(move |b| Action::Cas(a, b)));
    let actions: Vec<Action> = pairs
        .chain(values.flat_map(|a| [Action::Read(a), Action::Write(a)]))
        .collect();
    let mut rng = Rng::new(2);
    for _ in 0..10 {
        let mut model = Register {
            initial: 0,
            actions: actions.clone(),
        };
        let ops = long(&mut rng, &mut model, 600);
        match search_widening(&mut model, &ops, Limits::default(), true, &[2, 64]) {
            Ended::Explained { order } => assert_order(&mut model, &ops, &order),
            ended => panic!("{ended:?}"),
        }
    }
}
