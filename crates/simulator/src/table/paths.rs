//! Names the nodes that a table has in ZooKeeper.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::keeper::tree::{child, Path};

/// The paths of a table. `log_entry` is the prefix of its sequential nodes.
pub struct TablePaths {
    pub log: Path,
    pub log_entry: Path,
    pub blocks: Path,
    pub block_numbers: Path,
    pub mutations: Path,
    pub alter_partition_version: Path,
    pub leader_election: Path,
    pub columns: Path,
    pub metadata: Path,
    pub quorum_status: Path,
    pub quorum_parallel: Path,
    pub last_part: Path,
    pub failed_parts: Path,
    pub replicas: Path,
    known: RefCell<FxHashMap<Rc<str>, Rc<ReplicaPaths>>>,
}

impl TablePaths {
    pub fn new(root: &str) -> TablePaths {
        TablePaths {
            log: child(root, "log"),
            log_entry: child(root, "log/log-"),
            blocks: child(root, "blocks"),
            block_numbers: child(root, "block_numbers"),
            mutations: child(root, "mutations"),
            alter_partition_version: child(root, "alter_partition_version"),
            leader_election: child(root, "leader_election"),
            columns: child(root, "columns"),
            metadata: child(root, "metadata"),
            quorum_status: child(root, "quorum/status"),
            quorum_parallel: child(root, "quorum/parallel"),
            last_part: child(root, "quorum/last_part"),
            failed_parts: child(root, "quorum/failed_parts"),
            replicas: child(root, "replicas"),
            known: RefCell::default(),
        }
    }

    /// Returns the paths of a replica.
    pub fn of(&self, replica: &Rc<str>) -> Rc<ReplicaPaths> {
        let mut known = self.known.borrow_mut();
        if let Some(paths) = known.get(replica) {
            return paths.clone();
        }
        let paths = Rc::new(ReplicaPaths::new(child(&self.replicas, replica)));
        known.insert(replica.clone(), paths.clone());
        paths
    }
}

/// The paths of a replica. `queue_entry` is the prefix of its sequential nodes.
pub struct ReplicaPaths {
    pub root: Path,
    pub host: Path,
    pub is_active: Path,
    pub is_lost: Path,
    pub log_pointer: Path,
    pub columns: Path,
    pub metadata_version: Path,
    pub parts: Path,
    pub queue: Path,
    pub queue_entry: Path,
}

impl ReplicaPaths {
    fn new(root: Path) -> ReplicaPaths {
        ReplicaPaths {
            host: child(&root, "host"),
            is_active: child(&root, "is_active"),
            is_lost: child(&root, "is_lost"),
            log_pointer: child(&root, "log_pointer"),
            columns: child(&root, "columns"),
            metadata_version: child(&root, "metadata_version"),
            parts: child(&root, "parts"),
            queue: child(&root, "queue"),
            queue_entry: child(&root, "queue/queue-"),
            root,
        }
    }
}
