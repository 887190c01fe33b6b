//! What was agreed on in ZooKeeper, as facts for the checkers: every committed write is seen here.

mod written;

use std::rc::Rc;

use crate::keeper::messages::Txn;
use crate::keeper::paths::split;
use crate::keeper::tree::{Change, Tree};
use crate::table::entries::{Data, Entry, EntryKind, LastParts};
use crate::table::parts::{spelled_rows, Row};
use crate::world::{Ns, MS};

pub use written::written;

/// Of note. Each begins with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// The quorum of a part ended, so many were needed, and these had it.
    Ended {
        now_ns: Ns,
        part: String,
        needed: usize,
        holders: Vec<Rc<str>>,
    },
    /// last_part of a partition became this block.
    Last {
        now_ns: Ns,
        partition: Rc<str>,
        number: i64,
    },
    /// The log's first entry, and where each replica is.
    Places {
        now_ns: Ns,
        first: i64,
        replicas: Vec<Place>,
    },
    /// Of a replica: from, to, entries that it copied to its queue, whether it was lost.
    Pointer {
        now_ns: Ns,
        replica: String,
        from: i64,
        to: i64,
        copied: usize,
        lost: bool,
    },
    /// A replica announced a part, with a hash of its rows.
    Part {
        now_ns: Ns,
        replica: String,
        name: String,
        hash: u32,
    },
    /// A part was chosen by a replica while a leader was first in line.
    Merge {
        now_ns: Ns,
        name: String,
        by: Rc<str>,
        leader: Rc<str>,
    },
    /// A session ended after so many milliseconds of silence, of so many that it was allowed.
    Session {
        now_ns: Ns,
        silent_ms: i64,
        allowed_ms: i64,
    },
}

/// Of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub replica: Rc<str>,
    pub pointer: i64,
    pub active: bool,
    pub lost: bool,
}

/// Of all tables of one cluster.
#[derive(Default)]
pub struct Record {
    pub facts: Vec<Fact>,
    /// How many entries of ZooKeeper's log.
    pub seen: usize,
}

impl Record {
    /// A committed entry of the log, and the tree that it has yet to change.
    pub fn saw(&mut self, now_ns: Ns, txn: &Txn, before: &Tree) {
        for change in &txn.changes {
            let path = &*change.path;
            match change.data() {
                None => self.quorum_over(now_ns, path, &txn.changes, before),
                Some(Data::Rows(rows)) => self.part(now_ns, path, rows),
                Some(Data::Number(to)) => self.pointer(now_ns, path, *to, &txn.changes, before),
                Some(Data::Last(last)) => self.last(now_ns, path, last, before),
                Some(Data::Entry(entry)) if entry.kind == EntryKind::Merge => {
                    self.merge(now_ns, path, entry, before);
                }
                Some(_) => {}
            }
        }
    }

