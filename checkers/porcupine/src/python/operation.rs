//! Operations as Python gives them.

use pyo3::prelude::*;

/// One call and how it ended.
///
/// `call` and `ret` are times on one clock, in any unit; an operation precedes another when its
/// `ret` is less than the other's `call`, and equal times are concurrent. `ret` None: it never
/// returned, so it may take effect at any time after its call, or never. An operation that
/// certainly did not happen is left out of the history.
///
/// A process has one operation in flight; one that never returned stays in flight for good.
/// Operations with different keys are about different objects.
///
/// What `f`, `value` and `output` are is the model's; see `check`.
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
