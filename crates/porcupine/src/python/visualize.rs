//! Implements `pyporcupine.visualize`: one HTML file that shows a history and its verdict.

use std::collections::BTreeSet;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::check::{check, ConsistencyName, Initial, PyHistory, PyModelArgument};
use super::custom::operations;
use super::model::failed;
use super::operation::{Operation, Process};
use super::outcome::{ObjectResult, Result};

const PAGE: &str = include_str!("page/page.html");
const STYLES: [&str; 2] = [
    include_str!("../../python/pyporcupine/timeline/timeline.css"),
    include_str!("page/style.css"),
];
const SCRIPTS: [&str; 6] = [
    include_str!("../../python/pyporcupine/timeline/axis.js"),
    include_str!("../../python/pyporcupine/timeline/bands.js"),
    include_str!("../../python/pyporcupine/timeline/gestures.js"),
    include_str!("page/history.js"),
    include_str!("page/draw.js"),
    include_str!("page/controls.js"),
];
/// Maximum number of characters of an operation's text.
const LABEL_MAX: usize = 2000;
/// Integers up to this are exact in JavaScript.
const EXACT_MAX: i64 = 1 << 53;

/// The unit of times. In Python: `Literal["ns", "us", "ms", "s"]`.
type Unit = str;
/// Spans of time. In Python: `Iterable[tuple[int, int | None, str]]`.
type Bands = PyAny;

#[doc = include_str!("visualize.txt")]
#[pyfunction]
#[pyo3(signature = (
    history, model, *, path, consistency="linearizable", initial=Initial::Model,
    time_s=Some(10.0), memory_mb=Some(1000.0), threads=None, title="History", unit=None, bands=None
), text_signature = "(history, model, *, path, consistency='linearizable', initial=..., \
    time_s=10.0, memory_mb=1000.0, threads=None, title='History', unit=None, bands=())")]
#[allow(clippy::too_many_arguments)]
pub fn visualize(
    py: Python<'_>,
    history: &Bound<'_, PyHistory>,
    model: &Bound<'_, PyModelArgument>,
    path: std::path::PathBuf,
    consistency: &ConsistencyName,
    initial: Initial,
    time_s: Option<f64>,
    memory_mb: Option<f64>,
    threads: Option<usize>,
    title: &str,
    unit: Option<&Unit>,
    bands: Option<&Bound<'_, Bands>>,
) -> PyResult<Result> {
    let unit_s = unit.map(seconds_per_unit).transpose()?;
    let all = operations(history)?;
    let list = PyList::new(py, &all)?.into_any();
    let result = check(
        py,
        &list,
        model.extract()?,
        consistency,
        initial,
        time_s,
        memory_mb,
        threads,
        true,
        true,
    )?;
    let data = PyDict::new(py);
    data.set_item("title", title)?;
    data.set_item("consistency", consistency)?;
    data.set_item("unit_s", unit_s)?;
    let base = columns(py, &data, &all, model.getattr_opt("describe")?.as_ref())?;
    data.set_item("objects", objects(py, &data, &result)?)?;
    data.set_item("bands", parse_bands(py, bands, base)?)?;
    let json = py.import("json")?.call_method1("dumps", (data,))?;
    // Within a script, only "<" could end the script.
    let json = json.extract::<String>()?.replace('<', "\\u003c");
    let page = PAGE
        .replacen("/*STYLE*/", &STYLES.concat(), 1)
        .replacen("/*SCRIPT*/", &SCRIPTS.concat(), 1)
        .replacen("/*DATA*/", &json, 1);
    std::fs::write(&path, page).map_err(|error| {
        pyo3::exceptions::PyOSError::new_err(format!("cannot write {}: {error}", path.display()))
    })?;
    Ok(result)
}

fn seconds_per_unit(unit: &str) -> PyResult<f64> {
    match unit {
        "ns" => Ok(1e-9),
        "us" => Ok(1e-6),
        "ms" => Ok(1e-3),
        "s" => Ok(1.0),
        _ => Err(PyValueError::new_err(format!(
            "unit is {unit:?}, expected \"ns\", \"us\", \"ms\", \"s\", or None (no unit of time)"
        ))),
    }
}

