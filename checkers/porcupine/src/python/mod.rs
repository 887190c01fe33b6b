//! The extension module `pyporcupine`.

mod check;
mod list_rows;
mod operation;
mod outcome;
mod source;

use pyo3::prelude::*;

use crate::rows::BadRow;

pyo3::create_exception!(
    pyporcupine,
    HistoryError,
    pyo3::exceptions::PyValueError,
    "A row of a history breaks the rules of histories; the text names the row and the field."
);

/// Decides whether concurrent histories are linearizable or sequentially consistent.
#[pymodule]
fn pyporcupine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("HistoryError", module.py().get_type::<HistoryError>())?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<outcome::Step>()?;
    module.add_class::<outcome::ObjectResult>()?;
    module.add_class::<outcome::Result>()?;
    module.add_function(wrap_pyfunction!(check::check, module)?)
}

fn refused(bad: BadRow) -> PyErr {
    HistoryError::new_err(format!("row {}: {}", bad.row, bad.text))
}
