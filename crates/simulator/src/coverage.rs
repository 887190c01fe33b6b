//! Measures what a run has covered, so that a search can tell new behaviour from old: which steps
//! its replicas took in which states, which step followed which, and how near it came to what may
//! go wrong. It sees every committed write of ZooKeeper, as the protocol trace does.
//!
//! A step is one transaction of a table; its kind is the set of kinds of its changes. The state of a
//! table says how many replicas are inactive, lost or far behind, whether an active one leads, whether
//! a quorum is pending, a part has failed, and several inserts are under way. The state of a part says
//! on how many replicas it is and whether its quorum has failed. Both are that coarse so that most
//! runs reach nothing new.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::errors::{BAD_VERSION, NODE_EXISTS, NO_NODE};
use crate::keeper::messages::Txn;
use crate::keeper::paths::{number, number_of, split};
use crate::keeper::tree::{Change, Effect};
use crate::table::entries::{Data, Entry, EntryKind, Quorum};

mod locks;

use locks::Locks;

/// Number of entries from which on a replica is far behind: a tenth of those that may be kept.
const FAR: i64 = 4;
/// Number from which on replicas are not counted.
const MANY: u32 = 2;
/// The number of an actor that is no replica, such as a client's session.
const NOBODY: usize = usize::MAX;
const LOCKS: &str = "/clickhouse/zero_copy/zero_copy_s3/";

// Kinds of changes. A step's kind is a set of them.
const ACTIVATED: u32 = 1;
const DEACTIVATED: u32 = 1 << 1;
const LOST: u32 = 1 << 2;
const RECOVERED: u32 = 1 << 3;
const ALLOCATED: u32 = 1 << 4;
const RELEASED: u32 = 1 << 5;
const INSERTED: u32 = 1 << 6;
const MERGED: u32 = 1 << 7;
const MUTATED: u32 = 1 << 8;
const DROPPED: u32 = 1 << 9;
const QUORUM_BEGUN: u32 = 1 << 10;
const QUORUM_JOINED: u32 = 1 << 11;
const QUORUM_OVER: u32 = 1 << 12;
const LAST_PART: u32 = 1 << 13;
const FAILED: u32 = 1 << 14;
const ANNOUNCED: u32 = 1 << 15;
const REMOVED: u32 = 1 << 16;
const COPIED: u32 = 1 << 17;
const EXECUTED: u32 = 1 << 18;
const POINTED: u32 = 1 << 19;
const LOG_CUT: u32 = 1 << 20;
const BLOCK_ADDED: u32 = 1 << 21;
const BLOCK_FORGOTTEN: u32 = 1 << 22;
const CANDIDATE: u32 = 1 << 23;
const CANDIDATE_GONE: u32 = 1 << 24;
const ORDERED: u32 = 1 << 25;
const ALTERED: u32 = 1 << 28;
// Steps without changes.
const ELECTED: u32 = 1 << 26;
const REFUSED: u32 = 1 << 27;

/// How near a run came to what may go wrong: the greatest values of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Distances {
    /// Number of committed writes that a ZooKeeper server did not have when it answered a read.
    pub read_lag: u64,
    /// Number of entries of the log that an active replica had not copied.
    pub log_lag: u64,
    /// Number of steps of a table during which one quorum was pending, the last of parallel ones.
    pub quorum_steps: u64,
}

/// What a run has covered.
#[derive(Default)]
pub struct Coverage {
    distances: Distances,
    epoch: u64,
    roots: Vec<Box<str>>,
    tables: Vec<Table>,
    locks: Locks,
    /// By session: the number of its replica.
    actors: FxHashMap<u64, usize>,
    names: Vec<Box<str>>,
    reached: Reached,
}

/// What was reached.
#[derive(Default)]
struct Reached {
    /// Hashes of a state and a step.
    states: FxHashSet<u32>,
}

