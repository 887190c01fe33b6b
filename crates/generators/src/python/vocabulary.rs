//! Converts calls, operations, workers and errors from and to their forms in Python's
//! `harness/core`.

use std::any::Any;
use std::rc::Rc;

use histories::journal::Kind;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyString};

use crate::generator::{Call, UsageError};
use crate::scheduler::{Ended, Scheduler};
use crate::workers::{Slot, Worker};
use crate::{Failure, Ns};

/// The classes and constants of harness/core/protocols.py and op.py.
pub(super) struct Classes {
    pub(super) context: Py<PyAny>,
    worker: Py<PyAny>,
    pub(super) ready: Py<PyAny>,
    pub(super) pending: Py<PyAny>,
    pub(super) exhausted: Py<PyAny>,
    call: Py<PyAny>,
    pub(super) op: Py<PyAny>,
    /// In the order of `Kind::ALL`.
    pub(super) kinds: Vec<Py<PyAny>>,
    /// The process of the nemesis.
    pub(super) nemesis: Py<PyAny>,
    /// The node of a roaming worker.
    pub(super) any_node: String,
}

pub(super) fn classes(py: Python<'_>) -> PyResult<&'static Classes> {
    static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();
    CLASSES.get_or_try_init(py, || {
        let protocols = py.import("harness.core.protocols")?;
        let ops = py.import("harness.core.op")?;
        let class = |name| Ok::<_, PyErr>(protocols.getattr(name)?.unbind());
        let of_ops = |name| Ok::<_, PyErr>(ops.getattr(name)?.unbind());
        let kind = |kind: Kind| Ok(ops.getattr("Kind")?.call1((kind.name(),))?.unbind());
        Ok(Classes {
            context: class("Context")?,
            worker: class("Worker")?,
            ready: class("Ready")?,
            pending: class("Pending")?,
            exhausted: class("Exhausted")?,
            call: of_ops("Call")?,
            op: of_ops("Op")?,
            kinds: Kind::ALL.map(kind).into_iter().collect::<PyResult<_>>()?,
            nemesis: of_ops("NEMESIS")?,
            any_node: protocols.getattr("ANY_NODE")?.extract()?,
        })
    })
}

/// Caches Python's workers with their processes, by number from the nemesis on.
#[derive(Default)]
pub(super) struct KnownWorkers(Vec<Option<(i64, Py<PyAny>)>>);

impl KnownWorkers {
    pub(super) fn worker<'py>(
        &mut self,
        py: Python<'py>,
        worker: &Worker,
    ) -> PyResult<Bound<'py, PyAny>> {
        let at = (worker.number + 1) as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        match &self.0[at] {
            Some((process, known)) if *process == worker.process => Ok(known.bind(py).clone()),
            _ => {
                let class = classes(py)?.worker.bind(py);
                let made = class.call1((worker.number, worker.process, &*worker.node))?;
                self.0[at] = Some((worker.process, made.clone().unbind()));
                Ok(made)
            }
        }
    }
}

/// Returns the Python object in a value from Python.
pub(super) fn python_object(object: &dyn Any) -> &Py<PyAny> {
    object.downcast_ref().expect("the value came from Python")
}

// --- calls and ops -----------------------------------------------------------------------------

pub(super) fn call_of(call: &Bound<'_, PyAny>) -> PyResult<Call> {
    let value = call.getattr("value")?;
    let number = match value.is_exact_instance_of::<PyInt>() {
        true => value.extract::<i64>().ok(),
        false => None,
    };
    let f = call.getattr("f")?;
    let node = call.getattr("node")?;
    Ok(Call {
        f: f.cast::<PyString>()?.to_str()?.into(),
        value: number,
        key: call.getattr("key")?.extract()?,
        node: match node.is_none() {
            true => None,
            false => Some(node.cast::<PyString>()?.to_str()?.into()),
        },
        nemesis: call.getattr("nemesis")?.extract()?,
        foreign: match number.is_some() || value.is_none() {
            true => None,
            false => Some(Rc::new(value.unbind())),
        },
    })
}

