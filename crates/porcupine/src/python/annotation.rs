//! Defines notes on a picture, and adds them to its page.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::moment::Moment;
use super::picture::Origin;
use super::process::Process;

/// A client. In Python: `int | str | None`.
type OptionalProcess = Option<Process>;
/// Notes. In Python: `Iterable[Annotation]`.
pub type Annotations = PyAny;
/// The row of notes that name neither a client nor a row.
const ROW: &str = "notes";

/// A note on the time axis of a picture: what a log or a fault injector knew of a span of time.
///
/// It is in the row of the client `process`, or in a row of its own, which the notes of equal `row`
/// share. Without `end` it is a moment. `details` are shown once the note is pointed at.
#[pyclass(frozen, module = "pyporcupine")]
pub struct Annotation {
    #[pyo3(get)]
    text: String,
    #[pyo3(get)]
    start: Moment,
    #[pyo3(get)]
    end: Option<Moment>,
    process: OptionalProcess,
    #[pyo3(get)]
    row: String,
    #[pyo3(get)]
    details: String,
}

#[pymethods]
impl Annotation {
    #[new]
    #[pyo3(signature = (text, start, end=None, *, process=None, row=None, details=String::new()),
        text_signature = "(text, start, end=None, *, process=None, row=None, details='')")]
    fn new(
        text: String,
        start: Moment,
        end: Option<Moment>,
        process: OptionalProcess,
        row: Option<String>,
        details: String,
    ) -> PyResult<Self> {
        if process.is_some() && row.is_some() {
            return Err(PyValueError::new_err(
                "process and row are both given, expected one: the row of a client, or a row of notes",
            ));
        }
        if let Some(end) = end.filter(|end| end.as_float() < start.as_float()) {
            let (start, end) = (start.text(), end.text());
            return Err(PyValueError::new_err(format!(
                "end is {end}, expected a time from start, {start}, on"
            )));
        }
        Ok(Self {
            text,
            start,
            end,
            process,
            row: row.unwrap_or_else(|| ROW.to_owned()),
            details,
        })
    }

    #[getter]
    fn process(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let process = self.process.as_ref();
        process.map(|process| process.in_python(py)).transpose()
    }

    fn __repr__(&self) -> String {
        let end = self.end.map_or("None".to_owned(), Moment::text);
        format!("Annotation({:?}, {}, {end})", self.text, self.start.text())
    }
}

/// Adds the notes to a page. `clients` are the names of its rows; those of notes come after them.
pub fn add(
    data: &Bound<'_, PyDict>,
    notes: Option<&Bound<'_, Annotations>>,
    clients: &[Process],
    origin: Origin,
) -> PyResult<()> {
    let py = data.py();
    let all = PyList::empty(py);
    let mut rows: Vec<String> = Vec::new();
    let items = notes.map(|notes| notes.try_iter()).transpose()?;
    for (at, item) in items.into_iter().flatten().enumerate() {
        let item = item?;
        let Ok(note) = item.cast::<Annotation>() else {
            return Err(PyTypeError::new_err(format!(
                "annotation {at} is {}, expected an Annotation",
                item.repr()?
            )));
        };
        let note = note.get();
        let row = match &note.process {
            Some(process) => clients.binary_search(process).map_err(|_| {
                PyValueError::new_err(format!(
                    "annotation {at} is of process {process}, expected one of the history"
                ))
            })?,
            None => {
                let known = rows.iter().position(|row| *row == note.row);
                clients.len()
                    + known.unwrap_or_else(|| {
                        rows.push(note.row.clone());
                        rows.len() - 1
                    })
            }
        };
        let made = PyDict::new(py);
        made.set_item("row", row)?;
        made.set_item("from", origin.since(note.start))?;
        made.set_item("to", note.end.map(|end| origin.since(end)))?;
        made.set_item("text", &note.text)?;
        made.set_item("details", &note.details)?;
        all.append(made)?;
    }
    data.set_item("notes", all)?;
    data.set_item("noteRows", rows)
}