impl Reached {
    fn state(&mut self, of: impl Hash) {
        self.states.insert(hashed(of));
    }
}

#[derive(Default)]
struct Replica {
    active: bool,
    lost: bool,
    pointer: i64,
}

#[derive(Default)]
struct Table {
    replicas: Vec<Replica>,
    log_end: i64,
    /// Candidates in the order of their numbers; the first one leads.
    candidates: Vec<(i64, usize)>,
    /// Steps since the pending quorum began.
    quorum: Option<u64>,
    failed: u64,
    inserts: u64,
    /// By the hash of its name.
    parts: FxHashMap<u32, Part>,
    /// Parts that the current step concerns.
    touched: Vec<u32>,
}

/// A part of a table.
#[derive(Default)]
struct Part {
    holders: u32,
    failed: bool,
    /// Replica that took the last step which concerned it.
    actor: Option<usize>,
}

impl Coverage {
    /// Take a committed transaction.
    pub fn committed(&mut self, txn: &Txn) {
        if txn.zxid.0 != self.epoch {
            self.epoch = txn.zxid.0;
            for at in 0..self.tables.len() {
                let before = self.tables[at].state();
                self.step(at, before, ELECTED, NOBODY);
            }
        }
        if let Err(error) = &txn.answer {
            if let Some((at, _)) = self.place(&error.path) {
                let actor = self.actor(txn);
                let codes = [NO_NODE, NODE_EXISTS, BAD_VERSION];
                let code = codes.iter().position(|code| *code == error.code);
                let refused = REFUSED | code.map_or(0, |code| 1 << code);
                let before = self.tables[at].state();
                self.step(at, before, refused, actor);
            }
            return;
        }
        let mut open: Option<(usize, u64, u32)> = None;
        for change in &txn.changes {
            if let Some(rest) = change.path.strip_prefix(LOCKS) {
                let actor = self.actor(txn);
                self.locks.change(rest, change, actor, &mut self.reached);
                continue;
            }
            let Some((at, from)) = self.place(&change.path) else {
                self.found(&change.path);
                continue;
            };
            if open.is_none_or(|(other, _, _)| other != at) {
                self.close(open, txn);
                open = Some((at, self.tables[at].state(), 0));
            }
            let rest = &change.path[from..];
            let kind = self.tables[at].change(rest, change, &mut self.names);
            if kind == ACTIVATED {
                let name = rest.split('/').nth(1).unwrap_or_default();
                let number = numbered(&mut self.names, name);
                self.actors.insert(txn.session, number);
            }
            if let Some((_, _, step)) = &mut open {
                *step |= kind;
            }
        }
        self.close(open, txn);
    }

    /// Return the elements that were covered, in order, and the distances; `read_lag` is one of
    /// them. Each distance, rounded down to a power of 2, is an element too.
    pub fn covered(&self, read_lag: usize) -> (Vec<u32>, Distances) {
        let distances = Distances {
            read_lag: read_lag as u64,
            ..self.distances
        };
        let mut out: Vec<u32> = self.reached.states.iter().copied().collect();
        let Distances {
            read_lag,
            log_lag,
            quorum_steps,
        } = distances;
        for (at, value) in [read_lag, log_lag, quorum_steps].into_iter().enumerate() {
            let logs = 1..=value.checked_ilog2().unwrap_or(0);
            out.extend(logs.map(|log| hashed(("distance", at, log))));
        }
        out.sort_unstable();
        out.dedup();
        (out, distances)
    }

    /// Return the table of a path, and where the table's own part of the path begins.
    fn place(&self, path: &str) -> Option<(usize, usize)> {
        let own = |root: &str| {
            let rest = path.strip_prefix(root)?;
            rest.starts_with('/').then_some(root.len() + 1)
        };
        let mut roots = self.roots.iter().enumerate();
        roots.find_map(|(at, root)| Some((at, own(root)?)))
    }

