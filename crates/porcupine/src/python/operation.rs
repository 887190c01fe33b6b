//! Defines operations as Python passes them.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::IntoPyObjectExt;

use super::moment::Moment;
use super::picture::Bar;
use super::process::Process;
use crate::clock::Clock;
use crate::order::{Timing, NEVER};

/// A client. In Python: `int | str`.
type PyProcess = PyAny;
/// A key. In Python: `int | str | None`.
pub type OptionalKey = Option<Py<PyAny>>;
/// What the model says. In Python: `Any`.
pub type OptionalValue = Option<Py<PyAny>>;

/// A call and its end.
///
/// `call` and `ret` are times on one clock, in any unit: ints, or floats, which are never rounded.
/// An operation precedes another if its `ret` is less than the other's `call`; equal times are
/// concurrent. If `ret` is None, the
/// operation never returned: it may take effect at any time after its call, or never. Omit an
/// operation that certainly did not happen.
///
/// A process has one operation in flight; one that never returned stays in flight for good.
/// Operations with different keys concern different objects.
///
/// The model defines `f`, `value` and `output`; see `check`.
#[pyclass(frozen, module = "pyporcupine")]
pub struct Operation {
    pub process: Process,
    #[pyo3(get)]
    pub f: String,
    #[pyo3(get)]
    pub key: OptionalKey,
    #[pyo3(get)]
    pub value: OptionalValue,
    #[pyo3(get)]
    pub call: Moment,
    #[pyo3(get)]
    pub ret: Option<Moment>,
    #[pyo3(get)]
    pub output: OptionalValue,
}

impl Operation {
    pub fn times(&self) -> impl Iterator<Item = Moment> {
        [Some(self.call), self.ret].into_iter().flatten()
    }

    /// Returns its times as numbers on the clock of the history.
    #[inline]
    pub fn timing(&self, row: usize, process: i64, clock: Clock) -> PyResult<Timing> {
        let ret = self.ret.map(|ret| ret.number_in_row(clock, row, "ret"));
        Ok(Timing {
            row,
            process,
            call: self.call.number_in_row(clock, row, "call")?,
            ret: ret.transpose()?.unwrap_or(NEVER),
        })
    }

    /// Returns the interval that shows it.
    pub fn bar(&self) -> Bar<'_> {
        Bar {
            client: &self.process,
            call: self.call,
            ret: self.ret,
        }
    }
}

#[pymethods]
impl Operation {
    #[new]
    #[pyo3(signature = (process, f, key=None, value=None, *, call, ret=None, output=None))]
    fn new(
        process: Process,
        f: String,
        key: OptionalKey,
        value: OptionalValue,
        call: Moment,
        ret: Option<Moment>,
        output: OptionalValue,
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

    #[getter]
    fn process(&self, py: Python<'_>) -> PyResult<Py<PyProcess>> {
        self.process.in_python(py)
    }

    /// Lets an operation be pickled and copied.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Py<PyAny>, Bound<'py, PyDict>)> {
        let named = PyDict::new(py);
        named.set_item("call", self.call)?;
        named.set_item("ret", self.ret)?;
        named.set_item("output", &self.output)?;
        let positional = (self.process(py)?, &self.f, &self.key, &self.value);
        Ok((positional.into_py_any(py)?, named))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let repr = |o: &Option<Py<PyAny>>| match o {
            None => Ok("None".to_owned()),
            Some(o) => o.bind(py).repr().map(|r| r.to_string()),
        };
        let ret = self.ret.map_or("None".to_owned(), Moment::text);
        Ok(format!(
            "Operation(process={}, f={:?}, key={}, value={}, call={}, ret={ret}, output={})",
            self.process(py)?.bind(py).repr()?,
            self.f,
            repr(&self.key)?,
            repr(&self.value)?,
            self.call.text(),
            repr(&self.output)?
        ))
    }
}
