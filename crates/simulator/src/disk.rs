//! Models the disk of one server: the faults in force, and what a power cut leaves.
//!
//! The rules are those of the disk that real servers get (crates/faulty_disk): data is durable after
//! an fsync of its file, or once it is 30 s old; changes of metadata are journalled by any fsync, or
//! after 5 s; an fsync that fails leaves its pages clean, so that nothing ever writes them.

use std::cell::{Cell, RefCell};

use crate::world::{Ns, SECOND};
use seed::Seed;

/// Age at which the kernel writes data by itself (dirty_expire_centisecs).
const WRITEBACK_NS: Ns = 30 * SECOND;
/// Age at which the journal commits changes of metadata by itself (commit=5 of ext4).
const JOURNAL_NS: Ns = 5 * SECOND;

/// What servers sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// ZooKeeper its log, ClickHouse no part.
    #[default]
    Default,
    /// Also inserted parts.
    Inserts,
    /// All parts.
    All,
    /// Nothing.
    Never,
}

impl Fsync {
    pub fn from_name(name: &str) -> Option<Fsync> {
        Some(match name {
            "default" => Fsync::Default,
            "inserts" => Fsync::Inserts,
            "all" => Fsync::All,
            "never" => Fsync::Never,
            _ => return None,
        })
    }
}

/// A kind of fault, by the name that nemeses use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    Full,
    ReadOnly,
    Slow,
    FailReads,
    FailWrites,
    /// The next fsync fails, and only that one.
    FailSync,
}

impl FaultKind {
    pub fn from_name(name: &str) -> Option<FaultKind> {
        Some(match name {
            "full" => FaultKind::Full,
            "readonly" => FaultKind::ReadOnly,
            "slow" => FaultKind::Slow,
            "fail-reads" => FaultKind::FailReads,
            "fail-writes" => FaultKind::FailWrites,
            "fail-sync" => FaultKind::FailSync,
            _ => return None,
        })
    }
}

/// A kind of request, as far as faults distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Read,
    /// A write that needs space.
    Grow,
    /// A change that needs none, such as the removal of a name.
    Change,
    Sync,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    Full,
    ReadOnly,
    Io,
}

impl Trouble {
    /// Returns the name of the error number.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::Full => "ENOSPC",
            Trouble::ReadOnly => "EROFS",
            Trouble::Io => "EIO",
        }
    }
}

/// Whether a power cut would take the data of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It would, unless the data is old.
    Cached,
    Synced,
    /// Its fsync failed, so that it is never written.
    Dropped,
}

/// What the files of a part say to whoever reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Whole,
    /// Columns or marks are damaged: every reader notices.
    BadData,
    /// The index, the columns' list, the count or the checksums are damaged, which the server has
    /// in memory: whoever loads, sends or checks the part notices.
    BadIndex,
}

/// What a power cut took.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Changes of metadata: parts that came or went, or entries of ZooKeeper's log.
    pub changes: u64,
    /// Pages of files; a file of a simulated part has one.
    pub pages: u64,
    pub files: u64,
    /// Number of changes and pages that survived though they were not durable.
    pub kept: u64,
}

struct Rule {
    name: Box<str>,
    kind: FaultKind,
    delay_ns: Ns,
    hits: u64,
}

/// The answer to a request: its delay, and whether it failed.
pub type Served = (Ns, Result<(), Trouble>);

/// A server's disk. It outlives the server's lives.
pub struct Device {
    /// The faults in force.
    rules: RefCell<Vec<Rule>>,
    /// Whether some part on it was ever damaged.
    damaged: Cell<bool>,
    /// Whether no fault is in force and nothing was ever damaged.
    quiet: Cell<bool>,
    pub fsync: Cell<Fsync>,
    /// Everything that was written until then is durable.
    flushed_ns: Cell<Ns>,
    /// Every change of metadata that was made until then is durable.
    journalled_ns: Cell<Ns>,
    marks: Cell<Option<Marks>>,
}