    /// Note a table, whose list of replicas was created.
    #[cold]
    fn found(&mut self, path: &str) {
        if let Some(root) = path.strip_suffix("/replicas") {
            self.roots.push(root.into());
            self.tables.push(Table::default());
        }
    }

    fn actor(&self, txn: &Txn) -> usize {
        self.actors.get(&txn.session).copied().unwrap_or(NOBODY)
    }

    fn close(&mut self, open: Option<(usize, u64, u32)>, txn: &Txn) {
        if let Some((at, before, step)) = open {
            if step != 0 {
                let actor = self.actor(txn);
                self.step(at, before, step, actor);
            }
        }
    }

    fn step(&mut self, at: usize, before: u64, step: u32, actor: usize) {
        let (table, reached) = (&mut self.tables[at], &mut self.reached);
        reached.state((before, step));
        for name in std::mem::take(&mut table.touched) {
            let part = table.parts.entry(name).or_default();
            let same = part.actor.replace(actor) == Some(actor);
            reached.state(("part", part.holders.min(MANY), part.failed, step, same));
        }
        if let Some(steps) = &mut table.quorum {
            *steps += 1;
            self.distances.quorum_steps = self.distances.quorum_steps.max(*steps);
        }
        let active = table.replicas.iter().filter(|replica| replica.active);
        let lag = active.map(|replica| table.log_end - replica.pointer).max();
        let lag = lag.unwrap_or(0).max(0) as u64;
        self.distances.log_lag = self.distances.log_lag.max(lag);
    }
}

impl Table {
    /// Return a number for the state of the table.
    fn state(&self) -> u64 {
        let count = |is: &dyn Fn(&Replica) -> bool| {
            let many = self.replicas.iter().filter(|replica| is(replica)).count();
            many.min(MANY as usize) as u64
        };
        let leader = self.candidates.first().map(|first| first.1);
        let leader = leader.and_then(|at| self.replicas.get(at));
        let digits = [
            u64::from(self.quorum.is_some()),
            u64::from(self.failed > 0),
            u64::from(self.inserts > 1),
            u64::from(leader.is_some_and(|replica| replica.active)),
            count(&|replica| !replica.active),
            count(&|replica| replica.lost),
            count(&|replica| self.log_end - replica.pointer >= FAR),
        ];
        let base = u64::from(MANY) + 1;
        digits
            .into_iter()
            .fold(0, |code, digit| code * base + digit)
    }

    /// Apply a change, whose path within the table is given, and return its kind.
    fn change(&mut self, rest: &str, change: &Change, names: &mut Vec<Box<str>>) -> u32 {
        let created = matches!(change.effect, Effect::Created(_));
        let removed = matches!(change.effect, Effect::Removed);
        let (above, _) = split(&change.path);
        let mut words = rest.splitn(4, '/');
        let (first, second) = (words.next().unwrap_or(""), words.next());
        match (first, second, change.data()) {
            ("replicas", Some(name), data) => {
                let at = numbered(names, name);
                if self.replicas.len() <= at {
                    self.replicas.resize_with(at + 1, Replica::default);
                }
                let (what, third) = (words.next().unwrap_or(""), words.next());
                self.of_replica(at, what, third, data, created, removed)
            }
            ("log", Some(_), Some(data)) if created => self.logged(number_of(&change.path), data),
            ("log", Some(_), None) => LOG_CUT,
            ("quorum", Some("status"), Some(data)) => self.pending(data, created),
            ("quorum", Some("parallel"), Some(data)) => self.pending(data, created),
            ("quorum", Some("status" | "parallel"), None) => {
                self.quorum = None;
                QUORUM_OVER
            }
            ("quorum", Some("last_part"), Some(_)) if !created => LAST_PART,
            ("quorum", Some("failed_parts"), _) => match words.next() {
                Some(part) if created => {
                    self.failed += 1;
                    self.touch(part).failed = true;
                    FAILED
                }
                _ => 0,
            },
            ("block_numbers", Some(_), _) if words.next().is_some() => {
                self.inserts = if created {
                    self.inserts + 1
                } else {
                    self.inserts.saturating_sub(1)
                };
                [RELEASED, ALLOCATED][usize::from(created)]
            }
            ("blocks", Some(_), _) => [BLOCK_FORGOTTEN, BLOCK_ADDED][usize::from(created)],
            ("leader_election", Some(_), data) => match number(&change.path) {
                Some(number) => {
                    let name = data.map(|name| numbered(names, name.as_text()));
                    self.candidate(number, name)
                }
                None => 0, // the node of 25.8, where every replica leads
            },
            ("mutations", Some(_), _) if created && !above.ends_with("/replicas") => ORDERED,
            _ => 0,
        }
    }