/// Returns the call in Python's form.
pub(super) fn python_call<'py>(py: Python<'py>, call: &Call) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("f", &*call.f)?;
    fields.set_item("key", call.key)?;
    fields.set_item("node", call.node.as_deref())?;
    fields.set_item("nemesis", call.nemesis)?;
    match &call.foreign {
        None => fields.set_item("value", call.value)?,
        Some(value) => fields.set_item("value", python_object(&**value))?,
    }
    classes(py)?.call.bind(py).call((), Some(&fields))
}

/// Returns the kind of a Python Done.
pub fn kind_of(done: &Bound<'_, PyAny>) -> PyResult<Kind> {
    let kind = done.getattr(intern!(done.py(), "kind"))?;
    let name: &str = kind.extract()?;
    let known = Kind::from_name(name).filter(|kind| *kind != Kind::Invoke);
    known.ok_or_else(|| PyValueError::new_err("a call ends as ok, fail or info"))
}

/// Returns the invocation of the call in flight.
pub fn begun_op<'py>(
    py: Python<'py>,
    scheduler: &Scheduler,
    slot: Slot,
) -> PyResult<Bound<'py, PyAny>> {
    let begun = scheduler
        .in_flight(slot)
        .expect("the worker has a call in flight");
    let workers = scheduler.workers();
    let process = (slot != workers.nemesis()).then_some(workers.of(slot).process);
    let place = (begun.index, begun.time_ns);
    let node = begun.node.as_deref();
    op_of(py, place, process, Kind::Invoke, &begun.call, node, None)
}

/// Returns the end of a call. An end without a value gets its call's value.
pub fn ended_op<'py>(
    py: Python<'py>,
    ended: &Ended,
    done: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let process = (!ended.is_fault).then_some(ended.process);
    let place = (ended.index, ended.time_ns);
    let node = ended.node.as_deref();
    op_of(
        py,
        place,
        process,
        ended.kind,
        &ended.call,
        node,
        Some(done),
    )
}

/// Creates an operation with this index and time. The process `None` is the nemesis.
fn op_of<'py>(
    py: Python<'py>,
    place: (u64, Ns),
    process: Option<i64>,
    kind: Kind,
    call: &Call,
    node: Option<&str>,
    done: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let classes = classes(py)?;
    let fields = PyDict::new(py);
    fields.set_item(intern!(py, "index"), place.0)?;
    match process {
        Some(process) => fields.set_item(intern!(py, "process"), process)?,
        None => fields.set_item(intern!(py, "process"), &classes.nemesis)?,
    }
    fields.set_item(intern!(py, "kind"), &classes.kinds[kind as usize])?;
    fields.set_item(intern!(py, "f"), &*call.f)?;
    fields.set_item(intern!(py, "time_ns"), place.1)?;
    let own = match done {
        Some(done) => Some(done.getattr(intern!(py, "value"))?).filter(|value| !value.is_none()),
        None => None,
    };
    match (own, &call.foreign) {
        (Some(value), _) => fields.set_item(intern!(py, "value"), value)?,
        (None, Some(value)) => fields.set_item(intern!(py, "value"), python_object(&**value))?,
        _ => fields.set_item(intern!(py, "value"), call.value)?,
    }
    fields.set_item(intern!(py, "key"), call.key)?;
    fields.set_item(intern!(py, "node"), node)?;
    if let Some(done) = done {
        fields.set_item(intern!(py, "error"), done.getattr(intern!(py, "error"))?)?;
    }
    classes.op.bind(py).call((), Some(&fields))
}

// --- errors ------------------------------------------------------------------------------------

pub fn raised(failure: Failure) -> PyErr {
    match failure.downcast::<PyErr>() {
        Ok(error) => *error,
        Err(failure) => {
            let class = match failure.is::<UsageError>() {
                true => "UsageError",
                false => "HarnessError",
            };
            harness_error(class, &failure.to_string()).unwrap_or_else(|error| error)
        }
    }
}

pub(super) fn harness_error(class: &str, text: &str) -> PyResult<PyErr> {
    Python::attach(|py| {
        let errors = py.import("harness.core.errors")?;
        let error = errors.getattr(class)?.call1((text,))?;
        Ok(PyErr::from_value(error))
    })
}
