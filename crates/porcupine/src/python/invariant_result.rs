//! Defines verdicts on invariants as Python receives them.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::IntoPyObjectExt;

use super::list_rows::Keyed;
use super::operation::OptionalKey;
use super::outcome::{raise, refuse_truth_test, restorer, status_of, StatusName};
use super::NoReturn;
use crate::invariants;
use crate::verdict::Status;

/// Figures by name. In Python: `dict[str, int]`.
type Counts = Py<PyDict>;
/// The name of a finding. In Python: `str`.
type FindingName = String;

/// What breaks an invariant, or what is worth knowing beside it.
#[pyclass(frozen, get_all, module = "pyporcupine")]
pub struct Finding {
    /// Such as "lost".
    name: FindingName,
    /// The key of the operations.
    key: OptionalKey,
    /// Whether the invariant forbids it.
    forbidden: bool,
    /// Number of instances.
    count: usize,
    /// Positions of operations that show the first few instances.
    operations: Vec<usize>,
    /// A clause that names the first few instances.
    text: String,
}

#[pymethods]
impl Finding {
    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let state = (
            &self.name,
            &self.key,
            self.forbidden,
            self.count,
            &self.operations,
            &self.text,
        );
        Ok((restorer(py, "_finding")?, state.into_py_any(py)?))
    }

    fn __repr__(&self) -> String {
        format!(
            "Finding(name={:?}, count={}, operations={:?}, text={:?})",
            self.name, self.count, self.operations, self.text
        )
    }
}

/// The verdict on an invariant. Testing it for truth raises TypeError; compare `status` or call
/// `raise_if_invalid` instead.
#[pyclass(frozen, get_all, module = "pyporcupine")]
pub struct InvariantResult {
    /// The worst status of the keys: INVALID, then UNKNOWN, then VALID. UNKNOWN if there are no
    /// operations.
    status: StatusName,
    /// A clause for human readers: the reason of the first key with this status.
    reason: String,
    /// What was counted, over all keys: of each invariant its own figures.
    counts: Counts,
    /// What was found, key by key; what the invariant forbids first.
    findings: Vec<Py<Finding>>,
    /// Number of keys.
    keys: usize,
}

impl InvariantResult {
    pub fn new(py: Python<'_>, keyed: Keyed, answers: Vec<invariants::Answer>) -> PyResult<Self> {
        let keys = answers.len();
        let worst = answers.iter().map(|answer| answer.status).max();
        let status = worst.unwrap_or(Status::Unknown);
        let first = answers.iter().position(|answer| answer.status == status);
        let reason = first.map_or(
            "nothing was checked: there are no operations".to_owned(),
            |at| answers[at].reason.clone(),
        );
        let counts = PyDict::new(py);
        let mut findings = Vec::new();
        for (answer, key) in answers.into_iter().zip(&keyed.keys) {
            for (name, count) in answer.counts {
                let before = counts
                    .get_item(name)?
                    .map_or(Ok(0), |n| n.extract::<u64>())?;
                counts.set_item(name, before + count)?;
            }
            for found in answer.findings {
                let finding = Finding {
                    name: found.name.to_owned(),
                    key: key.as_ref().map(|key| key.clone_ref(py)),
                    forbidden: found.forbidden,
                    count: found.count,
                    operations: found.rows,
                    text: found.text,
                };
                findings.push(Py::new(py, finding)?);
            }
        }
        findings.sort_by_key(|finding| !finding.get().forbidden);
        Ok(Self {
            status: status.name(),
            reason,
            counts: counts.unbind(),
            findings,
            keys,
        })
    }
}

#[pymethods]
impl InvariantResult {
    /// Return if the status is VALID. Raises InvalidError if it is INVALID, and UndecidedError
    /// if it is UNKNOWN.
    fn raise_if_invalid(&self) -> PyResult<()> {
        raise(self.status, format!("{}: {}", self.status, self.reason))
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let state = (
            self.status,
            &self.reason,
            &self.counts,
            &self.findings,
            self.keys,
        );
        Ok((restorer(py, "_invariant_result")?, state.into_py_any(py)?))
    }

    fn __bool__(&self) -> PyResult<NoReturn> {
        refuse_truth_test(self.status)
    }

    fn __repr__(&self) -> String {
        format!(
            "InvariantResult(status={:?}, reason={:?}, {} findings)",
            self.status,
            self.reason,
            self.findings.len()
        )
    }
}

/// Makes a pickled finding again.
#[pyfunction]
#[pyo3(name = "_finding")]
pub fn restore_finding(
    name: String,
    key: Option<Py<PyAny>>,
    forbidden: bool,
    count: usize,
    operations: Vec<usize>,
    text: String,
) -> Finding {
    Finding {
        name,
        key,
        forbidden,
        count,
        operations,
        text,
    }
}

/// Makes a pickled result again.
#[pyfunction]
#[pyo3(name = "_invariant_result")]
pub fn restore_invariant_result(
    status: &str,
    reason: String,
    counts: Py<PyDict>,
    findings: Vec<Py<Finding>>,
    keys: usize,
) -> PyResult<InvariantResult> {
    Ok(InvariantResult {
        status: status_of(status)?,
        reason,
        counts,
        findings,
        keys,
    })
}