    fn pending(&mut self, data: &Data, created: bool) -> u32 {
        let Some(quorum) = data.get::<Quorum>() else {
            return 0;
        };
        let steps = self.quorum.filter(|_| !created);
        self.quorum = Some(steps.unwrap_or(0));
        self.touch(&quorum.part.name());
        [QUORUM_JOINED, QUORUM_BEGUN][usize::from(created)]
    }

    /// A candidate came, or went if no replica is given.
    fn candidate(&mut self, number: i64, replica: Option<usize>) -> u32 {
        self.candidates.retain(|(other, _)| *other != number);
        self.candidates.extend(replica.map(|at| (number, at)));
        [CANDIDATE_GONE, CANDIDATE][usize::from(replica.is_some())]
    }

    fn logged(&mut self, number: i64, data: &Data) -> u32 {
        self.log_end = number + 1;
        let Some(entry) = data.get::<Entry>() else {
            return 0;
        };
        self.touch(&entry.name);
        match entry.kind {
            EntryKind::Get | EntryKind::Attach | EntryKind::Replace => INSERTED,
            EntryKind::Merge => MERGED,
            EntryKind::Mutate => MUTATED,
            EntryKind::Drop | EntryKind::Detach => DROPPED,
            EntryKind::Alter => ALTERED,
        }
    }

    fn of_replica(
        &mut self,
        at: usize,
        what: &str,
        name: Option<&str>,
        data: Option<&Data>,
        created: bool,
        removed: bool,
    ) -> u32 {
        let replica = &mut self.replicas[at];
        match (what, name, data) {
            ("is_active", None, _) => {
                replica.active = created;
                [DEACTIVATED, ACTIVATED][usize::from(created)]
            }
            ("is_lost", None, Some(data)) => {
                replica.lost = data.as_text() == "1";
                [RECOVERED, LOST][usize::from(replica.lost)]
            }
            ("log_pointer", None, Some(Data::Number(to))) => {
                replica.pointer = *to;
                POINTED
            }
            ("queue", Some(_), _) if created => COPIED,
            ("queue", Some(_), _) if removed => EXECUTED,
            ("parts", Some(part), _) => {
                let part = self.touch(part);
                part.holders = if created {
                    part.holders + 1
                } else {
                    part.holders.saturating_sub(1)
                };
                [REMOVED, ANNOUNCED][usize::from(created)]
            }
            _ => 0,
        }
    }

    /// Note that the current step concerns a part, and return it.
    fn touch(&mut self, part: &str) -> &mut Part {
        let name = hashed(part);
        if !self.touched.contains(&name) {
            self.touched.push(name);
        }
        self.parts.entry(name).or_default()
    }
}

/// Return the number of a replica by its name, the next one if it is new.
fn numbered(names: &mut Vec<Box<str>>, name: &str) -> usize {
    let known = names.iter().position(|other| **other == *name);
    known.unwrap_or_else(|| {
        names.push(name.into());
        names.len() - 1
    })
}

fn hashed(of: impl Hash) -> u32 {
    let mut hasher = FxHasher::default();
    of.hash(&mut hasher);
    (hasher.finish() >> 32) as u32
}
