//! Defines verdicts as Python receives them.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::IntoPyObjectExt;

use super::list_rows::Keyed;
use super::operation::OptionalKey;
use super::{InvalidError, NoReturn, UndecidedError};
use crate::partition::Partition;
use crate::verdict::{self, Status, Verdict};

/// A status. In Python: `Literal["VALID", "INVALID", "UNKNOWN"]`.
pub type StatusName = &'static str;
/// A reason. In Python: `Literal["real-time", "process-order", "read sees add", "read misses add",
/// "read never-added value", "duplicate in read", "read sees write", "read never-written value",
/// "same value", "cannot be placed"]`.
type Why = String;

/// `from_op` must come before `to_op`, because `why`; both are positions in the history.
///
/// The steps of a cycle follow each other and the last leads back to the first. A step about one
/// operation has from_op == to_op.
#[pyclass(frozen, get_all, module = "pyporcupine")]
pub struct Step {
    from_op: usize,
    to_op: usize,
    /// same value: both operate on one value, which was written once, so no operation on another
    /// value comes between them.
    why: Why,
    /// set: the value that is seen, missed, duplicated or was never added.
    value: Option<i64>,
}

impl From<verdict::Step> for Step {
    fn from(step: verdict::Step) -> Self {
        Self {
            from_op: step.from,
            to_op: step.to,
            why: step.why.name().to_owned(),
            value: step.value,
        }
    }
}

#[pymethods]
impl Step {
    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let state = (self.from_op, self.to_op, &self.why, self.value);
        Ok((restorer(py, "_step")?, state.into_py_any(py)?))
    }

    fn __repr__(&self) -> String {
        let value = self.value.map_or("None".to_owned(), |v| v.to_string());
        format!(
            "Step(from_op={}, to_op={}, why={:?}, value={value})",
            self.from_op, self.to_op, self.why
        )
    }
}

/// The verdict on one key. Testing it for truth raises TypeError; compare `status` instead.
#[pyclass(frozen, module = "pyporcupine")]
pub struct ObjectResult {
    #[pyo3(get)]
    pub key: OptionalKey,
    #[pyo3(get)]
    pub status: StatusName,
    /// A clause for human readers.
    #[pyo3(get)]
    pub reason: String,
    /// Positions of few operations that have no order by themselves, ascending; empty unless
    /// INVALID.
    ///
    /// They show the violation, but the proof of it is that all operations of the key have no
    /// order: a witness may leave out what undid one of its operations. If a mutex is acquired,
    /// released, acquired and acquired, it may be the first acquire and the last.
    ///
    /// set: with the reads restricted to the values that the witness's adds add, the witness is
    /// illegal, but no longer so if any of its operations is dropped; or it is the one read that
    /// is illegal by itself.
    /// append-log whose values are all different: the same, with "append" for "add".
    /// register and fifo-queue whose values are all different, linearizable: few operations that
    /// are illegal by themselves.
    /// Otherwise, linearizable: the witness contains an operation that cannot be placed. When it
    /// returns, the others have an order that explains them, but not with it, although it is
    /// possible after some of them in whatever order. No operation can be dropped without losing
    /// one of these.
    /// Otherwise, sequential: the witness is illegal, although each of its operations that returned
    /// is possible after some of the others in whatever order, and no operation can be dropped
    /// without losing one of these.
    /// Queues: nor does the witness leave a value in the queue more often than the history does. If
    /// a dequeue found nothing though some value was always there, the witness is that dequeue, and
    /// for each moment of it the enqueue and the dequeue of a value that was there: of its k-th
    /// enqueue, in order of return, and its k-th dequeue, in order of call.
    ///
    /// If no operations of the history, in whatever order, make an operation possible, the witness
    /// is that one, with few that provide what it found, if there are any. `reason` says so; it
    /// also says if no operations that make it possible were found.
    #[pyo3(get)]
    pub witness: Vec<usize>,
    #[pyo3(get)]
    explanation: Vec<Py<Step>>,
    /// Positions in an order that explains the operations. If the key is INVALID: a longest
    /// order that explains all that returned before the operation `stuck`. Empty unless requested,
    /// and for a set that is not sequentially consistent.
    #[pyo3(get)]
    pub linearization: Vec<usize>,
    /// If the key is INVALID and a linearization was requested: further orders that explain all
    /// that returned before `stuck`, each with an operation in flight that the previous ones
    /// lack.
    #[pyo3(get)]
    pub alternatives: Vec<Vec<usize>>,
    /// Position of the operation that no order explains together with all that returned before
    /// it, if the search or the linearization of a set found it.
    #[pyo3(get)]
    pub stuck: Option<usize>,
    /// The rows of every object, and the index of this object.
    partition: Arc<Partition>,
    place: usize,
}

