//! Defines what a model written in Python receives.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyString, PyTuple};

use super::operation::{Operation, OptionalKey, OptionalValue};
use super::NoReturn;

/// A key. In Python: `int | str | None`.
type PyKey = PyAny;

/// A call: everything about an operation that a model may see, except its output.
///
/// `match call: case Call("write", value): …` destructures it.
#[pyclass(frozen, get_all, module = "pyporcupine")]
pub struct Call {
    f: String,
    value: Py<PyAny>,
    key: Py<PyKey>,
}

impl Call {
    pub fn of(py: Python<'_>, operation: &Operation) -> Self {
        let or_none =
            |given: &Option<Py<PyAny>>| given.as_ref().map_or(py.None(), |g| g.clone_ref(py));
        Self {
            f: operation.f.clone(),
            value: or_none(&operation.value),
            key: or_none(&operation.key),
        }
    }
}

#[pymethods]
impl Call {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH_ARGS: (&'static str, &'static str, &'static str) = ("f", "value", "key");

    #[new]
    #[pyo3(signature = (f, value=None, key=None))]
    fn new(py: Python<'_>, f: String, value: OptionalValue, key: OptionalKey) -> Self {
        Self {
            f,
            value: value.unwrap_or_else(|| py.None()),
            key: key.unwrap_or_else(|| py.None()),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let value = self.value.bind(py).repr()?;
        if self.key.is_none(py) {
            return Ok(format!("Call({:?}, {value})", self.f));
        }
        let key = self.key.bind(py).repr()?;
        Ok(format!("Call({:?}, {value}, key={key})", self.f))
    }
}

/// The type of UNKNOWN. Comparing, hashing or testing it raises TypeError.
#[pyclass(frozen, module = "pyporcupine", name = "Unknown")]
pub struct Unknown;

impl Unknown {
    fn refuse<T>() -> PyResult<T> {
        Err(PyTypeError::new_err(
            "the output of a call that never returned is UNKNOWN and cannot be compared: where \
             `output is UNKNOWN`, return the states after the call for every output that it may \
             have had",
        ))
    }
}

#[pymethods]
impl Unknown {
    fn __repr__(&self) -> &'static str {
        "UNKNOWN"
    }

    fn __richcmp__(
        &self,
        _other: &Bound<'_, PyAny>,
        _how: pyo3::basic::CompareOp,
    ) -> PyResult<bool> {
        Self::refuse()
    }

    fn __bool__(&self) -> PyResult<NoReturn> {
        Self::refuse()
    }

    fn __hash__(&self) -> PyResult<isize> {
        Self::refuse()
    }
}

/// A Python value that Rust can compare. Python considers 1, 1.0 and True equal; a model need not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Plain {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Plain>),
    Tuple(Vec<Plain>),
}

impl Plain {
    /// Converts a value; `None` if it has another type.
    pub fn new(given: Option<&Bound<'_, PyAny>>) -> Option<Self> {
        let Some(given) = given.filter(|g| !g.is_none()) else {
            return Some(Plain::Null);
        };
        if let Ok(flag) = given.cast_exact::<PyBool>() {
            return Some(Plain::Bool(flag.is_true()));
        }
        if given.is_exact_instance_of::<PyInt>() {
            return given.extract().ok().map(Plain::Int);
        }
        if let Ok(text) = given.cast_exact::<PyString>() {
            return text.to_str().ok().map(|text| Plain::Text(text.to_owned()));
        }
        if let Ok(list) = given.cast_exact::<PyList>() {
            let items = list.iter().map(|item| Plain::new(Some(&item)));
            return items.collect::<Option<_>>().map(Plain::List);
        }
        if let Ok(tuple) = given.cast_exact::<PyTuple>() {
            let items = tuple.iter().map(|item| Plain::new(Some(&item)));
            return items.collect::<Option<_>>().map(Plain::Tuple);
        }
        None
    }

    /// Collects the integers and texts in the value.
    pub fn atoms<'a>(&'a self, out: &mut Vec<&'a Plain>) {
        match self {
            Plain::Null | Plain::Bool(_) => {}
            Plain::Int(_) | Plain::Text(_) => out.push(self),
            Plain::List(items) | Plain::Tuple(items) => {
                for item in items {
                    item.atoms(out);
                }
            }
        }
    }
}
