//! Models one replica of a table: its parts, its session with ZooKeeper, and the shared state of
//! its tasks.
//!
//! Source: StorageReplicatedMergeTree of 18.16.1.

use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::bugs::{Bug, Bugs};
use crate::disk::{Device, Written};
use crate::errors::{KeeperError, ServerError, SESSION_EXPIRED};
use crate::keeper::session::{KeeperSession, Readings};
use crate::keeper::tree::{Names, Path};
use crate::protocol::Mechanisms;
use crate::server::host::ReplicaServer;
use crate::table::active_parts::ActivePartSet;
use crate::table::answers::Answers;
use crate::table::entries::{Columns, Mutation};
use crate::table::listed::Listed;
use crate::table::missing::Missing;
use crate::table::parts::{Info, Ordered, Part, UNSEEN};
use crate::table::paths::{ReplicaPaths, TablePaths};
use crate::table::queue::Queue;
use crate::table::references::{References, Storage};
use crate::table::schema::Schema;
use crate::table::settings::TableSettings;
use crate::table::snapshot::deciding;
use crate::table::stored::Stored;
use crate::world::{Lock, Ns, World};

/// A materialized view of a table, on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub name: Rc<str>,
    /// The table into which it writes.
    pub to: Rc<str>,
}

/// The state of a replica's table that survives a restart.
pub struct TableDisk {
    pub name: Rc<str>,
    pub path: Rc<str>,
    /// The schema of its parts.
    pub schema: Rc<Schema>,
    /// The table's columns, also those that were added.
    pub columns: RefCell<Rc<Columns>>,
    pub settings: TableSettings,
    /// The disk on which the files are.
    pub device: Rc<Device>,
    pub parts: RefCell<Stored>,
    /// The parts that were removed last, with the time: a power cut may undo that.
    pub removed: RefCell<VecDeque<(Ns, Rc<Part>)>>,
    /// The detached parts by name.
    pub detached: RefCell<Ordered<Rc<str>, Rc<Part>>>,
    /// The materialized views of the table.
    pub views: RefCell<Vec<View>>,
    pub storage: Storage,
    /// What the parts refer to in the object store.
    pub references: References,
}

/// The mutations that a replica knows, by the names of their nodes, ascending.
pub type Mutations = Vec<(Rc<str>, Rc<Mutation>)>;

/// A replica's table in one life of its server.
pub struct Table {
    pub server: Rc<dyn ReplicaServer>,
    pub world: Rc<World>,
    pub bugs: Bugs,
    pub mechanisms: Mechanisms,
    /// The replica's name.
    pub me: Rc<str>,
    pub name: Rc<str>,
    pub paths: TablePaths,
    /// The paths of this replica.
    pub own: Rc<ReplicaPaths>,
    /// The readings that decide a select.
    pub deciding: Rc<Readings>,
    pub schema: Rc<Schema>,
    pub settings: TableSettings,
    pub disk: Rc<TableDisk>,
    pub active: RefCell<ActivePartSet<Rc<Part>>>,
    pub zk: RefCell<Option<Rc<KeeperSession>>>,
    pub readonly: Cell<bool>,
    pub leader: Cell<bool>,
    pub fetches_stopped: Cell<bool>,
    /// Parts of which a fetch is in progress.
    pub fetching: RefCell<Ordered<Rc<str>, ()>>,
    /// Parts whose insert had an unknown outcome, with the node of the block number.
    pub to_check: RefCell<Ordered<Rc<str>, Path>>,
    pub mutations: RefCell<Mutations>,
    /// The version of the columns that this replica's node in ZooKeeper has (18.16.1).
    pub columns_set: Cell<i64>,
    /// Partitions that are known to have block numbers, with the prefix of these nodes.
    pub numbered: RefCell<FxHashMap<Rc<str>, Path>>,
    pub queue: Queue,
    pub missing: Missing,
    pub pulls: Lock,
    /// Held while a merge is chosen, so that each choice sees the previous ones.
    pub choosing: Lock,
    /// Held while detached parts are attached, so that each is attached once.
    pub attaching: Lock,
    /// Held while a part is checked, and while a drop empties the queue of its range.
    pub checks: Lock,
    /// Held while old parts are removed, and while it is decided which are shown again.
    pub removals: Lock,
    pub dropped: Cell<bool>,
    /// Number of times that this life has become active.
    pub starts: Cell<i64>,
    listed: RefCell<Option<Listed>>,
    pub answers: RefCell<Answers>,
    /// Number of times that a part of the listed active set was removed from the disk or replaced.
    pub replaced: Cell<u64>,
    /// When the next merge because of a TTL is due, by partition, in seconds of the server's clock.
    pub next_expiry_s: RefCell<FxHashMap<Rc<str>, i64>>,
}

