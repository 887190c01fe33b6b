//! Exposes what lies under the servers: their clocks and their resources.

use std::rc::Rc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Simulation;
use crate::simulation;
use crate::world::{Ns, Resource};

fn resource_of(nemesis: &str) -> PyResult<Resource> {
    let unknown = || PyValueError::new_err(format!("{nemesis}: no fault of resources"));
    Resource::of(nemesis).ok_or_else(unknown)
}

/// What lies under the servers of a simulation. Resources have the names of the nemeses that
/// take them away.
#[pyclass(module = "harness.native.simulator")]
pub struct Machines {
    servers: Py<Simulation>,
}

impl Machines {
    /// Calls a function with the simulation and a node.
    fn with<T>(
        &self,
        py: Python<'_>,
        name: &str,
        act: impl FnOnce(&Rc<simulation::Simulation>, usize) -> T,
    ) -> PyResult<T> {
        let servers = self.servers.borrow(py);
        let node = servers.node(name)?;
        Ok(act(&servers.simulation, node))
    }
}

#[pymethods]
impl Machines {
    #[new]
    fn new(servers: Py<Simulation>) -> Machines {
        Machines { servers }
    }

    // --- clocks ---------------------------------------------------------------------------------

    /// Set the clock rate of a server, for all its lives: that of its timers.
    fn skew(&self, py: Python<'_>, name: &str, rate: f64) -> PyResult<()> {
        self.with(py, name, |simulation, node| simulation.skew(node, rate))
    }

    /// Set a server's wall clock: what is added to it, in every second period only if there is
    /// one, and its speed.
    fn set_wall(
        &self,
        py: Python<'_>,
        name: &str,
        offset_ns: Ns,
        period_ns: Ns,
        rate: f64,
    ) -> PyResult<()> {
        self.with(py, name, |simulation, node| {
            simulation.world.set_wall(node, offset_ns, period_ns, rate);
        })
    }

    /// Return what a server's wall clock shows.
    fn wall_ns(&self, py: Python<'_>, name: &str) -> PyResult<Ns> {
        self.with(py, name, |simulation, node| simulation.world.wall_ns(node))
    }

    // --- resources ------------------------------------------------------------------------------

    /// Take a resource away from a server.
    fn starve(&self, py: Python<'_>, name: &str, resource: &str) -> PyResult<()> {
        let resource = resource_of(resource)?;
        self.with(py, name, |simulation, node| {
            simulation.starve(node, resource)
        })
    }

    /// Give a resource back to a server; no-op if it does not lack it.
    fn feed(&self, py: Python<'_>, name: &str, resource: &str) -> PyResult<()> {
        let resource = resource_of(resource)?;
        self.with(py, name, |simulation, node| simulation.feed(node, resource))
    }

    /// Return whether a server's machine lacks the resource.
    fn lacks(&self, py: Python<'_>, name: &str, resource: &str) -> PyResult<bool> {
        let resource = resource_of(resource)?;
        self.with(py, name, |simulation, node| {
            simulation.world.lacks(node, resource)
        })
    }

    /// Return the number of periods in which a server had used up its CPU time, and had more to
    /// do.
    fn throttled(&self, py: Python<'_>, name: &str) -> PyResult<u64> {
        self.with(py, name, |simulation, node| {
            simulation.world.machine(node).throttled.get()
        })
    }

    /// Return whether the last life of a server ended because it lacked memory.
    fn killed(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.with(py, name, |simulation, node| {
            simulation.world.machine(node).killed.get()
        })
    }

    /// Return whether a server answers on a new connection.
    fn accepts(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.with(py, name, |simulation, node| simulation.accepts(node))
    }
}
