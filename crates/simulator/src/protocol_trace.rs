//! Records what the servers agreed on in ZooKeeper, as facts for the checkers. It sees every
//! committed write.

mod fact;
mod trace_json;

use std::rc::Rc;

use crate::coverage::Coverage;
use crate::keeper::ensemble::Observer;
use crate::keeper::messages::Txn;
use crate::keeper::paths::{number_of, split};
use crate::keeper::tree::{Change, Tree};
use crate::table::entries::{Data, Entry, EntryKind, LastParts, Quorum, TableData};
use crate::table::parts::{rows_repr, Row, Rows};
use crate::world::{Ns, MS};

pub use fact::{Fact, ReplicaPosition};
pub use trace_json::trace_json;

/// Records the facts about all tables of a cluster.
#[derive(Default)]
pub struct ProtocolTrace {
    pub facts: Vec<Fact>,
    /// What the run covers, if that is measured.
    pub coverage: Option<Box<Coverage>>,
    /// The path of the first table of which a part was announced.
    first: Option<Rc<str>>,
}

impl Observer for ProtocolTrace {
    fn committing(&mut self, now_ns: Ns, txn: &Txn, before: &Tree) {
        if let Some(coverage) = &mut self.coverage {
            coverage.committed(txn);
        }
        for change in &txn.changes {
            let path = &*change.path;
            match change.data() {
                None => self.quorum_over(now_ns, path, &txn.changes, before),
                Some(Data::Number(to)) => self.pointer(now_ns, path, *to, &txn.changes, before),
                Some(Data::Text(_)) => {}
                Some(data) => self.stored(now_ns, path, data, txn, before),
            }
        }
    }

    fn committed(&mut self, now_ns: Ns, txn: &Txn, after: &Tree) {
        let root = txn.changes.iter().find_map(|change| {
            let path = &*change.path;
            if path.ends_with("/is_lost") || path.ends_with("/is_active") {
                return path.split("/replicas/").next();
            }
            change.data().is_none().then(|| logged_in(path)).flatten()
        });
        if let Some(root) = root {
            self.places(now_ns, root, after);
        }
    }

    fn session_expired(&mut self, now_ns: Ns, silent_ns: Ns, allowed_ns: Ns) {
        self.push(Fact::SessionExpired {
            now_ns,
            silent_ms: silent_ns.div_euclid(MS),
            allowed_ms: allowed_ns.div_euclid(MS),
        });
    }
}

impl ProtocolTrace {
    /// Append a fact that is not older than its predecessor.
    fn push(&mut self, fact: Fact) {
        let ascends = self
            .facts
            .last()
            .is_none_or(|last| last.now_ns() <= fact.now_ns());
        assert!(ascends, "facts are appended in order of time");
        self.facts.push(fact);
    }

    /// Record what a replica stores.
    fn stored(&mut self, now_ns: Ns, path: &str, data: &Data, txn: &Txn, before: &Tree) {
        if let Some(rows) = data.get::<Rows>() {
            self.part(now_ns, path, rows);
        } else if let Some(quorum) = data.get::<Quorum>() {
            let own = |other: &Change| is_of(other.data(), quorum);
            let logged = before.has(path) || txn.changes.iter().any(own);
            assert!(logged, "a pending quorum belongs to an entry of the log");
        } else if let Some(last) = data.get::<LastParts>() {
            self.last(now_ns, path, last, before);
        } else if let Some(entry) = data.get::<Entry>() {
            if entry.kind == EntryKind::Merge {
                self.merge(now_ns, path, entry, before);
            }
        }
    }

    fn quorum_over(&mut self, now_ns: Ns, path: &str, changes: &[Change], before: &Tree) {
        let Some((root, parallel)) = quorum_at(path) else {
            return;
        };
        let failed = |other: &Change| other.above().path.ends_with("/quorum/failed_parts");
        if changes.iter().any(failed) {
            return;
        }
        let last = |other: &Change| other.path.strip_suffix("/quorum/last_part") == Some(root);
        let left = changes.iter().any(last);
        assert!(
            left != parallel,
            "a reached serial quorum leaves its part in last_part, a parallel one does not"
        );
        let status = before.node(path).data.as_quorum();
        let part = status.part.name();
        let replicas = &before.node(&[root, "/replicas"].concat()).children;
        let has = |replica: &&Rc<str>| {
            let parts = [root, "/replicas/", replica, "/parts"].concat();
            let covers = |name: &Rc<str>| status.part.contained_in(name).is_some();
            before.has(&[&parts, "/", &part].concat())
                || before.node(&parts).children.iter().any(covers)
        };
        let holders = replicas.iter().filter(has).cloned().collect();
        self.push(Fact::QuorumReached {
            now_ns,
            part,
            needed: status.needed,
            holders,
            parallel,
        });
    }