impl Table {
    // --- parts ----------------------------------------------------------------------------------

    /// Stores a part on the disk without making it visible.
    pub fn store(&self, part: Rc<Part>) {
        if part.written.get() == Written::Synced {
            // The directory is synced once it has its name (fsync_part_directory).
            self.disk.device.commit_journal(self.world.now_ns());
        }
        if self.disk.parts.borrow_mut().insert(part) {
            self.replaced.set(self.replaced.get() + 1);
        }
    }

    /// Returns the part of this name that is on the disk.
    pub fn part(&self, name: &str) -> Option<Rc<Part>> {
        self.disk.parts.borrow().get(name).cloned()
    }

    /// Makes a part visible in place of those that it covers.
    pub fn activate(&self, part: &Rc<Part>) {
        assert!(
            self.part(&part.name).is_some(),
            "a visible part is on the disk"
        );
        let mut active = self.active.borrow_mut();
        let covered = active.add(&part.info, part.clone());
        let apart = !active.overlaps() || self.bugs.any_planted();
        assert!(apart, "{} and another active part overlap", part.name);
        if active.get(&part.info).is_none() {
            // Another part, which came meanwhile, covers it: it is obsolete.
            part.old_ns.set(self.age_clock_ns().max(1));
        } else if part.old_ns.get() == UNSEEN {
            part.old_ns.set(0);
        }
        drop(active);
        for old in covered {
            assert!(
                part.info.contains(&old.info),
                "a part covers the parts that it replaces"
            );
            old.old_ns.set(self.age_clock_ns().max(1));
        }
    }

    /// Hides the visible parts of a range, which are then removed from the disk.
    pub fn hide(&self, range: &Info) {
        let mut active = self.active.borrow_mut();
        let infos = active.infos(&range.partition);
        let infos: Vec<_> = infos.filter(|info| range.contains(info)).cloned().collect();
        for info in infos {
            let part = active.get(&info).expect("it is visible").clone();
            active.remove(&info);
            part.old_ns.set(1);
            self.replaced.set(self.replaced.get() + 1);
        }
    }

    /// Removes a part from the disk and from the visible parts.
    pub fn forget(&self, part: &Part) {
        let listed = self.listed.borrow();
        let is_shown = |listed: &Listed| listed.cover.get(&part.info).is_some();
        if listed.as_ref().is_some_and(is_shown) {
            self.replaced.set(self.replaced.get() + 1);
        }
        self.active.borrow_mut().remove(&part.info);
        self.disk.remove(&part.name, self.world.now_ns());
        self.disk.references.release(&part.name);
        let shown = self.active.borrow().get(&part.info).is_some();
        assert!(!shown, "a removed part is not visible");
    }

    /// Returns what the server's wall clock shows.
    pub fn wall_ns(&self) -> Ns {
        self.world.wall_ns(self.server.host().node)
    }

    /// Returns the time by which the age of outdated parts is counted: of the wall clock on real
    /// servers (grabOldParts), which may go back.
    pub fn age_clock_ns(&self) -> Ns {
        match self.bugs.has(Bug::OldPartsByWall) {
            true => self.wall_ns(),
            false => self.world.now_ns(),
        }
    }

    /// Returns the table's columns as this replica has them.
    pub fn columns(&self) -> Rc<Columns> {
        self.disk.columns.borrow().clone()
    }

    // --- what queries may use -------------------------------------------------------------------

