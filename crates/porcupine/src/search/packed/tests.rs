//! Compares with the general search on histories that are too long for a brute-force oracle.

use super::*;
use crate::models::mutex::Mutex;
use crate::order::NEVER;
use crate::register::model::{Action, Register};
use crate::search::{search_widening, subsets};
use random::Rng;

#[path = "../../../tests/random/mod.rs"]
mod random;

/// Generates up to 200 operations, about `flight` of them at a time; one in `lost` never returns.
fn history<M: Model>(
    rng: &mut Rng,
    model: &mut M,
    actions: u32,
    flight: u64,
    lost: u64,
) -> Vec<Op> {
    let mut state = model.initial();
    let mut ops = Vec::new();
    for at in 0..1 + rng.below(200) as i64 {
        let action = loop {
            let action = rng.below(actions.into()) as u32;
            if let Some(after) = model.step(state, action) {
                state = after;
                break action;
            }
        };
        ops.push(Op {
            row: at as u32,
            action,
            call: at - rng.below(flight) as i64,
            ret: match rng.below(lost) {
                0 => NEVER,
                _ => at + rng.below(flight) as i64,
            },
        });
    }
    ops
}

fn damage(rng: &mut Rng, ops: &mut [Op], actions: u32) {
    for _ in 0..rng.below(3) {
        let at = rng.below(ops.len() as u64) as usize;
        ops[at].action = rng.below(actions.into()) as u32;
    }
}

fn register(rng: &mut Rng) -> (Register, u32) {
    let values = 2 + rng.below(4) as u32;
    let reads = (0..values).flat_map(|v| [Action::Read(v), Action::Write(v), Action::CasFailed(v)]);
    let pairs = (0..values).flat_map(|a| (0..values).map(move |b| Action::Cas(a, b)));
    let actions: Vec<Action> = match rng.below(3) {
        0 => reads
            .filter(|a| !matches!(a, Action::CasFailed(_)))
            .collect(),
        1 => pairs.collect(),
        _ => reads.chain(pairs).collect(),
    };
    let count = actions.len() as u32;
    (
        Register {
            initial: 0,
            actions,
        },
        count,
    )
}

fn mutex(_rng: &mut Rng) -> (Mutex, u32) {
    (Mutex, 2)
}

/// How often histories were decided, decided by subsets too, and refuted.
#[derive(Debug, Default)]
struct Counts {
    by_subsets: usize,
    decided: usize,
    invalid: usize,
    refuted: usize,
}

fn agree<M: Model>(
    seed: u64,
    histories: usize,
    lost: u64,
    make: fn(&mut Rng) -> (M, u32),
) -> Counts {
    let mut rng = Rng::new(seed);
    let mut counts = Counts::default();
    for _ in 0..histories {
        let (mut model, actions) = make(&mut rng);
        let flight = 1 + rng.below(8);
        let mut ops = history(&mut rng, &mut model, actions, flight, lost);
        damage(&mut rng, &mut ops, actions);
        if rng.below(2) == 0 {
            ops.sort_by_key(|op| op.call);
        }
        let limits = Limits::default();
        let plan = Plan::new(&model, &ops);
        let expected = search_widening(&mut model, &ops, limits, false, &[]);
        let invalid = matches!(expected, Ended::Stuck { .. });
        counts.invalid += usize::from(invalid);
        if let Some(ended) = decide(&mut model, &ops, &plan, limits) {
            counts.decided += 1;
            assert_eq!(ended, expected, "{ops:?}");
        }
        if let Some(ended) = subsets::decide(&mut model, &ops, limits) {
            counts.by_subsets += 1;
            assert_eq!(ended, expected, "{ops:?}");
        }
        let few = refute_with(&mut model, &ops, &plan, rng.below(7) as usize);
        let all = refute(&mut model, &ops, &plan, limits).is_some();
        assert!(invalid || !(few || all), "{ops:?}");
        counts.refuted += usize::from(all);
    }
    counts
}

/// Refutes with a given number of bits.
fn refute_with<M: Model>(model: &mut M, ops: &[Op], plan: &Plan, bits: usize) -> bool {
    let machine = machine(model, plan).expect("few states");
    let walk = Walk::new(&machine, ops, plan, bits.min(plan.slots));
    matches!(walk.run(Limits::default()), Some(Ended::Stuck { .. }))
}

#[test]
fn decides_registers_as_the_search_does() {
    let counts = agree(1, 4000, u64::MAX, register);
    assert!(counts.decided > 2000 && counts.invalid > 400, "{counts:?}");
    assert!(counts.by_subsets > 1000, "{counts:?}");
}

#[test]
fn decides_mutexes_as_the_search_does() {
    let counts = agree(2, 4000, u64::MAX, mutex);
    assert!(counts.decided > 2000 && counts.invalid > 400, "{counts:?}");
    assert!(counts.by_subsets > 1000, "{counts:?}");
}

#[test]
fn refutes_only_what_the_search_does_where_calls_never_returned() {
    let counts = agree(3, 4000, 40, register);
    assert!(
        counts.refuted > 400 && counts.invalid > counts.refuted,
        "{counts:?}"
    );
}

#[test]
fn refutes_with_more_in_flight_than_there_are_bits() {
    let mut rng = Rng::new(4);
    let late = 5;
    let pairs = (0..late).flat_map(|a| (0..late).map(move |b| Action::Cas(a, b)));
    let plain = (0..late).flat_map(|v| [Action::Read(v), Action::Write(v)]);
    let mut actions: Vec<Action> = pairs.chain(plain).collect();
    let count = actions.len() as u32;
    actions.extend([Action::Read(late), Action::Write(late)]);
    let mut model = Register {
        initial: 0,
        actions,
    };
    for _ in 0..50 {
        let mut ops = history(&mut rng, &mut model, count, 100, 100);
        let at = ops.len() / 2;
        let op = |row: u32, action, call, ret| Op {
            row,
            action,
            call,
            ret,
        };
        // The read sees a value that is written only later.
        let ret = ops[at].call + 50;
        ops.push(op(1000, count, ops[at].call, ret));
        ops.push(op(1001, count + 1, ret + 1, NEVER));
        let plan = Plan::new(&model, &ops);
        match refute(&mut model, &ops, &plan, Limits::default()) {
            Some(Ended::Stuck { at, .. }) => assert_eq!(at, 1000, "{ops:?}"),
            ended => panic!("{ended:?} {ops:?}"),
        }
    }
}
