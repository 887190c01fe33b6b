//! Compares the verdicts on small random histories of transactions with a definition.

#[path = "../random/mod.rs"]
mod random;

mod definition;
mod made;

use definition::Satisfied;
use pyporcupine::budget::Limits;
use pyporcupine::transactions::columns::Owned;
use pyporcupine::transactions::levels::{Anomaly, Cycle, Level};
use pyporcupine::transactions::witness;
use pyporcupine::transactions::{check, Answer, Assumptions, Model};
use pyporcupine::verdict::Status;
use random::Rng;

/// Levels whose definition is decided exactly, and those for which the order of two appends that
/// nobody read may matter, so that the checker may miss a violation.
const EXACT: [&str; 12] = [
    "read-uncommitted",
    "read-committed",
    "causal",
    "prefix",
    "strong-session-causal",
    "strong-session-prefix",
    "serializable",
    "strong-session-serializable",
    "strict-serializable",
    "snapshot-isolation",
    "strong-session-snapshot-isolation",
    "strong-snapshot-isolation",
];

/// Returns how many histories to compare: a few thousand, or as many as the environment says.
fn count() -> u64 {
    let given = std::env::var("TRANSACTIONS_HISTORIES").ok();
    given.map_or(3_000, |text| text.parse().expect("a number"))
}

fn judge(made: &made::Made, model: Model, name: &str) -> Answer {
    let level = Level::from_name(name).expect("a level");
    let columns = made.columns();
    let history = columns.history();
    check(&history, model, level, &Limits::default()).expect("a history")
}

#[test]
fn every_level_is_as_it_is_defined() {
    let mut invalid = [0u64; EXACT.len()];
    for seed in 0..count() {
        let made = made::Made::new(&mut Rng::new(seed), true);
        let satisfied = Satisfied::new(&made);
        for (place, name) in EXACT.into_iter().enumerate() {
            let answer = judge(&made, Model::ListAppend, name);
            let expected = satisfied.level(name);
            // Several appends that nobody read, of which the order is unknown.
            let misses = name.contains("snapshot") && made.has_unordered_appends(&satisfied);
            let found = answer.status != Status::Invalid;
            let nothing = answer.reason.starts_with("nothing was checked");
            assert_eq!(
                answer.status == Status::Unknown,
                nothing,
                "seed {seed}: {name}"
            );
            let agrees = found == expected || (misses && found && !expected);
            assert!(
                agrees,
                "seed {seed}: {name} is {expected} by definition: {}\n{:?}\n{made:?}",
                answer.reason, answer.findings
            );
            invalid[place] += u64::from(!expected);
        }
    }
    println!("{} histories, invalid: {invalid:?}", count());
    assert!(invalid.iter().all(|&n| n > 0 && n < count()), "{invalid:?}");
}

/// A witness violates the level by definition, and shows the anomaly no more without any of its
/// operations.
#[test]
fn a_witness_suffices_and_nothing_of_it_can_be_dropped() {
    let mut witnesses = 0u64;
    for seed in 0..count() {
        let made = made::Made::new(&mut Rng::new(seed), true);
        for name in EXACT {
            let answer = judge(&made, Model::ListAppend, name);
            if answer.status != Status::Invalid {
                continue;
            }
            witnesses += 1;
            let part = witness_of(&made, Model::ListAppend, name, &answer);
            let part = made::Made::of(&part.history(), true);
            let satisfied = Satisfied::new(&part);
            assert!(!satisfied.level(name), "seed {seed}: {name}: {part:?}");
            let anomaly = worst(&answer, name);
            // For causal consistency, a list is left out with the version that it shows.
            if matches!(anomaly, Anomaly::Cycles(Cycle::GCausal, _)) {
                continue;
            }
            let ops = part.transactions.iter().map(|one| one.ops.len()).sum();
            for left_out in 0..ops {
                let rest = judge(&part.without(left_out), Model::ListAppend, name);
                let shows = rest.findings.iter().any(|found| found.anomaly == anomaly);
                assert!(!shows, "seed {seed}: {name}: {left_out} of {part:?}");
            }
        }
    }
    println!("{} histories, {witnesses} witnesses", count());
    assert!(2 * witnesses > count());
}

/// Returns the worst anomaly that the level forbids.
fn worst(answer: &Answer, name: &str) -> Anomaly {
    let level = Level::from_name(name).expect("a level");
    let mut findings = answer.findings.iter();
    let found = findings.find(|found| level.forbids(found.anomaly));
    found.expect("it is INVALID").anomaly
}

/// Returns the witness as a history.
fn witness_of(made: &made::Made, model: Model, name: &str, answer: &Answer) -> Owned {
    let level = Level::from_name(name).expect("a level");
    let columns = made.columns();
    let history = columns.history();
    let pieces = witness::smallest(&history, model, level, answer, Limits::default());
    assert!(!pieces.is_empty(), "{name}: {made:?}");
    witness::part(&history, model, worst(answer, name), &pieces)
}

/// Registers do not show the order of their versions, so violations may be missed.
#[test]
fn registers_are_not_accused_wrongly() {
    let levels = [
        ("causal", false, false),
        ("prefix", false, false),
        ("strong-session-causal", false, false),
        ("strong-session-prefix", false, false),
        ("snapshot-isolation", false, false),
        ("serializable", false, false),
        ("strong-session-snapshot-isolation", true, false),
        ("strong-session-serializable", true, false),
        ("strict-serializable", true, true),
    ];
    let mut counts = [(0u64, 0u64); 9];
    for seed in 0..count() {
        let made = made::Made::new(&mut Rng::new(seed), false);
        let satisfied = Satisfied::new(&made);
        for ((name, sequential_keys, linearizable_keys), counted) in
            levels.into_iter().zip(&mut counts)
        {
            let model = Model::RwRegister(Assumptions {
                writes_follow_reads: true,
                sequential_keys,
                linearizable_keys,
            });
            let answer = judge(&made, model, name);
            let is_invalid = answer.status == Status::Invalid;
            let violated = !satisfied.level(name);
            assert!(
                violated || !is_invalid,
                "seed {seed}: {name}: {}\n{:?}\n{made:?}",
                answer.reason,
                answer.findings
            );
            if is_invalid {
                let part =
                    made::Made::of(&witness_of(&made, model, name, &answer).history(), false);
                assert!(
                    !Satisfied::new(&part).level(name),
                    "seed {seed}: {name}: {part:?}"
                );
            }
            counted.0 += u64::from(violated);
            counted.1 += u64::from(is_invalid);
        }
    }
    println!("{} histories, invalid and found: {counts:?}", count());
    // Most are found all the same.
    assert!(counts
        .iter()
        .all(|&(violated, found)| 10 * found > 9 * violated));
}
