//! Replaces disks and replicas of a simulated cluster.
//!
//! Faults of members call it. A run without them never does.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use crate::errors::{KeeperError, ServerError};
use crate::keeper::configuration::MemberRole;
use crate::keeper::messages::Disk;
use crate::keeper::tree::child;
use crate::network::Node;
use crate::simulation::{Host, Simulation};
use crate::table::entries::{Columns, EntryKind};
use crate::table::parts::Part;
use crate::table::references::References;
use crate::table::replica::TableDisk;
use crate::table::stored::Stored;
use crate::world::{Ns, Promise, SECOND};

/// Time for the creation of one table.
const ADD_NS: Ns = 20 * SECOND;

/// Error of a request that was not sent, as no session could be opened.
const NO_SESSION: &str = "NOSESSION";

/// A copy of a server's disk.
enum DiskCopy {
    Keeper(Disk),
    Replica(Vec<TableDisk>),
}

/// Copies of disks and noted tables, by node.
pub struct Members {
    simulation: Rc<Simulation>,
    copies: RefCell<Vec<Option<DiskCopy>>>,
    noted: RefCell<Vec<Vec<TableDisk>>>,
    /// The last life of each replica before its disk was emptied.
    emptied: RefCell<Vec<Option<u64>>>,
}

impl Members {
    /// Returns the members of a cluster, of which nothing is copied or noted.
    pub fn new(simulation: &Rc<Simulation>) -> Members {
        let nodes = simulation.hosts.len();
        Members {
            simulation: simulation.clone(),
            copies: RefCell::new((0..nodes).map(|_| None).collect()),
            noted: RefCell::new((0..nodes).map(|_| Vec::new()).collect()),
            emptied: RefCell::new(vec![None; nodes]),
        }
    }

    // --- disks ----------------------------------------------------------------------------------

    /// Removes the parts of a replica's tables, or everything on a server's disk. Parts in an object
    /// store stay, as their metadata are not among the parts. The server must not run.
    pub fn empty_disk(&self, node: Node, parts_only: bool) {
        self.assert_stopped(node);
        match &self.simulation.hosts[node] {
            Host::Keeper { disk, .. } if !parts_only => {
                self.simulation.ensemble.replaced_disks.set(true);
                disk.replace(Disk::default());
            }
            Host::Replica { disk, .. } if parts_only => {
                for table in disk.tables.borrow().values() {
                    let shared = table.references.parts.borrow();
                    let is_shared = |part: &Part| shared.contains_key(&part.name);
                    table.parts.borrow_mut().retain(is_shared);
                }
            }
            Host::Replica { disk, .. } => {
                disk.tables.borrow_mut().clear();
                self.emptied.borrow_mut()[node] = Some(disk.lives.get());
            }
            Host::Keeper { .. } | Host::Store(_) => {}
        }
    }

    /// Returns how many files a server has: one for each entry of a ZooKeeper server's log; one of a
    /// replica's own, which it makes when it starts, and one for each of its tables and parts. With
    /// `parts_only`, the number of parts outside the store.
    pub fn files(&self, node: Node, parts_only: bool) -> usize {
        match &self.simulation.hosts[node] {
            Host::Keeper { disk, .. } if !parts_only => disk.borrow().log.len(),
            Host::Replica { disk, .. } => {
                let of_table = |table: &Rc<TableDisk>| {
                    let shared = table.references.parts.borrow();
                    let parts = table.parts.borrow();
                    match parts_only {
                        true => parts.some(|part| !shared.contains_key(&part.name)).len(),
                        false => 1 + parts.some(|_| true).len() + table.detached.borrow().len(),
                    }
                };
                let emptied = self.emptied.borrow()[node];
                let own = !parts_only && emptied.is_none_or(|life| disk.lives.get() > life);
                let tables = disk.tables.borrow();
                usize::from(own) + tables.values().map(of_table).sum::<usize>()
            }
            Host::Keeper { .. } | Host::Store(_) => 0,
        }
    }

    /// Whether a server's tables have data in an object store, whose copies a disk does not hold.
    pub fn refers_to_store(&self, node: Node) -> bool {
        let Host::Replica { disk, .. } = &self.simulation.hosts[node] else {
            return false;
        };
        let tables = disk.tables.borrow();
        let refers = tables.values().any(|table| table.storage.on_store);
        refers
    }