    /// Returns the session if it is alive, otherwise error 225, which says that the query has done
    /// nothing yet.
    pub fn connected(&self) -> Result<Rc<KeeperSession>, ServerError> {
        let none = |_| ServerError::new(225, "Cannot get ZooKeeper");
        self.session().map_err(none)
    }

    /// Returns the session if it is alive, otherwise the error of every request in it: a query that
    /// may have committed goes on with the session of the moment, even one that has expired
    /// (getZooKeeper).
    pub fn session(&self) -> Result<Rc<KeeperSession>, KeeperError> {
        match &*self.zk.borrow() {
            Some(zk) if zk.alive() => Ok(zk.clone()),
            _ => Err(KeeperError::new(SESSION_EXPIRED)),
        }
    }

    /// Returns error 242 while the replica has not started.
    pub fn started(&self) -> Result<(), ServerError> {
        match self.readonly.get() {
            true => Err(ServerError::new(242, "Table is in readonly mode")),
            false => Ok(()),
        }
    }

    /// Returns the session if the replica has started and it is alive, for a query that has done
    /// nothing yet.
    pub fn writable(&self) -> Result<Rc<KeeperSession>, ServerError> {
        self.started()?;
        self.connected()
    }

    /// Whether this is the replica's session, and it is alive.
    pub fn uses(&self, zk: &Rc<KeeperSession>) -> bool {
        let own = self.zk.borrow();
        own.as_ref().is_some_and(|own| Rc::ptr_eq(own, zk)) && zk.alive() && !self.dropped.get()
    }

    /// Whether the replica leads in this session.
    pub fn leads(&self, zk: &Rc<KeeperSession>) -> bool {
        self.leader.get() && self.uses(zk)
    }

    /// Return a table in one life of its server, which is not started yet.
    pub fn new(server: Rc<dyn ReplicaServer>, disk: Rc<TableDisk>) -> Rc<Table> {
        let host = server.host().clone();
        let (world, paths) = (&host.ensemble.world, TablePaths::new(&disk.path));
        let own = paths.of(&host.name);
        let columns_set = disk.columns.borrow().version;
        Rc::new(Table {
            server,
            world: world.clone(),
            bugs: host.deployment.bugs,
            mechanisms: host.deployment.mechanisms,
            me: host.name.clone(),
            name: disk.name.clone(),
            deciding: deciding(&paths, &own),
            own,
            paths,
            schema: disk.schema.clone(),
            settings: disk.settings.clone(),
            disk,
            active: RefCell::default(),
            zk: RefCell::default(),
            readonly: Cell::new(true),
            leader: Cell::new(false),
            fetches_stopped: Cell::new(false),
            fetching: RefCell::default(),
            to_check: RefCell::default(),
            mutations: RefCell::default(),
            columns_set: Cell::new(columns_set),
            numbered: RefCell::default(),
            queue: Queue::new(world),
            missing: Missing::new(world),
            pulls: Lock::new(world),
            choosing: Lock::new(world),
            attaching: Lock::new(world),
            checks: Lock::new(world),
            removals: Lock::new(world),
            dropped: Cell::new(false),
            starts: Cell::new(0),
            listed: RefCell::default(),
            answers: RefCell::default(),
            replaced: Cell::new(0),
            next_expiry_s: RefCell::default(),
        })
    }

    // --- what ZooKeeper lists -------------------------------------------------------------------

    /// Return the active set of what ZooKeeper lists, cached as long as the list is the same.
    pub fn listed(&self, made: i64, names: &Names) -> Ref<'_, Listed> {
        let replaced = self.replaced.get();
        let part = |name: &str| self.part(name);
        let is_same = |known: &Listed| known.made() == made && known.is_current(replaced);
        if !self.listed.borrow().as_ref().is_some_and(is_same) {
            let known = self.listed.take();
            let known = known.map(|known| known.looked_up(replaced, part));
            self.listed.replace(Some(match known {
                Some(same) if same.made() == made => same,
                Some(before) => before.changed(made, names, replaced, part),
                None => Listed::read(made, names, replaced, part),
            }));
        }
        Ref::map(self.listed.borrow(), |listed| {
            listed.as_ref().expect("the list was read")
        })
    }
}
