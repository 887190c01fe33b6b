//! Reads the history argument.

use std::ptr::NonNull;

use arrow_interface::ArrowArrayStream;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::list_rows::{Keyed, ListRows};
use super::{refused, HistoryError};
use crate::arrow::{ArrowRows, Key};
use crate::rows::Rows;

/// A history, its keys and the rows of each key.
pub struct Source {
    pub rows: Box<dyn Rows + Send>,
    pub keyed: Keyed,
}

impl Source {
    /// Reads a list of operations or Arrow columns.
    pub fn new(history: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(stream) = stream_of("history", history)? {
            return Self::arrow(history.py(), stream);
        }
        let (rows, keyed) = ListRows::new(history)?;
        Ok(Self {
            rows: Box::new(rows),
            keyed,
        })
    }

    fn arrow(py: Python<'_>, stream: ArrowArrayStream) -> PyResult<Self> {
        let rows = ArrowRows::new(stream).map_err(HistoryError::new_err)?;
        let (keys, objects) = rows.by_key().map_err(refused)?;
        let keys = keys.into_iter().map(|key| match key {
            Key::None => Ok(None),
            Key::Int(number) => Ok(Some(number.into_pyobject(py)?.into_any().unbind())),
            Key::Text(text) => Ok(Some(text.into_pyobject(py)?.into_any().unbind())),
        });
        let keys = keys.collect::<PyResult<_>>()?;
        Ok(Self {
            rows: Box::new(rows),
            keyed: Keyed { keys, objects },
        })
    }
}

/// Returns the stream of an object with Arrow columns; `None` if it has none. `name` is that of the
/// argument.
pub fn stream_of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<ArrowArrayStream>> {
    let Some(method) = given.getattr_opt("__arrow_c_stream__")? else {
        return Ok(None);
    };
    let capsule = method.call0()?;
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err(format!(
            "__arrow_c_stream__ of {name} did not return a capsule"
        ))
    })?;
    let at: NonNull<ArrowArrayStream> =
        capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast();
    // SAFETY: a capsule with this name holds a valid stream.
    Ok(Some(unsafe { ArrowArrayStream::take(at.as_ptr()) }))
}
