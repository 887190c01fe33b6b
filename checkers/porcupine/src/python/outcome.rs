//! Conclusions as Python gets them.

use std::sync::Arc;

use pyo3::prelude::*;

use super::list_rows::Keyed;
use crate::partition::Partition;
use crate::verdict::{self, Status, Verdict};

/// `from_op` must come before `to_op`, because `why`; both are positions in the history.
///
/// The steps of a cycle follow each other and the last leads back to the first. A step about one
/// operation has from_op == to_op.
#[pyclass(frozen, get_all, module = "pyporcupine")]
pub struct Step {
    from_op: usize,
    to_op: usize,
    why: &'static str,
    value: Option<i64>,
}

impl From<verdict::Step> for Step {
    fn from(step: verdict::Step) -> Self {
        Self {
            from_op: step.from,
            to_op: step.to,
            why: step.why.name(),
            value: step.value,
        }
    }
}

#[pymethods]
impl Step {
    fn __repr__(&self) -> String {
        let value = self.value.map_or("None".to_owned(), |v| v.to_string());
        format!(
            "Step(from_op={}, to_op={}, why={:?}, value={value})",
            self.from_op, self.to_op, self.why
        )
    }
}

/// What is concluded of one key.
#[pyclass(frozen, module = "pyporcupine")]
pub struct ObjectResult {
    #[pyo3(get)]
    pub key: Option<Py<PyAny>>,
    #[pyo3(get)]
    pub status: &'static str,
    #[pyo3(get)]
    pub reason: String,
    #[pyo3(get)]
    pub witness: Vec<usize>,
    #[pyo3(get)]
    explanation: Vec<Py<Step>>,
    #[pyo3(get)]
    pub linearization: Vec<usize>,
    #[pyo3(get)]
    pub alternatives: Vec<Vec<usize>>,
    #[pyo3(get)]
    pub stuck: Option<usize>,
    /// The positions of every object's operations, and which object this is.
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

    /// Positions of its operations.
    pub fn rows(&self) -> &[u32] {
        &self.partition[self.place]
    }
}

#[pymethods]
impl ObjectResult {
    #[getter]
    fn operations(&self) -> usize {
        self.rows().len()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = match &self.key {
            None => "None".to_owned(),
            Some(key) => key.bind(py).repr()?.to_string(),
        };
        Ok(format!(
            "ObjectResult(key={key}, status={:?}, reason={:?}, operations={}, witness={:?})",
            self.status,
            self.reason,
            self.operations(),
            self.witness
        ))
    }
}

/// What is concluded of a history.
#[pyclass(frozen, get_all, module = "pyporcupine")]
pub struct Result {
    pub status: &'static str,
    pub objects: Vec<Py<ObjectResult>>,
}

impl Result {
    /// The worst of the verdicts, and each with its key. Without `witness` nothing shows why.
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

#[pymethods]
impl Result {
    fn __repr__(&self) -> String {
        format!(
            "Result(status={:?}, {} objects)",
            self.status,
            self.objects.len()
        )
    }
}