impl Default for Device {
    fn default() -> Device {
        Device {
            rules: RefCell::default(),
            damaged: Cell::new(false),
            quiet: Cell::new(true),
            fsync: Cell::default(),
            flushed_ns: Cell::new(-1),
            journalled_ns: Cell::new(-1),
            marks: Cell::new(None),
        }
    }
}

impl Device {
    // --- faults ---------------------------------------------------------------------------------

    /// Whether every request is served at once and everything is read as it was written.
    #[inline(always)]
    pub fn quiet(&self) -> bool {
        self.quiet.get()
    }

    fn look(&self) {
        let quiet = self.rules.borrow().is_empty() && !self.damaged.get();
        self.quiet.set(quiet);
    }

    /// Begins a fault, in place of an earlier one of this name.
    pub fn set(&self, name: &str, kind: FaultKind, delay_ns: Ns) {
        self.clear(name);
        self.rules.borrow_mut().push(Rule {
            name: name.into(),
            kind,
            delay_ns,
            hits: 0,
        });
        self.look();
    }

    /// Ends a fault; no-op if it is not in force.
    pub fn clear(&self, name: &str) {
        self.rules.borrow_mut().retain(|rule| *rule.name != *name);
        self.look();
    }

    /// Returns how many requests of servers each fault in force applied to.
    pub fn hits(&self) -> Vec<(String, u64)> {
        let rules = self.rules.borrow();
        let hits = rules.iter().map(|rule| (rule.name.to_string(), rule.hits));
        hits.collect()
    }

    /// Notes that a part was damaged.
    pub fn damage(&self) {
        self.damaged.set(true);
        self.look();
    }

    /// Serves so many requests of one kind, of which the first may fail.
    pub fn serve(&self, request: Request, count: u64) -> Served {
        self.decide(request, count, false)
    }

    /// Serves a probe's request, which is not counted and uses up no fault that strikes once.
    pub fn probe(&self, request: Request) -> Served {
        self.decide(request, 1, true)
    }

    /// Whether a server can write there.
    pub fn writable(&self) -> bool {
        self.quiet() || self.probe(Request::Grow).1.is_ok()
    }

    fn decide(&self, request: Request, count: u64, probe: bool) -> Served {
        let (mut delay_ns, mut done) = (0, Ok(()));
        for rule in self.rules.borrow_mut().iter_mut() {
            let failed = match (rule.kind, request) {
                (FaultKind::Full, Request::Grow) => Trouble::Full,
                (FaultKind::ReadOnly, Request::Grow | Request::Change) => Trouble::ReadOnly,
                (FaultKind::FailReads, Request::Read)
                | (FaultKind::FailWrites, Request::Grow | Request::Sync) => Trouble::Io,
                (FaultKind::FailSync, Request::Sync) if rule.hits == 0 && !probe => Trouble::Io,
                (FaultKind::Slow, Request::Read | Request::Grow | Request::Sync) => {
                    delay_ns += rule.delay_ns * count as Ns;
                    rule.hits += if probe { 0 } else { count };
                    continue;
                }
                _ => continue,
            };
            if done.is_ok() {
                rule.hits += u64::from(!probe);
                done = Err(failed);
            }
        }
        // Whoever is refused waits for the refusal alone.
        (if done.is_ok() { delay_ns } else { 0 }, done)
    }

    // --- durability -----------------------------------------------------------------------------

    /// Makes everything that was written until now durable, but for what a failed fsync dropped.
    pub fn flush(&self, now_ns: Ns) {
        self.flushed_ns.set(now_ns);
        self.journalled_ns.set(now_ns);
    }

    /// Commits the changes of metadata until now, as an fsync of any file does.
    pub fn commit_journal(&self, now_ns: Ns) {
        self.journalled_ns.set(now_ns);
    }

    /// Whether data survives a power cut.
    pub fn keeps(&self, written: Written, at_ns: Ns, now_ns: Ns) -> bool {
        match written {
            Written::Synced => true,
            Written::Cached => at_ns <= self.flushed_ns.get() || now_ns - at_ns >= WRITEBACK_NS,
            Written::Dropped => false,
        }
    }

