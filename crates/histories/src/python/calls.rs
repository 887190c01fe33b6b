//! The calls on one key, as `pyporcupine` takes them.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::row_of;
use crate::calls;
use crate::history::History;
use crate::stream::stream;

/// The calls that constrain the set of one key, in order of invocation: inserts that may have
/// happened, and answered reads.
#[pyclass(frozen, module = "harness.native.histories")]
pub struct Calls {
    pub(super) history: Arc<History>,
    pub(super) calls: calls::Calls,
}

#[pymethods]
impl Calls {
    #[getter]
    fn key(&self) -> Option<i64> {
        self.calls.key
    }

    fn __len__(&self) -> usize {
        self.calls.rows.len()
    }

    /// Return the number of reads.
    fn reads(&self) -> usize {
        self.calls
            .is_read
            .iter()
            .filter(|&&is_read| is_read)
            .count()
    }

    /// Whether some process invoked a call at the very time at which its previous call and
    /// another call ended. No times can express that it follows only the former.
    fn ties(&self) -> bool {
        self.calls.ties(&self.history)
    }

    /// Return the rows of invocation and end of each call.
    fn rows(&self) -> Vec<(u32, Option<u32>)> {
        let rows = self.calls.rows.iter();
        rows.map(|&(invoke, end)| (invoke, row_of(end))).collect()
    }

    /// Export one row per call with the columns that `pyporcupine` takes: process, f ("add" or
    /// "read"), value, call, ret, output. Reads have no value, and only reads have an output. ret
    /// is null if the call did not end ok.
    ///
    /// If a process invoked a call at the very time at which its previous call ended, and nothing
    /// else ended then, the call is one nanosecond later here: it then follows its predecessor and
    /// no other call.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // a producer need not heed it
        let columns = self.calls.columns(&self.history);
        PyCapsule::new_with_value(py, stream(columns), c"arrow_array_stream")
    }
}
