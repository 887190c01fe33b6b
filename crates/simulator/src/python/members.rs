//! Lets Python replace disks and replicas, and change the members of the ensemble.

use std::collections::HashMap;
use std::rc::Rc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::block::Block;
use crate::keeper::configuration::MemberRole;
use crate::members;
use crate::network::Node;
use crate::python::words::found;
use crate::python::{Answer, SessionResult, Simulation};

/// The disks, replicas and ensemble of a simulation, as faults of members change them.
///
/// Calls with a `number` make it due when they have ended; `Simulation.answer` returns how. Disks
/// belong to servers that do not run.
#[pyclass(module = "harness.native.simulator")]
pub struct Members {
    members: members::Members,
    nodes: HashMap<String, Node>,
}

// SAFETY: only holders of the interpreter's lock access it, as they do a Simulation.
unsafe impl Send for Members {}
// SAFETY: as above.
unsafe impl Sync for Members {}

impl Members {
    fn node(&self, name: &str) -> PyResult<Node> {
        found(&self.nodes, name)
    }
}

fn texts(names: Vec<Rc<str>>) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

#[pymethods]
impl Members {
    /// Nothing is copied or noted yet.
    #[new]
    fn new(simulation: &Simulation) -> Members {
        Members {
            members: members::Members::new(&simulation.simulation),
            nodes: simulation.nodes.clone(),
        }
    }

    // --- disks ----------------------------------------------------------------------------------

    /// Return whether tables of a replica have data in an object store.
    fn refers_to_store(&self, name: &str) -> PyResult<bool> {
        Ok(self.members.refers_to_store(self.node(name)?))
    }

    /// Remove the parts of a replica's tables, or everything.
    fn empty_disk(&self, name: &str, parts_only: bool) -> PyResult<()> {
        self.members.empty_disk(self.node(name)?, parts_only);
        Ok(())
    }

    /// Return how many tables and parts a replica has, and one for a file of its own, or how
    /// many parts; of a ZooKeeper server, the number of entries of its log.
    fn files(&self, name: &str, parts_only: bool) -> PyResult<usize> {
        Ok(self.members.files(self.node(name)?, parts_only))
    }

    /// Copy a disk in place of an older copy.
    fn back_up_disk(&self, name: &str) -> PyResult<()> {
        self.members.back_up_disk(self.node(name)?);
        Ok(())
    }

    /// Put the copy in place of the disk; return whether there is one.
    fn restore_disk(&self, name: &str) -> PyResult<bool> {
        Ok(self.members.restore_disk(self.node(name)?))
    }

    // --- replicas -------------------------------------------------------------------------------

    /// Note the tables of a replica; return their names.
    fn note_tables(&self, name: &str) -> PyResult<Vec<String>> {
        Ok(texts(self.members.note_tables(self.node(name)?)))
    }

    fn noted_tables(&self, name: &str) -> PyResult<Vec<String>> {
        Ok(texts(self.members.noted_tables(self.node(name)?)))
    }

    /// Return the noted tables that a replica does not have.
    fn missing_tables(&self, name: &str) -> PyResult<Vec<String>> {
        Ok(texts(self.members.missing_tables(self.node(name)?)))
    }

    /// Create a noted table on a replica that runs.
    fn add_table(
        &self,
        simulation: &Simulation,
        number: u64,
        name: &str,
        table: &str,
    ) -> PyResult<()> {
        let adding = self.members.add_table(self.node(name)?, table);
        simulation.begin(number, async move {
            Answer::OfServer(adding.await.map(|()| Rc::<Block>::default()))
        });
        Ok(())
    }

    /// Return whether ZooKeeper has a replica of a noted table; None if no server leads.
    fn registered(&self, name: &str, table: &str) -> PyResult<Option<bool>> {
        Ok(self.members.registered(self.node(name)?, table))
    }

    /// Return how many servers follow ZooKeeper's leader and are no observers; None if none
    /// leads.
    fn followers(&self) -> Option<usize> {
        self.members.followers()
    }

    /// Return for each table whether it is active, and how many parts it is to fetch or
    /// merge.
    fn tables_behind(&self, name: &str) -> PyResult<Vec<(String, bool, usize)>> {
        let behind = self.members.tables_behind(self.node(name)?).into_iter();
        let named = behind.map(|(table, active, waits)| (table.to_string(), active, waits));
        Ok(named.collect())
    }

    // --- the ensemble ---------------------------------------------------------------------------

    /// Return the role of each member in the leader's configuration; None if none leads.
    fn ensemble(&self) -> Option<Vec<(String, &'static str)>> {
        self.members.ensemble().map(|members| {
            let members = members.into_iter();
            let named = members.map(|(name, role)| (name.to_string(), role.name()));
            named.collect()
        })
    }

    /// Ask the server `by` to make a server "participant" or "observer", or to remove it,
    /// for "".
    fn reconfigure(
        &self,
        simulation: &Simulation,
        number: u64,
        by: &str,
        name: &str,
        role: &str,
    ) -> PyResult<()> {
        let role = match role {
            "participant" => Some(MemberRole::Participant),
            "observer" => Some(MemberRole::Observer),
            "" => None,
            _ => return Err(PyValueError::new_err(role.to_string())),
        };
        let (by, node) = (self.node(by)?, self.node(name)?);
        let changing = self.members.reconfigure(by, node, role);
        simulation.begin(number, async move {
            Answer::OfKeeper(changing.await.map(|()| SessionResult::Synced))
        });
        Ok(())
    }
}