    /// Whether a change of metadata survives a power cut.
    pub fn keeps_change(&self, at_ns: Ns, now_ns: Ns) -> bool {
        at_ns <= self.journalled_ns.get() || now_ns - at_ns >= JOURNAL_NS
    }

    /// Returns the time until which everything that was written is durable, of a server that syncs
    /// nothing.
    pub fn durable_until_ns(&self, now_ns: Ns) -> Ns {
        self.flushed_ns.get().max(now_ns - WRITEBACK_NS)
    }

    /// Writes two files, of which one is synced.
    pub fn mark(&self, now_ns: Ns) {
        let (_, wrote) = self.probe(Request::Grow);
        let (_, synced) = self.probe(Request::Sync);
        let synced = match (wrote, synced) {
            (Ok(()), Ok(())) => Written::Synced,
            _ => Written::Dropped,
        };
        if synced == Written::Synced {
            self.commit_journal(now_ns);
        }
        self.marks.set(Some(Marks {
            synced,
            unsynced: wrote.map_or(Written::Dropped, |()| Written::Cached),
            at_ns: now_ns,
        }));
    }

    /// Returns whether the synced and the other of the files that were written last survive a power
    /// cut; a torn one may keep the other. Neither does if none was written.
    pub fn marked(&self, torn: Option<Seed>, now_ns: Ns) -> (bool, bool) {
        let Some(marks) = self.marks.take() else {
            return (false, false);
        };
        let keeps = |written| self.keeps(written, marks.at_ns, now_ns);
        let torn = torn.is_some_and(|seed| seed.below(MARK_DRAW, 2) == 1);
        let unsynced = keeps(marks.unsynced) || (torn && marks.unsynced == Written::Cached);
        (keeps(marks.synced), unsynced)
    }
}

/// Number of the draw that decides what becomes of the file that was not synced.
const MARK_DRAW: u64 = 1 << 40;

/// Two files by which the loss of a power cut is seen.
pub struct Marks {
    synced: Written,
    unsynced: Written,
    at_ns: Ns,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::MS;

    #[test]
    fn a_fault_strikes_the_requests_of_its_kind() {
        let device = Device::default();
        assert!(device.quiet());
        device.set("disk-full", FaultKind::Full, 0);
        assert_eq!(device.serve(Request::Grow, 3), (0, Err(Trouble::Full)));
        assert_eq!(device.serve(Request::Change, 1), (0, Ok(())));
        assert_eq!(device.serve(Request::Read, 1), (0, Ok(())));
        assert_eq!(device.hits(), [("disk-full".to_owned(), 1)]);
        device.clear("disk-full");
        assert!(device.quiet());
        device.set("disk-slow", FaultKind::Slow, 20 * MS);
        assert_eq!(device.serve(Request::Read, 5), (100 * MS, Ok(())));
        assert_eq!(device.hits(), [("disk-slow".to_owned(), 5)]);
    }

    #[test]
    fn one_fsync_fails_and_a_probe_does_not_use_it_up() {
        let device = Device::default();
        device.set("disk-eio-fsync", FaultKind::FailSync, 0);
        assert_eq!(device.probe(Request::Sync), (0, Ok(())));
        assert_eq!(device.serve(Request::Sync, 1), (0, Err(Trouble::Io)));
        assert_eq!(device.serve(Request::Sync, 1), (0, Ok(())));
    }

    #[test]
    fn data_is_durable_when_it_was_synced_or_is_old() {
        let device = Device::default();
        device.flush(SECOND);
        let keeps = |written, at_ns| device.keeps(written, at_ns, 40 * SECOND);
        assert!(keeps(Written::Cached, SECOND) && keeps(Written::Cached, 10 * SECOND));
        assert!(!keeps(Written::Cached, 11 * SECOND) && keeps(Written::Synced, 39 * SECOND));
        assert!(!keeps(Written::Dropped, SECOND));
        assert!(device.keeps_change(35 * SECOND, 40 * SECOND));
        assert!(!device.keeps_change(36 * SECOND, 40 * SECOND));
        device.commit_journal(37 * SECOND);
        assert!(device.keeps_change(36 * SECOND, 40 * SECOND));
    }
}
