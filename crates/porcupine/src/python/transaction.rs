//! Defines transactions as Python passes them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PySequence, PyString};
use pyo3::IntoPyObjectExt;
use rustc_hash::FxHashMap;

use super::moment::{clock_of, Moment};
use super::picture::Bar;
use super::process::Process;
use super::HistoryError;
use crate::process::Names;
use crate::transactions::columns::{Columns, Owned};
use crate::transactions::history::Outcome;
use crate::transactions::words;

/// A client. In Python: `int | str`.
type PyProcess = PyAny;
/// Transactions. In Python: `Sequence[Transaction]`.
pub type PyTransactionList = PyAny;
/// The micro-operations. In Python: `Sequence[Sequence[Any]]`.
type PyMicroOps = PyAny;
/// How it ended. In Python: `Literal["ok", "info", "fail"]`.
type OutcomeName = String;
/// How it ended. In Python: `Literal["ok", "info", "fail"] | None`.
type OptionalOutcomeName = Option<String>;

/// A transaction: its micro-operations, and when it was called and returned.
///
/// A micro-operation is a triple of its name, a key (an int or a str) and a value. list-append:
/// ("append", key, element) and ("r", key, list), where None is the empty list. rw-register:
/// ("w", key, value) and ("r", key, value), where None is no value. Elements and values are ints or
/// texts.
///
/// `call` and `ret` are times on one clock, in any unit, ints or floats. A transaction returned
/// before another if its `ret` is less than the other's `call`. `outcome`: it committed ("ok"), it
/// certainly had no effect ("fail"), or nobody knows ("info"): what it read says nothing, and its
/// process makes no further calls. By default it is "ok" with `ret`, and "info" without.
#[pyclass(frozen, module = "pyporcupine")]
pub struct Transaction {
    process: Process,
    #[pyo3(get)]
    pub micro_ops: Py<PyMicroOps>,
    #[pyo3(get)]
    call: Moment,
    #[pyo3(get)]
    ret: Option<Moment>,
    pub outcome: Outcome,
}

impl Transaction {
    /// Returns the interval that shows it.
    pub fn bar(&self) -> Bar<'_> {
        Bar {
            client: &self.process,
            call: self.call,
            ret: self.ret.filter(|_| self.outcome != Outcome::Unknown),
        }
    }
}

#[pymethods]
impl Transaction {
    #[new]
    #[pyo3(signature = (process, micro_ops, *, call, ret=None, outcome=None),
        text_signature = "(process, micro_ops, *, call, ret=None, outcome=None)")]
    fn new(
        process: Process,
        micro_ops: Py<PyMicroOps>,
        call: Moment,
        ret: Option<Moment>,
        outcome: OptionalOutcomeName,
    ) -> PyResult<Self> {
        let outcome = match (&outcome, ret) {
            (None, None) => Outcome::Unknown,
            (None, Some(_)) => Outcome::Committed,
            (Some(kind), ret) => match words::outcome(kind) {
                Some(Outcome::Committed) if ret.is_none() => {
                    let text = "ret is None, expected a time, as outcome is \"ok\"";
                    return Err(PyValueError::new_err(text));
                }
                Some(outcome) => outcome,
                None => {
                    let expected = words::OUTCOMES;
                    let text = format!("outcome is {kind:?}, expected {expected} or None");
                    return Err(PyValueError::new_err(text));
                }
            },
        };
        Ok(Self {
            process,
            micro_ops,
            call,
            ret,
            outcome,
        })
    }

    #[getter]
    fn process(&self, py: Python<'_>) -> PyResult<Py<PyProcess>> {
        self.process.in_python(py)
    }

    #[getter]
    fn outcome(&self) -> OutcomeName {
        let name = match self.outcome {
            Outcome::Committed => "ok",
            Outcome::Unknown => "info",
            Outcome::Aborted => "fail",
        };
        name.to_owned()
    }

    /// Lets a transaction be pickled and copied.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Py<PyAny>, Bound<'py, PyDict>)> {
        let named = PyDict::new(py);
        named.set_item("call", self.call)?;
        named.set_item("ret", self.ret)?;
        named.set_item("outcome", self.outcome())?;
        let positional = (self.process(py)?, &self.micro_ops);
        Ok((positional.into_py_any(py)?, named))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let ret = self.ret.map_or("None".to_owned(), Moment::text);
        Ok(format!(
            "Transaction(process={}, micro_ops={}, call={}, ret={ret}, outcome={:?})",
            self.process(py)?.bind(py).repr()?,
            self.micro_ops.bind(py).repr()?,
            self.call.text(),
            self.outcome(),
        ))
    }
}

/// Copies transactions out of Python.
#[derive(Default)]
struct Reader {
    columns: Columns,
    names: Names,
    int_keys: FxHashMap<i64, u32>,
    text_keys: FxHashMap<String, u32>,
    lists: bool,
    items: Vec<i64>,
}

