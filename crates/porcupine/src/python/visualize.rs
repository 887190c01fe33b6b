//! Implements `pyporcupine.visualize`: one HTML file that shows a history and its verdict.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::annotation::{self, Annotations};
use super::check::{check, ConsistencyName, Initial, PyHistory, PyModelArgument};
use super::custom::operations;
use super::model::failed;
use super::operation::Operation;
use super::outcome::{ObjectResult, Result};
use super::picture::{self, Bar};
use super::states::States;

/// Maximum number of operations for which the states of a built-in model are described: each takes
/// time proportional to the state's size.
const DESCRIBED_MAX: usize = 5_000;

/// The unit of times. In Python: `Literal["ns", "us", "ms", "s"]`.
pub type Unit = str;
/// Spans of time. In Python: `Iterable[tuple[float, float | None, str]]`.
pub type Bands = PyAny;

#[doc = include_str!("visualize.txt")]
#[pyfunction]
#[pyo3(signature = (
    history, model, *, path, consistency="linearizable", initial=Initial::Model,
    time_s=Some(10.0), memory_mb=Some(1000.0), threads=None, title="History", unit=None, bands=None, annotations=None
), text_signature = "(history, model, *, path, consistency='linearizable', initial=..., \
    time_s=10.0, memory_mb=1000.0, threads=None, title='History', unit=None, bands=(), annotations=())")]
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
    annotations: Option<&Bound<'_, Annotations>>,
) -> PyResult<Result> {
    let data = picture::begin(py, title, consistency, unit, "operation")?;
    let all = operations(history)?;
    let start = initial.object(py)?;
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
    let bars: Vec<Bar> = all.iter().map(|op| op.get().bar()).collect();
    let (clients, origin) = picture::add_bars(&data, &bars)?;
    annotation::add(&data, annotations, &clients, origin)?;
    let describe = model.getattr_opt("describe")?;
    let labels = all.iter().enumerate();
    let labels = labels.map(|(row, op)| label(py, row, op, describe.as_ref()));
    data.set_item("label", labels.collect::<PyResult<Vec<_>>>()?)?;
    let described = describer(model, &start, all.len())?;
    let states = described.as_ref().map(|model| States::new(model, &all));
    let states = states.transpose()?;
    data.set_item("objects", objects(py, &data, &result, states)?)?;
    picture::finish(&data, bands, origin, &path)?;
    Ok(result)
}

/// Returns what describes the states of a model: itself, or for a model by name one in Python. None
/// if that would take too long.
fn describer<'py>(
    model: &Bound<'py, PyModelArgument>,
    initial: &Bound<'py, PyAny>,
    operations: usize,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !model.is_instance_of::<PyString>() {
        return Ok(Some(model.clone()));
    }
    if operations > DESCRIBED_MAX {
        return Ok(None);
    }
    let states = model.py().import("pyporcupine.builtin_states")?;
    Ok(Some(states.call_method1("states_of", (model, initial))?))
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
            PyString::new(py, &format!("{}{arguments}{output}", op.f))
        }
    };
    picture::cut(text.as_any())
}

/// Returns the verdict on each key, and adds the operations' objects to the columns.
fn objects<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyDict>,
    result: &Result,
    mut states: Option<States<'_, 'py>>,
) -> PyResult<Bound<'py, PyList>> {
    let all = PyList::empty(py);
    let count: usize = result.objects.iter().map(|o| o.get().rows().len()).sum();
    let mut object_of = vec![0; count];
    for (at, object) in result.objects.iter().enumerate() {
        let object = object.get();
        for &row in object.rows() {
            object_of[row as usize] = at;
        }
        all.append(one_object(py, object, states.as_mut())?)?;
    }
    data.set_item(
        "states",
        states.map(|states| states.texts).unwrap_or_default(),
    )?;
    data.set_item("object", object_of)?;
    Ok(all)
}

fn one_object<'py>(
    py: Python<'py>,
    object: &ObjectResult,
    mut states: Option<&mut States<'_, 'py>>,
) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(py);
    let key = object.key.as_ref().map(|key| key.bind(py).str());
    made.set_item("key", key.transpose()?)?;
    made.set_item("status", object.status)?;
    made.set_item("reason", &object.reason)?;
    made.set_item("witness", &object.witness)?;
    made.set_item("stuck", object.stuck)?;
    let order = &object.linearization;
    made.set_item("order", order)?;
    let mut path = None;
    if let Some(states) = &mut states {
        let initial = states.initial()?;
        let whole = states.follow(&initial, 0, order)?;
        made.set_item("states", &whole.numbers)?;
        path = Some(whole);
    }
    let others = PyList::empty(py);
    for other in &object.alternatives {
        let keep = order.iter().zip(other).take_while(|(a, b)| a == b).count();
        let entry = PyDict::new(py);
        entry.set_item("keep", keep)?;
        entry.set_item("rest", &other[keep..])?;
        if let (Some(states), Some(path)) = (&mut states, &path) {
            let other = states.follow(path, keep, &other[keep..])?;
            entry.set_item("states", &other.numbers[keep + 1..])?;
        }
        others.append(entry)?;
    }
    made.set_item("others", others)?;
    Ok(made)
}
