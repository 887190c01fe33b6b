//! The Python class that makes a history from batches of Arrow buffers.

use std::collections::HashMap;
use std::mem::take;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::batch::{self, Batch};
use crate::history::History;
use crate::python::{refused, Columns};

/// The buffers of a column as `Columns.arrow` returns them.
type Buffers = [PyBackedBytes; 3];

/// Makes the columns of a history from batches of Arrow buffers.
#[pyclass(module = "harness.native.histories")]
pub struct ColumnsBuilder {
    history: History,
}

#[pymethods]
impl ColumnsBuilder {
    #[new]
    #[pyo3(signature = (rows=0, numbers=0, raw=0, *, whole))]
    fn new(rows: usize, numbers: usize, raw: usize, whole: bool) -> ColumnsBuilder {
        let mut history = match whole {
            true => History::with_capacity(rows),
            false => History::part(rows),
        };
        history.numbers.reserve_exact(numbers);
        history.raw.reserve_exact(raw);
        ColumnsBuilder { history }
    }

    /// Appends operations; `columns` are the buffers of each column, by name, and `words` the texts
    /// of those that hold indices. Returns the bytes that the operations take so far.
    fn append(
        &mut self,
        py: Python<'_>,
        rows: usize,
        columns: HashMap<String, Buffers>,
        mut words: HashMap<String, Vec<String>>,
    ) -> PyResult<usize> {
        let column = |name: &str| {
            let found = columns.get(name).map(|buffers| batch::Column {
                validity: &buffers[0],
                offsets: &buffers[1],
                data: &buffers[2],
            });
            found.unwrap_or_default()
        };
        let mut texts = |name: &str| words.remove(name).unwrap_or_default();
        let batch = Batch {
            index: column("index"),
            process: column("process"),
            node: (column("node"), texts("node")),
            kind: (column("kind"), texts("kind")),
            f: (column("f"), texts("f")),
            key: column("key"),
            value: column("value"),
            values: column("values"),
            detail: column("detail"),
            time_ns: column("time_ns"),
            error: column("error"),
        };
        let history = &mut self.history;
        py.detach(|| batch.append_to(rows, history))
            .map_err(refused)?;
        Ok(history.bytes())
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<Columns> {
        let mut history = take(&mut self.history);
        py.detach(|| history.match_ends()).map_err(refused)?;
        Ok(Columns::of(history))
    }
}
