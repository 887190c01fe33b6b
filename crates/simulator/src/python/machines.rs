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

/// The machines of a simulation's servers.
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

    fn skew(&self, py: Python<'_>, name: &str, rate: f64) -> PyResult<()> {
        self.with(py, name, |simulation, node| simulation.skew(node, rate))
    }

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

    fn wall_ns(&self, py: Python<'_>, name: &str) -> PyResult<Ns> {
        self.with(py, name, |simulation, node| simulation.world.wall_ns(node))
    }

    // --- resources ------------------------------------------------------------------------------

    fn starve(&self, py: Python<'_>, name: &str, nemesis: &str) -> PyResult<()> {
        let resource = resource_of(nemesis)?;
        self.with(py, name, |simulation, node| {
            simulation.starve(node, resource)
        })
    }

    fn feed(&self, py: Python<'_>, name: &str, nemesis: &str) -> PyResult<()> {
        let resource = resource_of(nemesis)?;
        self.with(py, name, |simulation, node| simulation.feed(node, resource))
    }

    fn lacks(&self, py: Python<'_>, name: &str, nemesis: &str) -> PyResult<bool> {
        let resource = resource_of(nemesis)?;
        self.with(py, name, |simulation, node| {
            simulation.world.lacks(node, resource)
        })
    }

    fn throttled(&self, py: Python<'_>, name: &str) -> PyResult<u64> {
        self.with(py, name, |simulation, node| {
            simulation.world.machine(node).throttled.get()
        })
    }

    fn killed(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.with(py, name, |simulation, node| {
            simulation.world.machine(node).killed.get()
        })
    }

    fn accepts(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.with(py, name, |simulation, node| simulation.accepts(node))
    }
}