impl ObjectResult {
    pub fn new(
        py: Python<'_>,
        key: Option<Py<PyAny>>,
        (partition, place): (Arc<Partition>, usize),
        verdict: Verdict,
    ) -> PyResult<Self> {
        let steps = verdict
            .steps
            .into_iter()
            .map(|s| Py::new(py, Step::from(s)));
        Ok(Self {
            key,
            status: verdict.status.name(),
            reason: verdict.reason,
            witness: verdict.witness,
            explanation: steps.collect::<PyResult<_>>()?,
            linearization: verdict.order,
            alternatives: verdict.others,
            stuck: verdict.stuck,
            partition,
            place,
        })
    }

    fn format_key(&self, py: Python<'_>) -> PyResult<String> {
        match &self.key {
            None => Ok("None".to_owned()),
            Some(key) => Ok(key.bind(py).repr()?.to_string()),
        }
    }

    /// Positions of the key's operations.
    pub fn rows(&self) -> &[u32] {
        &self.partition[self.place]
    }
}

#[pymethods]
impl ObjectResult {
    /// Number of operations on this key.
    #[getter]
    fn operations(&self) -> usize {
        self.rows().len()
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let state = (
            &self.key,
            self.status,
            &self.reason,
            &self.witness,
            &self.explanation,
            &self.linearization,
            &self.alternatives,
            self.stuck,
            self.rows(),
        );
        Ok((restorer(py, "_object_result")?, state.into_py_any(py)?))
    }

    fn __bool__(&self) -> PyResult<NoReturn> {
        refuse_truth_test(self.status)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = self.format_key(py)?;
        Ok(format!(
            "ObjectResult(key={key}, status={:?}, reason={:?}, operations={}, witness={:?})",
            self.status,
            self.reason,
            self.operations(),
            self.witness
        ))
    }
}

/// The verdict on a history. Testing it for truth raises TypeError; compare `status` or call
/// `raise_if_invalid` instead.
#[pyclass(frozen, get_all, module = "pyporcupine")]
pub struct Result {
    /// The worst status of the objects: INVALID, then UNKNOWN, then VALID. VALID if there are no
    /// operations.
    pub status: StatusName,
    /// One result per key, in the order in which the keys first appear.
    pub objects: Vec<Py<ObjectResult>>,
}

impl Result {
    /// Combines the verdicts; the worst decides. Without `witness` the result explains nothing.
    pub fn new(
        py: Python<'_>,
        keyed: Keyed,
        verdicts: Vec<Verdict>,
        witness: bool,
    ) -> PyResult<Self> {
        let mut status = Status::Valid;
        let mut objects = Vec::with_capacity(verdicts.len());
        let partition = Arc::new(keyed.objects);
        for (place, (mut verdict, key)) in verdicts.into_iter().zip(keyed.keys).enumerate() {
            if !witness {
                verdict.witness.clear();
                verdict.steps.clear();
            }
            status = status.max(verdict.status);
            let object = ObjectResult::new(py, key, (partition.clone(), place), verdict)?;
            objects.push(Py::new(py, object)?);
        }
        Ok(Self {
            status: status.name(),
            objects,
        })
    }
}

