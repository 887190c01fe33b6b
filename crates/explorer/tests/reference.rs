//! Compares whole scopes with numbers that an independent search found, and tests mutants and
//! limits.

use std::time::Duration;

use explorer::model::{Model, Protocol, Scope};
use explorer::models::{visit_model, Visit};
use explorer::search::{Progress, Search};

const SCOPE: Scope = Scope {
    replicas: 3,
    records: 2,
    reads: 2,
    quorum: 2,
    read: "server",
    skip_failed: false,
    protocol: None,
    parallel: false,
    mutant: None,
    fixes: &[],
};

/// States, depth, and each violated claim with its distance.
type Outcome = (u32, u32, Vec<(&'static str, u32)>);

struct Whole {
    symmetry: bool,
}

impl Visit for Whole {
    type Out = Outcome;

    fn visit<M: Model + Send + Sync + 'static>(self, model: M) -> Outcome {
        assert!(model.chunks().bits() <= 128);
        let mut search = Search::<M, u128>::new(model, self.symmetry, u32::MAX, usize::MAX);
        while search.advance(Duration::from_secs(1)) == Progress::Going {}
        let broken: Vec<_> = (search.findings().into_iter())
            .filter_map(|(claim, finding)| Some((claim.name, finding.broken?.1)))
            .collect();
        for (name, actions) in &broken {
            let steps = search.trace(name).expect("a broken claim has a trace");
            assert_eq!(
                steps.len() as u32 - 1,
                *actions,
                "the trace of {name} is shortest"
            );
            let broken = search.model.judge(steps.last().unwrap().state).broken;
            let claim = search.model.claims().iter().position(|c| c.name == *name);
            assert!(
                claim.is_none_or(|at| broken >> at & 1 == 1),
                "{name} ends broken"
            );
        }
        (search.states(), search.depth(), broken)
    }
}

fn whole(model: &str, scope: &Scope, symmetry: bool) -> Outcome {
    visit_model(model, scope, Whole { symmetry }).unwrap()
}

#[test]
fn reference_numbers() {
    let linearizable = Scope {
        read: "linearizable",
        ..SCOPE
    };
    let uncounted = Scope {
        mutant: Some("uncounted"),
        ..SCOPE
    };
    let four = Scope {
        records: 4,
        ..SCOPE
    };
    let max_for_min = Scope {
        mutant: Some("max-for-min"),
        ..four
    };
    let backwards = vec![("reads-in-order", 8), ("reads-are-recent", 7)];
    assert_eq!(whole("quorum", &SCOPE, false), (20_952, 17, backwards));
    assert_eq!(whole("quorum", &linearizable, false), (18_744, 17, vec![]));
    assert_eq!(whole("quorum", &uncounted, false).2[0], ("durable", 2));
    assert_eq!(whole("truncation", &four, false), (4_354, 19, vec![]));
    assert_eq!(
        whole("truncation", &max_for_min, false).2[0],
        ("valid-log-pointer", 3)
    );
}

#[test]
fn symmetry_changes_no_distance() {
    let records = |records| Scope { records, ..SCOPE };
    let without_lock_first = [
        "resume",
        "durable-marker",
        "exclusive-move",
        "refuse-downgrade",
    ]
    .map(str::to_owned);
    let protocol = Protocol {
        mechanisms: vec!["insert-retries".to_owned()],
        defects: ["quorum-aba", "early-snapshot", "lost-retry"]
            .map(str::to_owned)
            .to_vec(),
    };
    let by_protocol = Scope {
        protocol: Some(&protocol),
        ..SCOPE
    };
    for (model, scope) in [
        ("quorum", SCOPE),
        ("quorum", by_protocol),
        (
            "quorum",
            Scope {
                read: "linearizable",
                skip_failed: true,
                ..SCOPE
            },
        ),
        (
            "quorum",
            Scope {
                mutant: Some("failed-visible"),
                ..SCOPE
            },
        ),
        ("truncation", records(4)),
        (
            "truncation",
            Scope {
                mutant: Some("clone-of-lost"),
                ..records(4)
            },
        ),
        ("replication", records(2)),
        (
            "replication",
            Scope {
                mutant: Some("covered-fetched"),
                ..SCOPE
            },
        ),
        (
            "zero-copy",
            Scope {
                replicas: 2,
                fixes: &without_lock_first,
                ..SCOPE
            },
        ),
    ] {
        let (every, depth, broken) = whole(model, &scope, false);
        let (fewer, depth_too, broken_too) = whole(model, &scope, true);
        assert_eq!((depth, broken), (depth_too, broken_too), "{model}");
        assert!(
            fewer < every && every <= fewer * 6,
            "{model}: {every} and {fewer}"
        );
    }
}

#[test]
fn every_mutant_and_nothing_else_violates_a_claim() {
    let first = |model, mutant, records| {
        let scope = Scope {
            mutant: Some(mutant),
            records,
            ..SCOPE
        };
        whole(model, &scope, true)
            .2
            .iter()
            .map(|(name, _)| *name)
            .next()
    };
    assert_eq!(
        first("quorum", "failed-visible", 2),
        Some("reads-follow-inserts")
    );
    assert_eq!(
        first("quorum", "pending-visible", 2),
        Some("reads-follow-inserts")
    );
    assert_eq!(
        first("truncation", "lost-unmarked", 4),
        Some("valid-log-pointer")
    );
    assert_eq!(
        first("truncation", "clone-of-lost", 4),
        Some("valid-log-pointer")
    );
    assert_eq!(
        first("replication", "stale-leader", 3),
        Some("no-intersection")
    );
    assert_eq!(
        first("replication", "covered-fetched", 3),
        Some("no-intersection")
    );
    assert_eq!(
        first("replication", "merge-skipped", 3),
        Some("equal-at-rest")
    );
    let sound = |model, records| whole(model, &Scope { records, ..SCOPE }, true).2;
    assert_eq!(sound("truncation", 6), vec![]);
    assert_eq!(sound("replication", 3), vec![]);
    let skipping = Scope {
        read: "linearizable",
        skip_failed: true,
        records: 3,
        ..SCOPE
    };
    assert_eq!(whole("quorum", &skipping, true).2, vec![]);
}

struct Bounded {
    states: u32,
    bytes: usize,
}

impl Visit for Bounded {
    type Out = (Progress, u32, usize);

    fn visit<M: Model + Send + Sync + 'static>(self, model: M) -> Self::Out {
        let mut search = Search::<M, u64>::new(model, false, self.states, self.bytes);
        while search.advance(Duration::ZERO) == Progress::Going {}
        assert!(
            search.frontier() > 0,
            "an unfinished search has states left"
        );
        (
            search.advance(Duration::from_secs(9)),
            search.states(),
            search.bytes(),
        )
    }
}

