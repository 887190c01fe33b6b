//! Implements `check` with a model written in Python.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMapping, PyType};
use pyo3::IntoPyObjectExt;

use super::actions::Actions;
use super::list_rows::{as_list, as_operation, parse_key, Grouping, Keyed};
use super::model::{failed, format_value, name, PyModel};
use super::moment::{clock_of, Moment};
use super::operation::Operation;
use super::process::Process;
use super::source::Source;
use super::{refused, ModelError};
use crate::budget::Budget;
use crate::datum::Datum;
use crate::models::general;
use crate::objects::decide_each;
use crate::order::NEVER;
use crate::partition::Partition;
use crate::process::Names;
use crate::rows::{Field, Times};
use crate::validate::validate;
use crate::verdict::{Request, Verdict};

/// Checks that the object has every required method of a model.
pub fn check_is_model(model: &Bound<'_, PyAny>) -> PyResult<()> {
    let has = |method| model.getattr(method).is_ok_and(|found| found.is_callable());
    let text = if model.cast::<PyType>().is_ok() {
        format!(
            "model is the class {0}, expected an instance of it: {0}()",
            format_value(model)
        )
    } else if !has("init") || !has("step") {
        format!(
            "model is {}, expected the name of a model, or an object with init() and \
             step(state, call, output)",
            format_value(model)
        )
    } else {
        return Ok(());
    };
    Err(PyTypeError::new_err(text))
}

/// Splits the history into parts that the model judges independently: by its `partition`, otherwise
/// by key.
pub fn parts(
    py: Python<'_>,
    model: &Bound<'_, PyAny>,
    history: &[Py<Operation>],
) -> PyResult<Keyed> {
    match model.getattr_opt("partition")? {
        Some(partition) => partitioned(py, model, &partition, history),
        None => by_key(py, history),
    }
}

fn by_key(py: Python<'_>, history: &[Py<Operation>]) -> PyResult<Keyed> {
    let mut grouping = Grouping::default();
    for operation in history {
        let key = operation.get().key.as_ref().map(|key| key.bind(py));
        grouping.push(key)?;
    }
    Ok(grouping.keyed())
}

fn partitioned(
    py: Python<'_>,
    model: &Bound<'_, PyAny>,
    partition: &Bound<'_, PyAny>,
    history: &[Py<Operation>],
) -> PyResult<Keyed> {
    let question = format!("{}.partition(history)", name(model));
    let refuse = |what: String| ModelError::new_err(format!("{question} {what}"));
    let list = PyList::new(py, history)?;
    let found = partition.call1((list,));
    let found = found.map_err(|error| failed(py, error, &question))?;
    let Ok(parts) = found.cast::<PyMapping>() else {
        let found = format_value(&found);
        return Err(refuse(format!(
            "returned {found}, expected a dict: key → positions"
        )));
    };
    const NONE: u32 = u32::MAX;
    let mut keys = Vec::new();
    let mut of = vec![NONE; history.len()];
    for part in parts.items()?.iter() {
        let (key, positions): (Bound<'_, PyAny>, Bound<'_, PyAny>) = part.extract()?;
        let key = Some(key).filter(|key| !key.is_none());
        parse_key(|| format!("{question}: a key"), key.as_ref())?;
        let object = keys.len() as u32;
        for position in positions.try_iter()? {
            let position = position?;
            let at = position.extract::<u32>().ok();
            let Some(at) = at.filter(|&at| (at as usize) < history.len()) else {
                let (found, rows) = (format_value(&position), history.len());
                return Err(refuse(format!(
                    "has the position {found}, expected an int from 0 to below {rows}"
                )));
            };
            if std::mem::replace(&mut of[at as usize], object) != NONE {
                return Err(refuse(format!(
                    "has the position {at} twice, expected it once"
                )));
            }
        }
        keys.push(key.map(Bound::unbind));
    }
    match of.iter().position(|&object| object == NONE) {
        Some(at) => Err(refuse(format!(
            "lacks the position {at}, expected every one once"
        ))),
        None => Ok(Keyed {
            objects: Partition::new(of, keys.len()),
            keys,
        }),
    }
}

