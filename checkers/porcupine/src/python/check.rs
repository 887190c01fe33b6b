//! `pyporcupine.check`.

use std::collections::HashMap;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PySequence, PyString};

use super::operation::Operation;
use super::outcome::{ObjectResult, Result};
use super::{set_rows, HistoryError};
use crate::order::{Consistency, Timing, NEVER};
use crate::set;
use crate::verdict::{Status, Verdict};

/// Decides a history, each key by itself.
#[pyfunction]
#[pyo3(signature = (
    history, model="set", *, consistency="linearizable", time_s=None, memory_mb=None,
    threads=None, witness=true
))]
#[allow(clippy::too_many_arguments)]
pub fn check(
    py: Python<'_>,
    history: &Bound<'_, PyAny>,
    model: &str,
    consistency: &str,
    time_s: Option<f64>,
    memory_mb: Option<f64>,
    threads: Option<usize>,
    witness: bool,
) -> PyResult<Result> {
    let consistency = parse_consistency(consistency)?;
    budget(time_s, memory_mb, threads)?;
    if model != "set" {
        return Err(PyValueError::new_err(format!(
            "model is {model:?}, expected \"set\""
        )));
    }
    let objects = by_key(history)?;
    let mut status = Status::Valid;
    let mut results = Vec::with_capacity(objects.len());
    for object in objects {
        let rows = set_rows::read(py, &object.operations)?;
        let mut verdict = py.detach(|| set::decide(&rows, consistency));
        if !witness {
            verdict = without_witness(verdict);
        }
        status = status.max(verdict.status);
        let result = ObjectResult::new(py, object.key, object.operations.len(), verdict)?;
        results.push(Py::new(py, result)?);
    }
    Ok(Result {
        status: status.name(),
        objects: results,
    })
}

fn without_witness(verdict: Verdict) -> Verdict {
    Verdict {
        witness: Vec::new(),
        steps: Vec::new(),
        ..verdict
    }
}

fn parse_consistency(name: &str) -> PyResult<Consistency> {
    match name {
        "linearizable" => Ok(Consistency::Linearizable),
        "sequential" => Ok(Consistency::Sequential),
        _ => Err(PyValueError::new_err(format!(
            "consistency is {name:?}, expected \"linearizable\" or \"sequential\""
        ))),
    }
}

fn budget(time_s: Option<f64>, memory_mb: Option<f64>, threads: Option<usize>) -> PyResult<()> {
    for (name, given) in [("time_s", time_s), ("memory_mb", memory_mb)] {
        if let Some(given) = given.filter(|&g| !(g > 0.0 && g.is_finite())) {
            return Err(PyValueError::new_err(format!(
                "{name} is {given}, expected a number above 0, or None for no limit"
            )));
        }
    }
    time_s.map(Duration::from_secs_f64);
    if threads == Some(0) {
        return Err(PyValueError::new_err(
            "threads is 0, expected 1 or more, or None for one a core",
        ));
    }
    Ok(())
}

/// The operations of one key, with their positions in the history.
pub struct Object<'py> {
    pub key: Option<Py<PyAny>>,
    pub operations: Vec<(Timing, Bound<'py, Operation>)>,
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    None,
    Int(i64),
    Text(String),
}

/// Groups a history by key, in order of the keys' first appearance, and refuses rows that break
/// the rules of histories.
fn by_key<'py>(history: &Bound<'py, PyAny>) -> PyResult<Vec<Object<'py>>> {
    let list = match history.cast::<PyList>() {
        Ok(list) => list.clone(),
        Err(_) => history
            .cast::<PySequence>()
            .map_err(|_| {
                let name = history.get_type().to_string();
                PyTypeError::new_err(format!("history is a {name}, expected a list of Operation"))
            })?
            .to_list()?,
    };
    let mut objects: Vec<Object> = Vec::new();
    let mut numbers: HashMap<Key, usize> = HashMap::new();
    let mut timings = Vec::with_capacity(list.len());
    for (row, item) in list.iter().enumerate() {
        let operation = item.cast_into::<Operation>().map_err(|error| {
            let name = error.into_inner().get_type().to_string();
            PyTypeError::new_err(format!("row {row} is a {name}, expected an Operation"))
        })?;
        let timing = timing(row, operation.get())?;
        timings.push(timing);
        let key = operation.get().key.as_ref().map(|k| k.bind(history.py()));
        let at = *numbers.entry(parse_key(row, key)?).or_insert_with(|| {
            objects.push(Object {
                key: key.map(|k| k.clone().unbind()),
                operations: Vec::new(),
            });
            objects.len() - 1
        });
        objects[at].operations.push((timing, operation));
    }
    one_in_flight(&timings)?;
    Ok(objects)
}

fn timing(row: usize, operation: &Operation) -> PyResult<Timing> {
    if operation.ret.is_some_and(|ret| ret < operation.call) {
        return Err(HistoryError::new_err(format!(
            "row {row}: ret is {}, before its call at {}",
            operation.ret.unwrap_or_default(),
            operation.call
        )));
    }
    Ok(Timing {
        row,
        process: operation.process,
        call: operation.call,
        ret: operation.ret.unwrap_or(NEVER),
    })
}

fn parse_key(row: usize, key: Option<&Bound<'_, PyAny>>) -> PyResult<Key> {
    let Some(key) = key else {
        return Ok(Key::None);
    };
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(Key::Text(text.to_string()));
    }
    if key.is_instance_of::<PyInt>() {
        if let Ok(number) = key.extract::<i64>() {
            return Ok(Key::Int(number));
        }
    }
    Err(HistoryError::new_err(format!(
        "row {row}: key is {}, expected an int of 64 bits, a str or None",
        key.repr()?
    )))
}

/// A process has one call in flight; one that never returned stays in flight for good.
fn one_in_flight(timings: &[Timing]) -> PyResult<()> {
    let mut order: Vec<&Timing> = timings.iter().collect();
    order.sort_by_key(|t| (t.process, t.call, t.ret, t.row));
    for pair in order.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        if before.process == after.process && after.call < before.ret {
            return Err(HistoryError::new_err(format!(
                "row {}: call at {} while row {} of the same process {} is in flight{}",
                after.row,
                after.call,
                before.row,
                before.process,
                if before.ret == NEVER {
                    " for good (it never returned; give the process a new number after that)"
                } else {
                    ""
                }
            )));
        }
    }
    Ok(())
}