    fn part(&mut self, now_ns: Ns, path: &str, rows: &[Row]) {
        let (parts, name) = split(path);
        let Some(own) = parts.strip_suffix("/parts") else {
            return;
        };
        let (replicas, replica) = split(own);
        let root = replicas
            .strip_suffix("/replicas")
            .expect("a replica's path");
        let name = match &**self.first.get_or_insert_with(|| root.into()) == root {
            true => name.into(),
            false => format!("{root} {name}"),
        };
        let (replica, hash) = (
            replica.to_owned(),
            crc32fast::hash(rows_repr(rows, '(', ')').as_bytes()),
        );
        self.push(match rows.is_empty() && self.has_other_rows(&name, hash) {
            true => Fact::PartLost {
                now_ns,
                replica,
                name,
            },
            false => Fact::PartAnnounced {
                now_ns,
                replica,
                name,
                hash,
            },
        });
    }

    /// Whether the last part of this name was announced with other rows.
    fn has_other_rows(&self, name: &str, hash: u32) -> bool {
        let known = self.facts.iter().rev().find_map(|fact| match fact {
            Fact::PartAnnounced {
                name: one, hash, ..
            } if one == name => Some(Some(*hash)),
            Fact::PartLost { name: one, .. } if one == name => Some(None),
            _ => None,
        });
        known.flatten().is_some_and(|known| known != hash)
    }

    fn last(&mut self, now_ns: Ns, path: &str, last: &LastParts, before: &Tree) {
        if !path.ends_with("/quorum/last_part") {
            return;
        }
        let old = before.get(path).map(|node| node.data.as_last());
        for (partition, part) in last {
            let same = |other: &LastParts| other.iter().any(|(p, i)| p == partition && i == part);
            if !old.is_some_and(same) {
                self.push(Fact::LastPart {
                    now_ns,
                    partition: partition.clone(),
                    number: part.max,
                });
            }
        }
    }

    fn pointer(&mut self, now_ns: Ns, path: &str, to: i64, changes: &[Change], before: &Tree) {
        let Some(own) = path.strip_suffix("/log_pointer") else {
            return;
        };
        let Some(node) = before.get(path) else {
            return;
        };
        let queue = [own, "/queue"].concat();
        let copied = |other: &&Change| other.data().is_some() && other.above().path == queue;
        self.push(Fact::PointerMoved {
            now_ns,
            replica: split(own).1.into(),
            from: node.data.as_number(),
            to,
            copied: changes.iter().filter(copied).count(),
            lost: is_lost(before, own),
        });
    }

    fn merge(&mut self, now_ns: Ns, path: &str, entry: &Entry, before: &Tree) {
        let Some(root) = logged_in(path) else {
            return;
        };
        let election = format!("{root}/leader_election");
        let first = before.node(&election).children.first();
        let leader = first.map(|first| {
            let node = before.node(&format!("{election}/{first}"));
            node.data.as_text().into()
        });
        self.push(Fact::MergeChosen {
            now_ns,
            name: entry.new.name(),
            by: entry.source.clone(),
            leader: leader.unwrap_or_default(),
        });
    }

    fn places(&mut self, now_ns: Ns, root: &str, tree: &Tree) {
        let log = &tree.node(&format!("{root}/log")).children;
        let Some(first) = log.first() else {
            return;
        };
        let place = |replica: &Rc<str>| {
            let own = format!("{root}/replicas/{replica}");
            let pointer = tree.node(&format!("{own}/log_pointer"));
            ReplicaPosition {
                replica: replica.clone(),
                pointer: pointer.data.as_number(),
                active: tree.has(&format!("{own}/is_active")),
                lost: is_lost(tree, &own),
            }
        };
        let replicas = &tree.node(&format!("{root}/replicas")).children;
        self.push(Fact::Positions {
            now_ns,
            first: number_of(first),
            replicas: replicas.iter().map(place).collect(),
        });
    }
}

/// Return whether a node holds the entry of an insert that asks for this quorum.
fn is_of(data: Option<&Data>, quorum: &Quorum) -> bool {
    let entry = data.and_then(Data::get::<Entry>);
    entry.is_some_and(|entry| entry.new == quorum.part && entry.quorum == quorum.needed)
}

/// Return the path of a table, given that of a pending quorum, and whether the quorum is parallel.
fn quorum_at(path: &str) -> Option<(&str, bool)> {
    if let Some(root) = path.strip_suffix("/quorum/status") {
        return Some((root, false));
    }
    let (above, _) = split(path);
    above
        .strip_suffix("/quorum/parallel")
        .map(|root| (root, true))
}

/// Return the path of a table, given that of an entry of its log.
fn logged_in(path: &str) -> Option<&str> {
    let (log, name) = split(path);
    log.strip_suffix("/log")
        .filter(|_| name.starts_with("log-"))
}

fn is_lost(tree: &Tree, own: &str) -> bool {
    tree.node(&[own, "/is_lost"].concat()).data.as_text() == "1"
}

#[cfg(test)]
mod tests {
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
}
