//! Captures the state of ZooKeeper at one moment, as far as it decides a select.

use std::ops::Deref;
use std::rc::Rc;

use crate::errors::ServerError;
use crate::keeper::session::{Found, Reading, Readings};
use crate::keeper::tree::Names;
use crate::table::active_parts::ActivePartSet;
use crate::table::entries::{Data, TableData};
use crate::table::parts::{Info, Part};
use crate::table::paths::{ReplicaPaths, TablePaths};

/// Returns the readings that decide a select: the pending quorum, the failed ones, whether the
/// replica is lost, its parts, the log from its pointer on, and its queue.
pub fn deciding(paths: &TablePaths, own: &ReplicaPaths) -> Rc<Readings> {
    Readings::new([
        Reading::get(paths.quorum_status.clone()),
        Reading::children(paths.failed_parts.clone()),
        Reading::get(own.is_lost.clone()),
        Reading::listed(own.parts.clone()),
        Reading::ahead(paths.log.clone(), own.log_pointer.clone()),
        Reading::values(own.queue.clone()),
    ])
}

/// The results of these readings at one moment.
pub struct Snapshot<'a> {
    pending: Option<&'a Info>,
    failed: Option<&'a Names>,
    /// The version of the list of this replica's parts.
    pub made: i64,
    pub parts: &'a Names,
    /// The log from the replica's pointer on.
    log: &'a [(Rc<str>, Data)],
    queue: &'a [(Rc<str>, Data)],
}

impl<'a> Snapshot<'a> {
    pub fn of(found: &'a [Found]) -> Result<Snapshot<'a>, ServerError> {
        let [status, failed, lost, parts, log, queue] = found else {
            panic!("every reading has a result");
        };
        match (lost, parts) {
            (Found::Get(lost, _), Found::Listed(made, parts)) if lost.as_text() == "0" => {
                Ok(Snapshot {
                    pending: match status {
                        Found::Get(status, _) => Some(&status.as_quorum().part),
                        _ => None,
                    },
                    failed: match failed {
                        Found::Children(failed) => Some(failed),
                        _ => None,
                    },
                    made: *made,
                    parts,
                    log: log.as_values(),
                    queue: queue.as_values(),
                })
            }
            _ => Err(ServerError::new(289, "Replica is lost, or being cloned.")),
        }
    }

    /// Whether the other snapshot lists and excludes the same parts.
    pub fn reads_as(&self, other: &Snapshot) -> bool {
        let (failed, others) = (
            self.failed.map(Names::deref),
            other.failed.map(Names::deref),
        );
        self.made == other.made && self.pending == other.pending && failed == others
    }

    /// Whether a part's quorum is pending or has failed.
    pub fn leaves_out(&self, part: &Part) -> bool {
        self.is_left_out(&part.info, &part.name)
    }

    /// Whether obviously nothing of the partition is excluded.
    pub fn leaves_none_out(&self, partition: Option<&str>) -> bool {
        let is_pending = |info: &Info| Some(&*info.partition) == partition;
        self.failed.is_none_or(|failed| failed.is_empty()) && !self.pending.is_some_and(is_pending)
    }

    pub fn is_left_out(&self, info: &Info, name: &str) -> bool {
        self.pending == Some(info) || self.failed.is_some_and(|failed| failed.contains(name))
    }
}

/// Returns error 289 for a committed part that is not here. The parts that the replica may lack are
/// in its queue and in the log from its pointer on; earlier ones are here.
pub fn check_committed<T>(state: &Snapshot, here: &ActivePartSet<T>) -> Result<(), ServerError> {
    for (_, entry) in state.log.iter().chain(state.queue) {
        let entry = entry.as_entry();
        if !entry.kind.brings_rows() {
            continue;
        }
        for part in entry.made().filter(|part| here.containing(part).is_none()) {
            if !state.is_left_out(part, &entry.name) {
                return Err(lacks(part));
            }
        }
    }
    Ok(())
}

pub fn lacks(info: &Info) -> ServerError {
    let text = format!(
        "Replica doesn't have part {} which was successfully written to quorum of other replicas.",
        info.name()
    );
    ServerError::new(289, text)
}
