//! The extension module `harness.native._native`: what every run and every check needs. One library
//! means one copy of the shared dependencies.

use pyo3::prelude::*;

/// Adds every module that `harness.native` exports.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    histories::python::add_to(module)?;
    generators::python::add_to(module)?;
    simulator::python::add_to(module)?;
    interpreter::python::add_to(module)
}
