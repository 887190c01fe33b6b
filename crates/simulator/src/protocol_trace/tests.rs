//! Tests of what is recorded of a table.

use super::*;
use crate::keeper::messages::Answered;
use crate::keeper::tree::Operation;
use crate::table::entries::Quorum;
use crate::table::parts::{Info, Value};

/// One table of two replicas, and the facts about it.
struct Seen {
    trace: ProtocolTrace,
    tree: Tree,
}

impl Seen {
    fn new() -> Seen {
        let mut seen = Seen {
            trace: ProtocolTrace::default(),
            tree: Tree::default(),
        };
        let empty = |path: &str| Operation::create(path, Data::default());
        let mut operations: Vec<Operation> = [
            "/t",
            "/t/log",
            "/t/replicas",
            "/t/leader_election",
            "/t/quorum",
            "/t/quorum/failed_parts",
        ]
        .map(empty)
        .into();
        for replica in ["r1", "r2"] {
            let own = format!("/t/replicas/{replica}");
            operations.extend([
                empty(&own),
                empty(&format!("{own}/queue")),
                empty(&format!("{own}/parts")),
                Operation::create(format!("{own}/is_lost"), Data::text("0")),
                Operation::create(format!("{own}/log_pointer"), Data::Number(0)),
            ]);
        }
        seen.commit(&operations);
        assert_eq!(seen.facts(), [], "the log has no entry yet");
        seen
    }

    fn commit(&mut self, operations: &[Operation]) {
        let planned = self.tree.clone().planned(operations, 1);
        let (changes, done) = planned.expect("the transaction is valid");
        let txn = Txn {
            zxid: (1, 0),
            origin: 0,
            session: 1,
            xid: 1,
            changes,
            answer: Ok(Answered::Done(done.into())),
            time_ns: 0,
            wall_ns: 0,
            members: None,
        };
        self.trace.committing(5, &txn, &self.tree);
        for change in &txn.changes {
            self.tree.change(change);
        }
        self.trace.committed(5, &txn, &self.tree);
    }

    fn facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.trace.facts)
    }
}

fn part(name: &str) -> Info {
    Info::named(name)
}

fn entry(kind: EntryKind, name: &str) -> Data {
    Data::payload(Entry {
        kind,
        source: "r1".into(),
        ..Entry::get(part(name))
    })
}

fn logged_insert(name: &str, quorum: usize) -> Operation {
    let entry = Entry {
        quorum,
        ..Entry::get(part(name))
    };
    Operation::numbered("/t/log/log-", Data::payload(entry))
}

#[test]
fn parts_and_the_end_of_their_quorum() {
    let mut seen = Seen::new();
    let rows = [Value::Int(1), Value::text("a")].into();
    let status = Quorum {
        part: part("all_0_0_0"),
        needed: 2,
        replicas: vec!["r1".into()],
    };
    seen.commit(&[
        Operation::create(
            "/t/replicas/r1/parts/all_0_0_0",
            Data::payload(Rows::from([rows])),
        ),
        Operation::create("/t/quorum/status", Data::payload(status)),
        logged_insert("all_0_0_0", 2),
        Operation::create("/t/quorum/last_part", Data::payload(LastParts::default())),
    ]);
    let announced = Fact::PartAnnounced {
        now_ns: 5,
        replica: "r1".into(),
        name: "all_0_0_0".into(),
        hash: crc32fast::hash(b"((1, 'a'),)"),
    };
    assert_eq!(seen.facts(), [announced]);
    let parts: LastParts = vec![("all".into(), part("all_0_0_0"))];
    let last = || Data::payload(parts.clone());
    seen.commit(&[
        Operation::remove("/t/quorum/status"),
        Operation::put("/t/quorum/last_part", last()),
    ]);
    let ended = Fact::QuorumReached {
        now_ns: 5,
        part: "all_0_0_0".into(),
        needed: 2,
        holders: vec!["r1".into()],
        parallel: false,
    };
    let became = Fact::LastPart {
        now_ns: 5,
        partition: "all".into(),
        number: 0,
    };
    assert_eq!(seen.facts(), [ended, became]);
    seen.commit(&[Operation::put("/t/quorum/last_part", last())]);
    assert_eq!(seen.facts(), [], "the content has not changed");
}