    /// The same entry, and the tree that it has changed.
    pub fn saw_after(&mut self, now_ns: Ns, txn: &Txn, after: &Tree) {
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

    /// A session expired that was silent for so long while its leader ran.
    pub fn session_ended(&mut self, now_ns: Ns, silent_ns: Ns, allowed_ns: Ns) {
        self.facts.push(Fact::Session {
            now_ns,
            silent_ms: silent_ns.div_euclid(MS),
            allowed_ms: allowed_ns.div_euclid(MS),
        });
    }

    fn quorum_over(&mut self, now_ns: Ns, path: &str, changes: &[Change], before: &Tree) {
        let Some(root) = path.strip_suffix("/quorum/status") else {
            return;
        };
        let failed = |other: &Change| other.above().path.ends_with("/quorum/failed_parts");
        if changes.iter().any(failed) {
            return;
        }
        let status = before.node(path).data.as_quorum();
        let part = status.part.name();
        let replicas = &before.node(&[root, "/replicas"].concat()).children;
        let has = |replica: &&Rc<str>| {
            before.has(&[root, "/replicas/", replica, "/parts/", &part].concat())
        };
        let holders = replicas.iter().filter(has).cloned().collect();
        self.facts.push(Fact::Ended {
            now_ns,
            part,
            needed: status.needed,
            holders,
        });
    }

    fn part(&mut self, now_ns: Ns, path: &str, rows: &[Row]) {
        let (parts, name) = split(path);
        let Some(own) = parts.strip_suffix("/parts") else {
            return;
        };
        let (_, replica) = split(own);
        self.facts.push(Fact::Part {
            now_ns,
            replica: replica.into(),
            name: name.into(),
            hash: crc32fast::hash(spelled_rows(rows, '(', ')').as_bytes()),
        });
    }

    fn last(&mut self, now_ns: Ns, path: &str, last: &LastParts, before: &Tree) {
        if !path.ends_with("/quorum/last_part") {
            return;
        }
        let old = before.get(path).map(|node| node.data.as_last());
        for (partition, part) in last {
            let same = |other: &LastParts| other.iter().any(|(p, i)| p == partition && i == part);
            if !old.is_some_and(|old| same(old)) {
                self.facts.push(Fact::Last {
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
        self.facts.push(Fact::Pointer {
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
        self.facts.push(Fact::Merge {
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
            Place {
                replica: replica.clone(),
                pointer: pointer.data.as_number(),
                active: tree.has(&format!("{own}/is_active")),
                lost: is_lost(tree, &own),
            }
        };
        let replicas = &tree.node(&format!("{root}/replicas")).children;
        self.facts.push(Fact::Places {
            now_ns,
            first: number(first),
            replicas: replicas.iter().map(place).collect(),
        });
    }
}

/// Of an entry of a log: the path of its table.
fn logged_in(path: &str) -> Option<&str> {
    let (log, name) = split(path);
    log.strip_suffix("/log")
        .filter(|_| name.starts_with("log-"))
}

fn number(entry: &str) -> i64 {
    let number = entry.strip_prefix("log-").map(str::parse);
    number.and_then(Result::ok).expect("an entry has a number")
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

    /// One table of two replicas, and what was seen of it.
    struct Seen {
        record: Record,
        tree: Tree,
    }

    impl Seen {
        fn new() -> Seen {
            let mut seen = Seen {
                record: Record::default(),
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
            let (changes, done) = planned.expect("nothing forbids it");
            let txn = Txn {
                zxid: (1, 0),
                origin: 0,
                session: 1,
                xid: 1,
                changes,
                answer: Ok(Answered::Done(done.into())),
                time_ns: 0,
            };
            self.record.saw(5, &txn, &self.tree);
            for change in &txn.changes {
                self.tree.change(change);
            }
            self.record.saw_after(5, &txn, &self.tree);
        }

        fn facts(&mut self) -> Vec<Fact> {
            std::mem::take(&mut self.record.facts)
        }
    }

    fn part(name: &str) -> Info {
        Info::named(name)
    }

    fn entry(kind: EntryKind, name: &str) -> Data {
        Data::Entry(Rc::new(Entry {
            kind,
            source: "r1".into(),
            ..Entry::get(part(name))
        }))
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
            Operation::create("/t/replicas/r1/parts/all_0_0_0", Data::Rows([rows].into())),
            Operation::create("/t/quorum/status", Data::Quorum(Rc::new(status))),
            Operation::create("/t/quorum/last_part", Data::Last(Rc::default())),
        ]);
        let announced = Fact::Part {
            now_ns: 5,
            replica: "r1".into(),
            name: "all_0_0_0".into(),
            hash: crc32fast::hash(b"((1, 'a'),)"),
        };
        assert_eq!(seen.facts(), [announced]);
        let last = || Data::Last(Rc::new(vec![("all".into(), part("all_0_0_0"))]));
        seen.commit(&[
            Operation::remove("/t/quorum/status"),
            Operation::put("/t/quorum/last_part", last()),
        ]);
        let ended = Fact::Ended {
            now_ns: 5,
            part: "all_0_0_0".into(),
            needed: 2,
            holders: vec!["r1".into()],
        };
        let became = Fact::Last {
            now_ns: 5,
            partition: "all".into(),
            number: 0,
        };
        assert_eq!(seen.facts(), [ended, became]);
        seen.commit(&[Operation::put("/t/quorum/last_part", last())]);
        assert_eq!(seen.facts(), [], "it is the same");
    }

    #[test]
    fn a_failed_quorum_has_not_ended() {
        let mut seen = Seen::new();
        let status = Quorum {
            part: part("all_0_0_0"),
            needed: 2,
            replicas: Vec::new(),
        };
        let status = Data::Quorum(Rc::new(status));
        seen.commit(&[Operation::create("/t/quorum/status", status)]);
        seen.commit(&[
            Operation::remove("/t/quorum/status"),
            Operation::create("/t/quorum/failed_parts/all_0_0_0", Data::default()),
        ]);
        assert_eq!(seen.facts(), []);
    }

    #[test]
    fn the_log_and_its_pointers() {
        let mut seen = Seen::new();
        let merge = |name| entry(EntryKind::Merge, name);
        seen.commit(&[Operation::numbered("/t/log/log-", merge("all_0_1_1"))]);
        let chosen = |leader: &str| Fact::Merge {
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
        let moved = Fact::Pointer {
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
        let place = |replica: &str, pointer, active, lost| Place {
            replica: replica.into(),
            pointer,
            active,
            lost,
        };
        let places = Fact::Places {
            now_ns: 5,
            first: 1,
            replicas: vec![place("r1", 0, false, true), place("r2", 2, true, false)],
        };
        assert_eq!(seen.facts(), [places]);
    }
}