/// Decides every part with the model.
pub fn decide(
    py: Python<'_>,
    model: &Py<PyAny>,
    history: &[Py<Operation>],
    objects: &Partition,
    request: &Request,
    (budget, threads): (&Budget, usize),
) -> PyResult<Vec<Verdict>> {
    let mut names = Names::default();
    let processes = history.iter().map(|op| op.get().process.number(&mut names));
    let processes: Vec<i64> = processes.collect();
    let clock = clock_of(history.iter().flat_map(|op| op.get().times()));
    let mut timings = Vec::with_capacity(history.len());
    for (row, operation) in history.iter().enumerate() {
        timings.push(operation.get().timing(row, processes[row], clock)?);
    }
    let timing = |row: usize| timings[row];
    let times = |rows: Range<usize>, out: &mut Times| {
        rows.enumerate()
            .for_each(|(at, row)| out.put(at, timing(row)));
    };
    validate(history.len(), clock, times).map_err(refused)?;
    let unknown = py.import("pyporcupine")?.getattr("UNKNOWN")?.unbind();
    let stop = AtomicBool::new(false);
    let process = |row: u32| timing(row as usize).process;
    let one = |_, object: &[u32], request: &Request| -> PyResult<Verdict> {
        let made = Python::attach(|py| {
            let (actions, ops) = Actions::new(py, history, &timings, object, &unknown)?;
            let count = actions.len();
            let mut made = PyModel::new(py, model, actions, request.limits, &stop)?;
            made.tabulate(py, count, ops.len())?;
            Ok::<_, PyErr>((made, ops))
        });
        let (mut py_model, ops) = made?;
        let verdict = general::decide(&mut py_model, &ops, request, process);
        match py_model.error.take() {
            Some(error) => Err(error),
            None => Ok(verdict),
        }
    };
    let verdicts = py.detach(|| decide_each(objects, request, (budget, threads), one));
    verdicts.into_iter().collect()
}

/// Returns the operations of a list or of Arrow columns.
pub fn operations(history: &Bound<'_, PyAny>) -> PyResult<Vec<Py<Operation>>> {
    if history.hasattr("__arrow_c_stream__")? {
        return from_columns(history.py(), &Source::new(history)?);
    }
    let mut all = Vec::new();
    for (row, item) in as_list(history)?.iter().enumerate() {
        all.push(as_operation(row, item)?.unbind());
    }
    Ok(all)
}

fn from_columns(py: Python<'_>, source: &Source) -> PyResult<Vec<Py<Operation>>> {
    let Source { rows, keyed } = source;
    let clock = rows.clock();
    let time = |number| Moment::of_number(number, clock);
    let mut all: Vec<(u32, Py<Operation>)> = Vec::new();
    for (key, object) in keyed.keys.iter().zip(keyed.objects.iter()) {
        for &row in object {
            let at = row as usize;
            let timing = rows.timing(at);
            let value = match (rows.datum(at, Field::Expected), rows.value(at)) {
                (Datum::Null, value) => value,
                (expected, new) => Datum::List(Box::new([expected, new])),
            };
            let operation = Operation {
                process: match rows.process_name(at) {
                    Some(name) => Process::Name(name.to_owned()),
                    None => Process::Number(timing.process),
                },
                f: rows.f(at).to_owned(),
                key: key.as_ref().map(|key| key.clone_ref(py)),
                value: Some(in_python(py, &value)?),
                call: time(timing.call),
                ret: Some(timing.ret).filter(|&ret| ret != NEVER).map(time),
                output: Some(in_python(py, &rows.output(at))?),
            };
            all.push((row, Py::new(py, operation)?));
        }
    }
    all.sort_unstable_by_key(|&(row, _)| row);
    Ok(all.into_iter().map(|(_, operation)| operation).collect())
}

fn in_python(py: Python<'_>, datum: &Datum) -> PyResult<Py<PyAny>> {
    Ok(match datum {
        Datum::Null => py.None(),
        Datum::Bool(flag) => flag.into_py_any(py)?,
        Datum::Int(value) => value.into_py_any(py)?,
        Datum::Text(text) => text.into_py_any(py)?,
        Datum::Ints(ints) => ints.into_py_any(py)?,
        Datum::List(items) => {
            let items = items.iter().map(|item| in_python(py, item));
            items.collect::<PyResult<Vec<_>>>()?.into_py_any(py)?
        }
    })
}