#[test]
fn limits_are_kept_and_reported() {
    let scope = Scope {
        replicas: 4,
        records: 7,
        ..SCOPE
    };
    let few = Bounded {
        states: 1_000,
        bytes: usize::MAX,
    };
    assert_eq!(
        visit_model("truncation", &scope, few).map(|(p, n, _)| (p, n)),
        Ok((Progress::TooMany, 1_000))
    );
    let small = Bounded {
        states: u32::MAX,
        bytes: 4 << 20,
    };
    let (progress, _, bytes) = visit_model("truncation", &scope, small).unwrap();
    assert_eq!(progress, Progress::OutOfMemory);
    assert!(bytes <= 4 << 20, "{bytes} bytes");
}

#[test]
fn errors_name_the_given_value() {
    let refused =
        |model, scope: &Scope| visit_model(model, scope, Whole { symmetry: false }).unwrap_err();
    assert_eq!(
        refused("quorum", &Scope { quorum: 4, ..SCOPE }),
        "quorum: 4 given, expected 1 to 3"
    );
    assert_eq!(
        refused(
            "truncation",
            &Scope {
                mutant: Some("x"),
                ..SCOPE
            }
        ),
        "mutant \"x\": expected one of max-for-min, lost-unmarked, clone-of-lost"
    );
    assert!(refused(
        "quorum",
        &Scope {
            replicas: 8,
            records: 12,
            ..SCOPE
        }
    )
    .contains("128"));
}
