//! Defines the Python module `harness.native.generators`.

mod combinator;
mod python_generator;
mod scheduler;
mod vocabulary;

use pyo3::prelude::*;

pub use combinator::Combinator;
pub use scheduler::{Assigned, Scheduler};
pub use vocabulary::{begun_op, ended_op, kind_of, raised};

/// Adds `harness.native.generators` to the extension module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Combinator>()?;
    module.add_class::<Scheduler>()?;
    module.add_class::<Assigned>()
}
