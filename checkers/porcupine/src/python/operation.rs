//! Defines operations as Python passes them.

use pyo3::prelude::*;

/// A call and its end.
///
/// `call` and `ret` are times on one clock, in any unit. An operation precedes another if its
/// `ret` is less than the other's `call`; equal times are concurrent. If `ret` is None, the
/// operation never returned: it may take effect at any time after its call, or never. Omit an
/// operation that certainly did not happen.
///
/// A process has one operation in flight; one that never returned stays in flight for good.
/// Operations with different keys concern different objects.
///
/// The model defines `f`, `value` and `output`; see `check`.
#[pyclass(frozen, module = "pyporcupine")]
pub struct Operation {
    #[pyo3(get)]
    pub process: i64,
    #[pyo3(get)]
    pub f: String,
    #[pyo3(get)]
    pub key: Option<Py<PyAny>>,
    #[pyo3(get)]
    pub value: Option<Py<PyAny>>,
    #[pyo3(get)]
    pub call: i64,
    #[pyo3(get)]
    pub ret: Option<i64>,
    #[pyo3(get)]
    pub output: Option<Py<PyAny>>,
}

#[pymethods]
impl Operation {
    #[new]
    #[pyo3(signature = (process, f, key=None, value=None, *, call, ret=None, output=None))]
    fn new(
        process: i64,
        f: String,
        key: Option<Py<PyAny>>,
        value: Option<Py<PyAny>>,
        call: i64,
        ret: Option<i64>,
        output: Option<Py<PyAny>>,
    ) -> Self {
        Self {
            process,
            f,
            key,
            value,
            call,
            ret,
            output,
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let repr = |o: &Option<Py<PyAny>>| match o {
            None => Ok("None".to_owned()),
            Some(o) => o.bind(py).repr().map(|r| r.to_string()),
        };
        let ret = self.ret.map_or("None".to_owned(), |r| r.to_string());
        Ok(format!(
            "Operation(process={}, f={:?}, key={}, value={}, call={}, ret={ret}, output={})",
            self.process,
            self.f,
            repr(&self.key)?,
            repr(&self.value)?,
            self.call,
            repr(&self.output)?
        ))
    }
}
