//! Implements `pyporcupine.check`.

use std::sync::OnceLock;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyString};
use pyo3::IntoPyObjectExt;

use super::custom;
use super::outcome::Result;
use super::refused;
use super::source::Source;
use crate::budget::{memory_of_machine, Budget, Limits};
use crate::datum::Datum;
use crate::objects::{decide_all, Kind};
use crate::order::Consistency;
use crate::validate::validate;
use crate::verdict::Request;

/// A model, by name or written in Python.
/// In Python: `Literal["set", "register", "cas-register", "key-value", "append-log", "counter",
/// "queue", "fifo-queue", "stack", "priority-queue", "deque", "mutex", "multi-register"] | Model[Any]`.
pub type PyModelArgument = PyAny;
/// The operations. In Python: `Sequence[Operation] | ArrowColumns`.
pub type PyHistory = PyAny;
/// What is decided. In Python: `Literal["linearizable", "sequential"]`.
pub type ConsistencyName = str;

#[doc = include_str!("check.txt")]
#[pyfunction]
#[pyo3(signature = (
    history, model, *, consistency="linearizable", initial=Initial::Model,
    time_s=Some(60.0), memory_mb=Some(memory_mb()), threads=None, witness=true, linearization=false
), text_signature = "(history, model, *, consistency='linearizable', initial=..., \
    time_s=60.0, memory_mb=MEMORY_MB, threads=None, witness=True, linearization=False)")]
#[allow(clippy::too_many_arguments)]
pub fn check(
    py: Python<'_>,
    history: &Bound<'_, PyHistory>,
    model: ModelArgument,
    consistency: &ConsistencyName,
    initial: Initial,
    time_s: Option<f64>,
    memory_mb: Option<f64>,
    threads: Option<usize>,
    witness: bool,
    linearization: bool,
) -> PyResult<Result> {
    let request = Request {
        consistency: parse_consistency(consistency)?,
        witness,
        linearization,
        stuck: None,
        limits: Limits::default(),
    };
    let budget = budget_of(time_s, memory_mb)?;
    let budget = (&budget, threads_of(threads)?);
    let (keyed, verdicts) = match model {
        ModelArgument::Named(kind) => {
            let initial = initial.datum(kind);
            let Source { rows, keyed } = Source::new(history)?;
            let verdicts = py.detach(|| {
                let count = keyed.objects.rows();
                validate(count, rows.clock(), |block, out| rows.times(block, out))?;
                decide_all(&*rows, &keyed.objects, kind, &initial, &request, budget)
            });
            (keyed, verdicts.map_err(refused)?)
        }
        ModelArgument::Python(model) => {
            if !matches!(initial, Initial::Model) {
                return Err(PyValueError::new_err(
                    "initial is for models by name; what a model written in Python starts with, \
                     its init() says",
                ));
            }
            let history = custom::operations(history)?;
            let keyed = custom::parts(py, model.bind(py), &history)?;
            let objects = &keyed.objects;
            let verdicts = custom::decide(py, &model, &history, objects, &request, budget)?;
            (keyed, verdicts)
        }
    };
    Result::new(py, keyed, verdicts, witness)
}

/// The model argument. In Python: `PyModelArgument`.
pub enum ModelArgument {
    Named(Kind),
    Python(Py<PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for ModelArgument {
    type Error = PyErr;

    fn extract(given: pyo3::Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(name) = given.cast::<PyString>() {
            return parse_model(&name.to_cow()?).map(ModelArgument::Named);
        }
        custom::check_is_model(&given)?;
        Ok(ModelArgument::Python(given.to_owned().unbind()))
    }
}

/// The initial value.
/// In Python: `int | str | bool | EllipsisType | None`.
pub enum Initial {
    /// `...`: the model's default.
    Model,
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
}

impl Initial {
    fn datum(&self, kind: Kind) -> Datum<'_> {
        match self {
            Initial::Model => kind.initial(),
            Initial::Null => Datum::Null,
            Initial::Bool(flag) => Datum::Bool(*flag),
            Initial::Int(value) => Datum::Int(*value),
            Initial::Text(text) => Datum::Text(text),
        }
    }

    /// Returns what Python gave.
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Initial::Model => Ok(PyEllipsis::get(py).to_owned().into_any()),
            Initial::Null => Ok(py.None().into_bound(py)),
            Initial::Bool(flag) => flag.into_bound_py_any(py),
            Initial::Int(value) => value.into_bound_py_any(py),
            Initial::Text(text) => text.into_bound_py_any(py),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Initial {
    type Error = PyErr;

    fn extract(given: pyo3::Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if given.is_none() {
            return Ok(Initial::Null);
        }
        if given.cast::<PyEllipsis>().is_ok() {
            return Ok(Initial::Model);
        }
        if let Ok(flag) = given.cast::<PyBool>() {
            return Ok(Initial::Bool(flag.is_true()));
        }
        if let Ok(text) = given.cast::<PyString>() {
            return Ok(Initial::Text(text.to_string()));
        }
        if given.is_instance_of::<PyInt>() {
            if let Ok(value) = given.extract() {
                return Ok(Initial::Int(value));
            }
        }
        Err(PyValueError::new_err(format!(
            "initial is {}, expected an int of 64 bits, a str, a bool or None",
            given.repr()?
        )))
    }
}

/// Starts the budget of a call.
pub fn budget_of(time_s: Option<f64>, memory_mb: Option<f64>) -> PyResult<Budget> {
    let time = positive("time_s", time_s)?.map(Duration::from_secs_f64);
    let bytes = positive("memory_mb", memory_mb)?.map(|mb| (mb * 1e6) as usize);
    Ok(Budget::new(time, bytes))
}

/// Assumed memory if the machine's is unknown.
const MEMORY: usize = 4 << 30;

/// Returns a quarter of the machine's memory in megabytes. It is cached because finding out takes
/// longer than most checks.
pub fn memory_mb() -> f64 {
    static SHARE: OnceLock<f64> = OnceLock::new();
    *SHARE.get_or_init(|| (memory_of_machine().unwrap_or(MEMORY) / 4_000_000) as f64)
}

fn parse_model(name: &str) -> PyResult<Kind> {
    Kind::from_name(name).ok_or_else(|| {
        let names: Vec<String> = Kind::NAMES.iter().map(|(n, _)| format!("{n:?}")).collect();
        PyValueError::new_err(format!(
            "model is {name:?}, expected one of {}",
            names.join(", ")
        ))
    })
}

fn parse_consistency(name: &str) -> PyResult<Consistency> {
    match name {
        "linearizable" => Ok(Consistency::Linearizable),
        "sequential" => Ok(Consistency::Sequential),
        _ => Err(PyValueError::new_err(format!(
            "consistency is {name:?}, expected \"linearizable\" or \"sequential\""
        ))),
    }
}

fn positive(name: &str, given: Option<f64>) -> PyResult<Option<f64>> {
    match given {
        Some(given) if !(given > 0.0 && given <= 1e9) => Err(PyValueError::new_err(format!(
            "{name} is {given}, expected a number above 0 and up to 1e9, or None for no limit"
        ))),
        given => Ok(given),
    }
}

fn threads_of(given: Option<usize>) -> PyResult<usize> {
    match given {
        Some(0) => Err(PyValueError::new_err(
            "threads is 0, expected 1 or more, or None for one per core",
        )),
        Some(threads) => Ok(threads),
        None => Ok(std::thread::available_parallelism().map_or(1, Into::into)),
    }
}