/// Returns the history of a list of transactions. `lists`: whether keys hold lists.
pub fn read(history: &Bound<'_, PyList>, lists: bool) -> PyResult<Owned> {
    let mut reader = Reader {
        lists,
        ..Reader::default()
    };
    let all = transactions(history)?;
    let times = all.iter().map(|one| one.get());
    reader.columns.clock = clock_of(times.flat_map(|one| [Some(one.call), one.ret]).flatten());
    for (row, transaction) in all.iter().enumerate() {
        reader.transaction(history.py(), row, transaction.get())?;
    }
    Ok(reader.columns.finish())
}

/// Returns the transactions of a list.
pub fn transactions<'py>(history: &Bound<'py, PyList>) -> PyResult<Vec<Bound<'py, Transaction>>> {
    let cast = |(row, item): (usize, Bound<'py, PyAny>)| {
        item.cast_into::<Transaction>().map_err(|error| {
            let item = error.into_inner();
            let text = format!("row {row} is a {}, expected a Transaction", item.get_type());
            pyo3::exceptions::PyTypeError::new_err(text)
        })
    };
    history.iter().enumerate().map(cast).collect()
}

impl Reader {
    fn transaction(&mut self, py: Python<'_>, row: usize, given: &Transaction) -> PyResult<()> {
        let process = given.process.number(&mut self.names);
        let clock = self.columns.clock;
        let call = given.call.number_in_row(clock, row, "call")?;
        let ret = given.ret.map(|ret| ret.number_in_row(clock, row, "ret"));
        let ret = ret.transpose()?.unwrap_or(call);
        self.columns.push(process, call, ret, given.outcome);
        let micro_ops = given.micro_ops.bind(py);
        let items = micro_ops.cast::<PySequence>().map_err(|_| {
            bad(
                row,
                "micro_ops",
                micro_ops,
                "a list of triples (f, key, value)",
            )
        })?;
        for item in items.to_list()?.iter() {
            let is_text = item.is_instance_of::<PyString>();
            let triple = item.cast::<PySequence>().ok().filter(|_| !is_text);
            let triple = triple.map(|triple| triple.to_list()).transpose()?;
            let Some(triple) = triple.filter(|triple| triple.len() == 3) else {
                return Err(bad(
                    row,
                    "a micro-operation",
                    &item,
                    "a triple (f, key, value)",
                ));
            };
            self.micro_op(
                row,
                &triple.get_item(0)?,
                &triple.get_item(1)?,
                &triple.get_item(2)?,
            )?;
        }
        Ok(())
    }

    fn micro_op(
        &mut self,
        row: usize,
        f: &Bound<'_, PyAny>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let name = f.cast::<PyString>().ok().map(|name| name.to_string());
        let is_read = name.and_then(|name| words::is_read(&name, self.lists));
        let Some(is_read) = is_read else {
            return Err(bad(row, "f", f, words::expected(self.lists)));
        };
        let key = self.key(row, key)?;
        if !is_read {
            let value = self.value(row, "value", value)?;
            self.columns.write(key, value);
            return Ok(());
        }
        let mut items = std::mem::take(&mut self.items);
        items.clear();
        if self.lists && !value.is_none() {
            let is_text = value.is_instance_of::<PyString>();
            let list = value.cast::<PySequence>().ok().filter(|_| !is_text);
            let Some(list) = list else {
                return Err(bad(row, "what it read", value, "a list or None"));
            };
            for item in list.to_list()?.iter() {
                items.push(self.value(row, "an element that it read", &item)?);
            }
        } else if !value.is_none() {
            items.push(self.value(row, "what it read", value)?);
        }
        self.columns.read(key, &items);
        self.items = items;
        Ok(())
    }

    fn key(&mut self, row: usize, key: &Bound<'_, PyAny>) -> PyResult<u32> {
        let next = self.columns.key_texts.len() as u32;
        let place = if let Ok(text) = key.cast::<PyString>() {
            *self.text_keys.entry(text.to_string()).or_insert(next)
        } else {
            let Some(number) = int(key) else {
                return Err(bad(row, "key", key, "an int of 64 bits or a str"));
            };
            *self.int_keys.entry(number).or_insert(next)
        };
        if place == next {
            self.columns.key_texts.push(key.repr()?.to_string());
        }
        Ok(place)
    }

    fn value(&mut self, row: usize, field: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
        if let Some(number) = int(value) {
            return Ok(number);
        }
        match value.cast::<PyString>() {
            Ok(text) => Ok(self.columns.texts.number(&text.to_cow()?)),
            Err(_) => Err(bad(row, field, value, "an int of 64 bits or a str")),
        }
    }
}

fn int(value: &Bound<'_, PyAny>) -> Option<i64> {
    let is_int = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    is_int.then(|| value.extract().ok())?
}

fn bad(row: usize, field: &str, found: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    match found.repr() {
        Ok(found) => HistoryError::new_err(format!(
            "row {row}: {field} is {found}, expected {expected}"
        )),
        Err(error) => error,
    }
}
