//! The extension module `harness.native._native`: all Rust of the harness except `pyporcupine`,
//! which is a separate distribution. One library means one copy of the shared dependencies.

use pyo3::prelude::*;

/// Adds every module that `harness.native` exports.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    explorer::python::add_to(module)?;
    histories::python::add_to(module)?;
    simulator::python::add_to(module)
}