    /// Copies a server's disk in place of an older copy.
    pub fn back_up_disk(&self, node: Node) {
        self.assert_stopped(node);
        let copy = match &self.simulation.hosts[node] {
            Host::Keeper { disk, .. } => Some(DiskCopy::Keeper(copy_of_log(&disk.borrow()))),
            Host::Replica { disk, .. } => {
                let tables = disk.tables.borrow();
                let tables = tables.values().map(|table| copy_of_table(table));
                Some(DiskCopy::Replica(tables.collect()))
            }
            Host::Store(_) => None,
        };
        self.copies.borrow_mut()[node] = copy;
    }

    /// Puts the copy in place of a server's disk. Returns whether there is one.
    pub fn restore_disk(&self, node: Node) -> bool {
        self.assert_stopped(node);
        let copies = self.copies.borrow();
        match (&self.simulation.hosts[node], &copies[node]) {
            (Host::Keeper { disk, .. }, Some(DiskCopy::Keeper(copy))) => {
                self.simulation.ensemble.replaced_disks.set(true);
                disk.replace(copy_of_log(copy));
            }
            (Host::Replica { disk, .. }, Some(DiskCopy::Replica(copies))) => {
                self.emptied.borrow_mut()[node] = None;
                let mut tables = disk.tables.borrow_mut();
                tables.clear();
                for table in copies {
                    tables.insert(table.name.clone(), Rc::new(copy_of_table(table)));
                }
            }
            _ => return false,
        }
        true
    }

    fn assert_stopped(&self, node: Node) {
        let stopped = !self.simulation.running(node);
        assert!(stopped, "the disk of a server that runs is its own");
    }

    // --- replicas -------------------------------------------------------------------------------

    /// Notes the tables of a replica, and returns their names.
    pub fn note_tables(&self, node: Node) -> Vec<Rc<str>> {
        let server = self.simulation.server(node);
        let tables = server.disk.tables.borrow();
        let noted: Vec<_> = tables.values().map(|table| empty_table(table)).collect();
        let names = noted.iter().map(|table| table.name.clone()).collect();
        self.noted.borrow_mut()[node] = noted;
        names
    }

    /// Returns the names of the noted tables.
    pub fn noted_tables(&self, node: Node) -> Vec<Rc<str>> {
        let noted = self.noted.borrow();
        noted[node].iter().map(|table| table.name.clone()).collect()
    }

    /// Returns the names of the noted tables that a replica does not have.
    pub fn missing_tables(&self, node: Node) -> Vec<Rc<str>> {
        let server = self.simulation.server(node);
        let (tables, noted) = (server.tables.borrow(), self.noted.borrow());
        let missing = noted[node].iter().map(|table| &table.name);
        let missing = missing.filter(|name| !tables.contains_key(*name));
        missing.cloned().collect()
    }

    /// Returns the creation of a noted table on a replica that runs, with the columns that the table
    /// has now: ALTERs may have changed them, and with others the replica could not join (122).
    pub fn add_table(
        &self,
        node: Node,
        name: &str,
    ) -> impl Future<Output = Result<(), ServerError>> + use<> {
        let server = self.simulation.server(node);
        let noted = self.noted.borrow();
        let table = noted[node].iter().find(|table| *table.name == *name);
        let disk = Rc::new(empty_table(table.expect("the table was noted")));
        if let Some(leader) = self.simulation.leader() {
            let shared = child(&disk.path, "columns");
            let now = self.simulation.keeper(leader).with_tree(|tree| {
                let node = tree.get(&shared)?;
                Some(Columns::of(&node.data, node.version))
            });
            if let Some(now) = now {
                disk.columns.replace(Rc::new(now));
            }
        }
        let added = Promise::new();
        async move {
            let (world, on) = (server.world.clone(), server.host.process.clone());
            let (result, creator) = (added.clone(), server.clone());
            world.spawn(Some(&on), async move {
                let done = creator.add(disk, true).await.map_err(ServerError::from);
                result.set(&creator.world, done);
            });
            let late = |_| ServerError::new(-3, "the table was not created in time");
            world.wait_for(&added, ADD_NS).await.map_err(late)?
        }
    }

