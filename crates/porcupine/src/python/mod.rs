//! Defines the extension module `pyporcupine._pyporcupine`, which the package `pyporcupine` re-exports.

mod actions;
mod annotation;
mod call;
mod check;
mod check_invariant;
mod check_transactions;
mod custom;
mod invariant_result;
mod list_rows;
mod model;
mod moment;
mod operation;
mod outcome;
mod picture;
mod process;
mod source;
mod states;

mod transaction;
mod transaction_result;
mod visualize;
mod visualize_transactions;

use pyo3::prelude::*;

use crate::rows::BadRow;

/// A truth test that is refused. In Python: `NoReturn`.
type NoReturn = bool;

pyo3::create_exception!(
    pyporcupine,
    HistoryError,
    pyo3::exceptions::PyValueError,
    "A row of a history breaks the rules of histories. The text names the row and the field."
);

pyo3::create_exception!(
    pyporcupine,
    ModelError,
    pyo3::exceptions::PyRuntimeError,
    "A model written in Python raised an exception (`__cause__`) or returned an invalid value. The\ntext names the row, the state, the call and the output about which the model was asked."
);

pyo3::create_exception!(
    pyporcupine,
    InvalidError,
    pyo3::exceptions::PyException,
    "A history is INVALID. The text names the first keys, the reasons, and the operations."
);

pyo3::create_exception!(
    pyporcupine,
    UndecidedError,
    pyo3::exceptions::PyException,
    "The status of a history is UNKNOWN. The text names the first keys and the limits that they\nreached."
);

/// Decides whether concurrent histories are linearizable or sequentially consistent.
#[pymodule]
#[pyo3(name = "_pyporcupine")]
fn pyporcupine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // __version__: str
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("HistoryError", module.py().get_type::<HistoryError>())?;
    module.add("ModelError", module.py().get_type::<ModelError>())?;
    module.add("InvalidError", module.py().get_type::<InvalidError>())?;
    module.add("UndecidedError", module.py().get_type::<UndecidedError>())?;
    // MEMORY_MB: Final[float]
    // A quarter of the memory of the machine or of the container.
    module.add("MEMORY_MB", check::memory_mb())?;
    // UNKNOWN: Final[Unknown]
    // The output of a call that never returned. Models written in Python test it by `is`.
    module.add("UNKNOWN", Py::new(module.py(), call::Unknown)?)?;
    module.add_class::<call::Call>()?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<annotation::Annotation>()?;
    // LEVELS: Final[tuple[str, ...]]
    // Names of the levels of isolation, each after those that it implies.
    module.add("LEVELS", check_transactions::level_names(module.py())?)?;
    module.add_class::<transaction::Transaction>()?;
    module.add_class::<transaction_result::Dependency>()?;
    module.add_class::<transaction_result::Anomaly>()?;
    module.add_class::<transaction_result::TransactionsResult>()?;
    // INVARIANTS: Final[tuple[str, ...]]
    // Names of the invariants that `check_invariant` decides.
    module.add("INVARIANTS", check_invariant::invariant_names(module.py())?)?;
    module.add_class::<invariant_result::Finding>()?;
    module.add_class::<invariant_result::InvariantResult>()?;
    module.add_class::<outcome::Step>()?;
    module.add_class::<outcome::ObjectResult>()?;
    module.add_class::<outcome::Result>()?;
    module.add_function(wrap_pyfunction!(outcome::restore_step, module)?)?;
    module.add_function(wrap_pyfunction!(outcome::restore_object_result, module)?)?;
    module.add_function(wrap_pyfunction!(outcome::restore_result, module)?)?;
    module.add_function(wrap_pyfunction!(
        transaction_result::restore_dependency,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        transaction_result::restore_anomaly,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        transaction_result::restore_transactions_result,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(invariant_result::restore_finding, module)?)?;
    module.add_function(wrap_pyfunction!(
        invariant_result::restore_invariant_result,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(check::check, module)?)?;
    module.add_function(wrap_pyfunction!(check_invariant::check_invariant, module)?)?;
    module.add_function(wrap_pyfunction!(
        check_transactions::check_transactions,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(visualize::visualize, module)?)?;
    module.add_function(wrap_pyfunction!(
        visualize_transactions::visualize_transactions,
        module
    )?)
}

fn refused(bad: BadRow) -> PyErr {
    HistoryError::new_err(format!("row {}: {}", bad.row, bad.text))
}
