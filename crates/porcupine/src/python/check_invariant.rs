//! Implements `pyporcupine.check_invariant`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::check::{budget_of, memory_mb, PyHistory};
use super::invariant_result::InvariantResult;
use super::refused;
use super::source::Source;
use crate::invariants::{decide_all, Invariant, Options};
use crate::validate::validate;

/// What is decided. In Python: `Literal["total-queue", "unique-ids", "counter-bounds", "bank",
/// "set-full", "long-fork", "pn-counter", "kafka"]`.
type InvariantName = str;

#[doc = include_str!("check_invariant.txt")]
#[pyfunction]
#[pyo3(signature = (
    history, invariant, *, initial=None, negative_balances=false, linearizable=false,
    time_s=Some(60.0), memory_mb=Some(memory_mb())
), text_signature = "(history, invariant, *, initial=None, negative_balances=False, \
    linearizable=False, time_s=60.0, memory_mb=MEMORY_MB)")]
#[allow(clippy::too_many_arguments)]
pub fn check_invariant(
    py: Python<'_>,
    history: &Bound<'_, PyHistory>,
    invariant: &InvariantName,
    initial: Option<i64>,
    negative_balances: bool,
    linearizable: bool,
    time_s: Option<f64>,
    memory_mb: Option<f64>,
) -> PyResult<InvariantResult> {
    let options = Options {
        initial,
        negative_balances,
        linearizable,
    };
    let what = (parse_invariant(invariant)?, options);
    let budget = budget_of(time_s, memory_mb)?;
    let Source { rows, keyed } = Source::new(history)?;
    let answers = py.detach(|| {
        let count = keyed.objects.rows();
        validate(count, rows.clock(), |block, out| rows.times(block, out))?;
        decide_all(&*rows, &keyed.objects, what, &budget)
    });
    InvariantResult::new(py, keyed, answers.map_err(refused)?)
}

fn parse_invariant(name: &str) -> PyResult<Invariant> {
    Invariant::from_name(name).ok_or_else(|| {
        let names: Vec<String> = Invariant::NAMES
            .iter()
            .map(|(n, _)| format!("{n:?}"))
            .collect();
        PyValueError::new_err(format!(
            "invariant is {name:?}, expected one of {}",
            names.join(", ")
        ))
    })
}

/// Returns the names of all invariants.
pub fn invariant_names(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let names: Vec<Py<PyString>> = Invariant::NAMES
        .iter()
        .map(|(name, _)| PyString::new(py, name).unbind())
        .collect();
    Ok(PyTuple::new(py, names)?.into_any().unbind())
}