/// Returns the operations as columns, and the time that counts as 0.
fn columns(
    py: Python<'_>,
    data: &Bound<'_, PyDict>,
    all: &[Py<Operation>],
    describe: Option<&Bound<'_, PyAny>>,
) -> PyResult<i64> {
    let times = || {
        all.iter()
            .flat_map(|op| [Some(op.get().call), op.get().ret])
            .flatten()
    };
    let far = times().any(|time| time.unsigned_abs() > EXACT_MAX as u64);
    let base = if far { times().min().unwrap_or(0) } else { 0 };
    let clients: BTreeSet<&Process> = all.iter().map(|op| &op.get().process).collect();
    let clients: Vec<&Process> = clients.into_iter().collect();
    let client = |op: &Py<Operation>| clients.binary_search(&&op.get().process).ok();
    data.set_item("client", all.iter().map(client).collect::<Vec<_>>())?;
    // As texts, because they may exceed JavaScript's exact range.
    let names: Vec<String> = clients.iter().map(|client| client.to_string()).collect();
    data.set_item("clients", names)?;
    let calls: Vec<i64> = all
        .iter()
        .map(|op| op.get().call.saturating_sub(base))
        .collect();
    let rets = all
        .iter()
        .map(|op| op.get().ret.map(|ret| ret.saturating_sub(base)));
    data.set_item("call", calls)?;
    data.set_item("ret", rets.collect::<Vec<_>>())?;
    let labels = all.iter().enumerate();
    let labels = labels.map(|(row, op)| label(py, row, op, describe));
    data.set_item("label", labels.collect::<PyResult<Vec<_>>>()?)?;
    Ok(base)
}

fn label<'py>(
    py: Python<'py>,
    row: usize,
    operation: &Py<Operation>,
    describe: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let text = match describe {
        Some(describe) => {
            let question = format!("row {row}: describe({})", operation.bind(py).repr()?);
            let text = describe.call1((operation,));
            text.and_then(|text| text.str())
                .map_err(|error| failed(py, error, &question))?
        }
        None => {
            let op = operation.get();
            let repr = |given: &Option<Py<PyAny>>| match given {
                Some(given) if !given.is_none(py) => given.bind(py).repr().map(Some),
                _ => Ok(None),
            };
            let arguments = match repr(&op.value)? {
                Some(value) => format!(" {}", value.to_string_lossy()),
                None => String::new(),
            };
            let output = match repr(&op.output)? {
                _ if op.ret.is_none() => " → ?".to_owned(),
                Some(output) => format!(" → {}", output.to_string_lossy()),
                None if op.value.is_none() => " → None".to_owned(),
                None => String::new(),
            };
            pyo3::types::PyString::new(py, &format!("{}{arguments}{output}", op.f))
        }
    };
    text.into_any()
        .get_item(pyo3::types::PySlice::new(py, 0, LABEL_MAX as isize, 1))
}

/// Returns the verdict on each key, and adds the operations' objects to the columns.
fn objects<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyDict>,
    result: &Result,
) -> PyResult<Bound<'py, PyList>> {
    let all = PyList::empty(py);
    let count: usize = result.objects.iter().map(|o| o.get().rows().len()).sum();
    let mut object_of = vec![0; count];
    for (at, object) in result.objects.iter().enumerate() {
        let object = object.get();
        for &row in object.rows() {
            object_of[row as usize] = at;
        }
        all.append(one_object(py, object)?)?;
    }
    data.set_item("object", object_of)?;
    Ok(all)
}

fn one_object<'py>(py: Python<'py>, object: &ObjectResult) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(py);
    let key = object.key.as_ref().map(|key| key.bind(py).str());
    made.set_item("key", key.transpose()?)?;
    made.set_item("status", object.status)?;
    made.set_item("reason", &object.reason)?;
    made.set_item("witness", &object.witness)?;
    made.set_item("stuck", object.stuck)?;
    let order = &object.linearization;
    made.set_item("order", order)?;
    let others = PyList::empty(py);
    for other in &object.alternatives {
        let keep = order.iter().zip(other).take_while(|(a, b)| a == b).count();
        let entry = PyDict::new(py);
        entry.set_item("keep", keep)?;
        entry.set_item("rest", &other[keep..])?;
        others.append(entry)?;
    }
    made.set_item("others", others)?;
    Ok(made)
}

/// Parses triples (from, to or None, text) with times on the history's clock.
fn parse_bands<'py>(
    py: Python<'py>,
    bands: Option<&Bound<'py, PyAny>>,
    base: i64,
) -> PyResult<Bound<'py, PyList>> {
    let all = PyList::empty(py);
    let Some(bands) = bands else {
        return Ok(all);
    };
    for (at, band) in bands.try_iter()?.enumerate() {
        let band = band?;
        let triple = band.cast::<PyTuple>().ok().and_then(|t| t.extract().ok());
        let Some((from, to, label)) = triple else {
            return Err(PyTypeError::new_err(format!(
                "band {at} is {}, expected (from, to or None, text) with times as in the history",
                band.repr()?
            )));
        };
        let (from, to, label): (i64, Option<i64>, String) = (from, to, label);
        let made = PyDict::new(py);
        made.set_item("from", from.saturating_sub(base))?;
        made.set_item("to", to.map(|to| to.saturating_sub(base)))?;
        made.set_item("label", label)?;
        all.append(made)?;
    }
    Ok(all)
}
