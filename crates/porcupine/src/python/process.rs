//! Defines clients as Python passes them.

use std::fmt;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};
use pyo3::IntoPyObjectExt;

use crate::process::Names;

/// A client. Numbers come before names. In Python: `int | str`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Process {
    Number(i64),
    Name(String),
}

impl Process {
    /// Returns the number by which decisions know it.
    pub fn number(&self, names: &mut Names) -> i64 {
        match self {
            Process::Number(number) => *number,
            Process::Name(name) => names.number(name),
        }
    }

    pub fn in_python(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Process::Number(number) => number.into_py_any(py),
            Process::Name(name) => name.into_py_any(py),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Process::Number(number) => write!(f, "{number}"),
            Process::Name(name) => write!(f, "{name}"),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Process {
    type Error = PyErr;

    fn extract(given: pyo3::Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(name) = given.cast::<PyString>() {
            return Ok(Process::Name(name.to_cow()?.into_owned()));
        }
        if given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>() {
            return given.extract().map(Process::Number);
        }
        Err(PyTypeError::new_err(format!(
            "process is {}, expected an int or a str",
            given.repr()?
        )))
    }
}
