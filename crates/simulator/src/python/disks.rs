//! Exposes the disks of the simulated servers as a Python class.

use std::collections::HashMap;
use std::rc::Rc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::words::found;
use super::Simulation;
use crate::disk::{Device, FaultKind, Fsync, Request, Served};
use crate::network::Node;
use crate::simulation;
use crate::simulation::disks::Wanted;
use crate::world::{Ns, MS};
use seed::Seed;

/// The disks of a simulation's servers. For one thread only.
#[pyclass(module = "harness.native.simulator")]
pub struct Disks {
    simulation: Rc<simulation::Simulation>,
    nodes: HashMap<String, Node>,
}

// SAFETY: as for `Simulation`.
unsafe impl Send for Disks {}
// SAFETY: as above.
unsafe impl Sync for Disks {}

impl Disks {
    fn device(&self, name: &str) -> PyResult<Rc<Device>> {
        let device = self.simulation.device(found(&self.nodes, name)?);
        device.ok_or_else(|| PyValueError::new_err(format!("{name} has no disk")))
    }
}

/// The hits of each fault, and the numbers of changes, pages and flipped bits.
type State = (Vec<(String, u64)>, u64, u64, usize);
/// A flipped bit: file, offset, bit, the byte as it should be read and as it is.
type Flipped = (String, usize, u32, u8, u8);

#[pymethods]
impl Disks {
    /// Access the disks, and let the servers sync what `fsync` says: default, inserts, all or
    /// never. Raises ValueError for another word.
    #[new]
    fn new(simulation: PyRef<'_, Simulation>, fsync: &str) -> PyResult<Disks> {
        let fsync = Fsync::from_name(fsync).ok_or_else(|| PyValueError::new_err(fsync.to_owned()));
        simulation.simulation.set_fsync(fsync?);
        Ok(Disks {
            simulation: simulation.simulation.clone(),
            nodes: simulation.nodes.clone(),
        })
    }

    /// Begin a fault of a disk, in place of an earlier one of this name: full, readonly, slow,
    /// fail-reads, fail-writes or fail-sync. Raises ValueError for another kind.
    fn set_fault(&self, name: &str, fault: &str, kind: &str, delay_ms: Ns) -> PyResult<()> {
        let kind = FaultKind::from_name(kind).ok_or_else(|| PyValueError::new_err(kind.to_owned()));
        self.device(name)?.set(fault, kind?, delay_ms * MS);
        Ok(())
    }

    /// End a fault; no-op if it is not in force.
    fn clear_fault(&self, name: &str, fault: &str) -> PyResult<()> {
        self.device(name)?.clear(fault);
        Ok(())
    }

    /// Return the number of requests that each fault in force applied to, the numbers of changes
    /// and pages that are not durable, and the number of flipped bits.
    fn state(&self, name: &str) -> PyResult<State> {
        let state = self.simulation.disk_state(found(&self.nodes, name)?);
        Ok((state.hits, state.changes, state.pages, state.flips))
    }

    /// Return what a "write", a "sync" and a "read" meet: the name of the error, "" for none,
    /// and the milliseconds that they take.
    fn probe(&self, name: &str) -> PyResult<Vec<(&'static str, &'static str, Ns)>> {
        let device = self.device(name)?;
        let seen = |what, (delay_ns, done): Served| {
            (
                what,
                done.err().map_or("", |trouble| trouble.name()),
                delay_ns / MS,
            )
        };
        Ok(vec![
            seen("write", device.probe(Request::Grow)),
            seen("sync", device.probe(Request::Sync)),
            seen("read", device.probe(Request::Read)),
        ])
    }

    /// Write two files and sync one of them. That fsync commits all changes of metadata.
    fn mark(&self, name: &str) -> PyResult<()> {
        let now_ns = self.simulation.world.now_ns();
        self.device(name)?.mark(now_ns);
        Ok(())
    }

    /// Kill a node and take from its disk what is not durable; a seed lets some survive. Return
    /// the numbers of changes, pages and files that were lost and of what survived, and whether of
    /// the two marked files the synced and the other one are whole.
    fn cut(&self, name: &str, torn: Option<u64>) -> PyResult<(u64, u64, u64, u64, bool, bool)> {
        let node = found(&self.nodes, name)?;
        let cut = self.simulation.cut_power(node, torn.map(Seed));
        let lost = cut.lost;
        let counts = (lost.changes, lost.pages, lost.files, lost.kept);
        Ok((
            counts.0,
            counts.1,
            counts.2,
            counts.3,
            cut.synced,
            cut.unsynced,
        ))
    }

    /// Flip a bit of a file that the seed chooses. Return file, offset, bit, and the byte as it
    /// should be read and as it is; None if there is no such file.
    fn flip(
        &self,
        name: &str,
        below: Vec<String>,
        without: Vec<String>,
        endings: Vec<String>,
        seed: u64,
    ) -> PyResult<Option<Flipped>> {
        let wanted = Wanted {
            below,
            without,
            endings,
        };
        let node = found(&self.nodes, name)?;
        let flipped = self.simulation.flip_bit(node, &wanted, Seed(seed));
        Ok(flipped.map(|one| (one.path, one.offset, one.bit, one.byte, one.read)))
    }

    /// Flip the flipped bits of a disk back, unless their files are gone.
    fn restore_bits(&self, name: &str) -> PyResult<()> {
        self.simulation.restore_bits(found(&self.nodes, name)?);
        Ok(())
    }

    /// Make everything durable on all disks.
    fn sync(&self) {
        self.simulation.sync_disks();
    }
}