/// Refuses a truth test: three statuses do not map to two, and any mapping would mislead somebody.
pub fn refuse_truth_test(status: &str) -> PyResult<bool> {
    Err(PyTypeError::new_err(format!(
        "the status is {status:?}, which is neither true nor false: compare `.status` with \
         \"VALID\", or call raise_if_invalid() of the whole result"
    )))
}

/// Raises InvalidError or UndecidedError with a text, unless the status is VALID.
pub fn raise(status: StatusName, text: String) -> PyResult<()> {
    match status == Status::Valid.name() {
        true => Ok(()),
        false if status == Status::Invalid.name() => Err(InvalidError::new_err(text)),
        false => Err(UndecidedError::new_err(text)),
    }
}

/// Maximum number of keys that an error names.
const NAMED_MAX: usize = 3;

#[pymethods]
impl Result {
    /// Return if the status is VALID. Raises InvalidError if it is INVALID, and UndecidedError
    /// if it is UNKNOWN.
    fn raise_if_invalid(&self, py: Python<'_>) -> PyResult<()> {
        let all = self.objects.iter().map(Py::get);
        let telling: Vec<&ObjectResult> = all.filter(|one| one.status == self.status).collect();
        let mut text = self.status.to_owned();
        for (place, one) in telling.iter().take(NAMED_MAX).enumerate() {
            text += if place == 0 { ": " } else { "; " };
            if one.key.is_some() {
                text += &format!("key {}: ", one.format_key(py)?);
            }
            text += &one.reason;
            if !one.witness.is_empty() {
                text += &format!(" (operations {:?})", one.witness);
            }
        }
        if telling.len() > NAMED_MAX {
            let more = telling.len() - NAMED_MAX;
            let keys = if more == 1 { "key" } else { "keys" };
            text += &format!("; and {more} more {keys}");
        }
        raise(self.status, text)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let state = (self.status, &self.objects);
        Ok((restorer(py, "_result")?, state.into_py_any(py)?))
    }

    fn __bool__(&self) -> PyResult<NoReturn> {
        refuse_truth_test(self.status)
    }

    fn __repr__(&self) -> String {
        format!(
            "Result(status={:?}, {} objects)",
            self.status,
            self.objects.len()
        )
    }
}

/// Returns the function of the module that makes a pickled value again.
pub fn restorer(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    Ok(py
        .import("pyporcupine._pyporcupine")?
        .getattr(name)?
        .unbind())
}

pub fn status_of(name: &str) -> PyResult<&'static str> {
    [Status::Valid, Status::Unknown, Status::Invalid]
        .map(Status::name)
        .into_iter()
        .find(|known| *known == name)
        .ok_or_else(|| PyValueError::new_err(format!("there is no status {name:?}")))
}

/// Makes a pickled step again.
#[pyfunction]
#[pyo3(name = "_step")]
pub fn restore_step(from_op: usize, to_op: usize, why: String, value: Option<i64>) -> Step {
    Step {
        from_op,
        to_op,
        why,
        value,
    }
}

/// Makes the pickled result of a key again.
#[pyfunction]
#[pyo3(name = "_object_result")]
#[allow(clippy::too_many_arguments)]
pub fn restore_object_result(
    key: Option<Py<PyAny>>,
    status: &str,
    reason: String,
    witness: Vec<usize>,
    explanation: Vec<Py<Step>>,
    linearization: Vec<usize>,
    alternatives: Vec<Vec<usize>>,
    stuck: Option<usize>,
    rows: Vec<u32>,
) -> PyResult<ObjectResult> {
    Ok(ObjectResult {
        key,
        status: status_of(status)?,
        reason,
        witness,
        explanation,
        linearization,
        alternatives,
        stuck,
        partition: Arc::new(Partition::single(rows)),
        place: 0,
    })
}

/// Makes a pickled result again.
#[pyfunction]
#[pyo3(name = "_result")]
pub fn restore_result(status: &str, objects: Vec<Py<ObjectResult>>) -> PyResult<Result> {
    Ok(Result {
        status: status_of(status)?,
        objects,
    })
}
