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
            self.part(now_ns, path, rows, before);
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

    fn part(&mut self, now_ns: Ns, path: &str, rows: &[Row], before: &Tree) {
        let (parts, name) = split(path);
        let Some(own) = parts.strip_suffix("/parts") else {
            return;
        };
        let (replicas, replica) = split(own);
        let root = replicas
            .strip_suffix("/replicas")
            .expect("a replica's path");
        let lists = |one: &Rc<str>| before.has(&[replicas, "/", one, "/parts/", name].concat());
        let is_listed = before.node(replicas).children.iter().any(lists);
        let name = match &**self.first.get_or_insert_with(|| root.into()) == root {
            true => name.into(),
            false => format!("{root} {name}"),
        };
        let (replica, hash) = (
            replica.to_owned(),
            crc32fast::hash(rows_repr(rows, '(', ')').as_bytes()),
        );
        let is_lost = rows.is_empty() && !is_listed && self.has_other_rows(&name, hash);
        self.push(match is_lost {
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
mod tests;