#[test]
fn a_failed_quorum_has_not_ended() {
    let mut seen = Seen::new();
    let status = Quorum {
        part: part("all_0_0_0"),
        needed: 2,
        replicas: Vec::new(),
    };
    let status = Operation::create("/t/quorum/status", Data::payload(status));
    seen.commit(&[status, logged_insert("all_0_0_0", 2)]);
    seen.commit(&[
        Operation::remove("/t/quorum/status"),
        Operation::create("/t/quorum/failed_parts/all_0_0_0", Data::default()),
    ]);
    assert_eq!(seen.facts(), []);
}

#[test]
fn a_parallel_quorum_leaves_last_part_alone_and_counts_merged_parts() {
    let mut seen = Seen::new();
    let status = Quorum {
        part: part("all_1_1_0"),
        needed: 2,
        replicas: vec!["r1".into()],
    };
    let node = "/t/quorum/parallel/all_1_1_0";
    seen.commit(&[
        Operation::create("/t/quorum/parallel", Data::default()),
        Operation::create(node, Data::payload(status)),
        logged_insert("all_1_1_0", 2),
        Operation::create("/t/replicas/r1/parts/all_1_1_0", Data::default()),
        Operation::create("/t/replicas/r2/parts/all_0_2_1", Data::default()),
    ]);
    seen.facts();
    seen.commit(&[Operation::remove(node)]);
    let ended = Fact::QuorumReached {
        now_ns: 5,
        part: "all_1_1_0".into(),
        needed: 2,
        holders: vec!["r1".into(), "r2".into()],
        parallel: true,
    };
    assert_eq!(seen.facts(), [ended]);
}

#[test]
fn the_log_and_its_pointers() {
    let mut seen = Seen::new();
    let merge = |name| entry(EntryKind::Merge, name);
    seen.commit(&[Operation::numbered("/t/log/log-", merge("all_0_1_1"))]);
    let chosen = |leader: &str| Fact::MergeChosen {
        now_ns: 5,
        name: "all_0_1_1".into(),
        by: "r1".into(),
        leader: leader.into(),
    };
    assert_eq!(seen.facts(), [chosen("")]);
    let line = Operation::numbered("/t/leader_election/leader_election-", Data::text("r2"));
    seen.commit(&[line]);
    seen.commit(&[Operation::numbered("/t/log/log-", merge("all_0_1_1"))]);
    assert_eq!(seen.facts(), [chosen("r2")]);
    let queue = "/t/replicas/r2/queue/queue-";
    seen.commit(&[
        Operation::numbered(queue, merge("all_0_1_1")),
        Operation::numbered(queue, merge("all_0_1_1")),
        Operation::put("/t/replicas/r2/log_pointer", Data::Number(2)),
    ]);
    let moved = Fact::PointerMoved {
        now_ns: 5,
        replica: "r2".into(),
        from: 0,
        to: 2,
        copied: 2,
        lost: false,
    };
    assert_eq!(seen.facts(), [moved]);
    seen.commit(&[
        Operation::remove("/t/log/log-0000000000"),
        Operation::put("/t/replicas/r1/is_lost", Data::text("1")),
        Operation::create("/t/replicas/r2/is_active", Data::default()),
    ]);
    let place = |replica: &str, pointer, active, lost| ReplicaPosition {
        replica: replica.into(),
        pointer,
        active,
        lost,
    };
    let places = Fact::Positions {
        now_ns: 5,
        first: 1,
        replicas: vec![place("r1", 0, false, true), place("r2", 2, true, false)],
    };
    assert_eq!(seen.facts(), [places]);
}

#[test]
fn an_empty_part_is_lost_only_where_no_replica_lists_it_any_more() {
    let of = |replica: &str| format!("/t/replicas/{replica}/parts/all_0_0_0");
    let empty = || Operation::create(of("r2"), Data::payload(Rows::default()));
    let lost = |removed: bool| {
        let mut seen = Seen::new();
        let full = Rows::from([[Value::Int(1)].into()]);
        seen.commit(&[Operation::create(of("r1"), Data::payload(full))]);
        if removed {
            seen.commit(&[Operation::remove(of("r1"))]);
        }
        seen.commit(&[empty()]);
        matches!(seen.facts().pop(), Some(Fact::PartLost { .. }))
    };
    assert!(lost(true));
    assert!(!lost(false));
}