    /// Whether ZooKeeper's leader has the replica of a noted table registered; `None` if no server
    /// leads.
    pub fn registered(&self, node: Node, table: &str) -> Option<bool> {
        let replica = self.simulation.name(node);
        let leader = self.simulation.keeper(self.simulation.leader()?);
        let noted = self.noted.borrow();
        let table = noted[node].iter().find(|noted| *noted.name == *table);
        let path = &table.expect("the table was noted").path;
        Some(leader.with_tree(|tree| tree.has(&format!("{path}/replicas/{replica}"))))
    }

    /// Returns the number of servers that follow ZooKeeper's leader and are no observers; `None` if
    /// none leads.
    pub fn followers(&self) -> Option<usize> {
        let leader = self.simulation.keeper(self.simulation.leader()?);
        Some(leader.followers())
    }

    /// Returns for each table of a replica whether it is active, and the number of parts that its
    /// queue is to fetch or to merge.
    pub fn tables_behind(&self, node: Node) -> Vec<(Rc<str>, bool, usize)> {
        let server = self.simulation.server(node);
        let tables = server.tables.borrow();
        let state = tables.values().map(|table| {
            let entries = table.queue.entries.borrow();
            let makes =
                |kind| matches!(kind, EntryKind::Get | EntryKind::Merge | EntryKind::Replace);
            let waits = entries.values().filter(|tried| makes(tried.entry.kind));
            (table.name.clone(), !table.readonly.get(), waits.count())
        });
        state.collect()
    }

    // --- the ensemble ---------------------------------------------------------------------------

    /// Returns the members of the leader's configuration; `None` if no server leads.
    pub fn ensemble(&self) -> Option<Vec<(Rc<str>, MemberRole)>> {
        let leader = self.simulation.keeper(self.simulation.leader()?);
        let members = leader.members();
        let named =
            |(node, role): &(Node, MemberRole)| (self.simulation.name(*node).clone(), *role);
        Some(members.members().iter().map(named).collect())
    }

    /// Returns a request, made through the server `by`, to give a server a role in the ensemble, or
    /// to remove it.
    pub fn reconfigure(
        &self,
        by: Node,
        node: Node,
        role: Option<MemberRole>,
    ) -> impl Future<Output = Result<(), KeeperError>> + use<> {
        let simulation = self.simulation.clone();
        async move {
            let opened = simulation.session(&[by]).await;
            let session = opened.map_err(|_| KeeperError::new(NO_SESSION))?;
            let changed = session.reconfig(node, role).await;
            session.close();
            changed
        }
    }
}

fn copy_of_log(disk: &Disk) -> Disk {
    Disk {
        log: disk.log.clone(),
        accepted: disk.accepted,
        tree: disk.tree.clone(),
        applied: disk.applied,
        device: disk.device.clone(),
        flipped: disk.flipped,
        unwritten: disk.unwritten,
    }
}

/// Returns a table's disk with nothing on it.
fn empty_table(of: &TableDisk) -> TableDisk {
    TableDisk {
        name: of.name.clone(),
        path: of.path.clone(),
        schema: of.schema.clone(),
        columns: RefCell::new(of.columns.borrow().clone()),
        settings: of.settings.clone(),
        device: of.device.clone(),
        parts: RefCell::default(),
        removed: RefCell::default(),
        detached: RefCell::default(),
        views: of.views.clone(),
        storage: of.storage,
        references: References::default(),
    }
}

/// Returns a copy of a table's disk. Each copy of a part has its own age.
fn copy_of_table(of: &TableDisk) -> TableDisk {
    let copy = |part: &Rc<Part>| part.with_content(part.content, part.rows.clone());
    let mut stored = Stored::default();
    for part in of.parts.borrow().some(|_| true) {
        stored.insert(copy(&part));
    }
    let detached = of.detached.borrow();
    let detached = detached
        .iter()
        .map(|(name, part)| (name.clone(), copy(part)));
    TableDisk {
        parts: RefCell::new(stored),
        detached: RefCell::new(detached.collect()),
        ..empty_table(of)
    }
}
