//! Generators in the words of Python, and those that stay there.

use std::any::Any;
use std::rc::Rc;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyTuple};

use crate::interpreter::finals::{EachNode, Phases, UntilOk};
use crate::interpreter::generator::{Call, Context, Event, Firm, Foreign, Generator, Step};
use crate::interpreter::generators::{OnClients, OnNemesis, Rate, TimeLimit, Together};
use crate::interpreter::set_calls::{Rules, SetCalls};
use crate::interpreter::workers::{Seat, Workers};
use crate::interpreter::Failure;
use crate::seed::Seed;

/// By the words of `compiled` in harness/generators.
pub(super) fn generator_of(words: &Bound<'_, PyAny>) -> PyResult<Box<dyn Generator>> {
    let words = words.cast::<PyTuple>()?;
    let what: String = words.get_item(0)?.extract()?;
    let inner = || generator_of(&words.get_item(1)?);
    Ok(match what.as_str() {
        "time_limit" => Box::new(TimeLimit {
            generator: inner()?,
            length_ns: words.get_item(2)?.extract()?,
            end_ns: words.get_item(3)?.extract()?,
        }),
        "rate" => Box::new(Rate {
            generator: inner()?,
            mean_ns: words.get_item(2)?.extract()?,
            seed: Seed(words.get_item(3)?.extract()?),
            exponential: words.get_item(4)?.extract()?,
            number: words.get_item(5)?.extract()?,
            due_ns: words.get_item(6)?.extract()?,
            spaced_ns: words.get_item(7)?.extract()?,
        }),
        "on_clients" => Box::new(OnClients(inner()?)),
        "on_nemesis" => Box::new(OnNemesis {
            generator: inner()?,
            quiet_ns: words.get_item(2)?.extract()?,
            waits: false,
        }),
        "together" => {
            let parts = words.get_item(1)?;
            let parts = parts.cast::<PyTuple>()?.iter();
            let parts = parts.map(|part| generator_of(&part));
            let parts = parts.collect::<PyResult<_>>()?;
            Box::new(Together::new(parts, words.get_item(2)?.extract()?))
        }
        "phases" => {
            let left = words.get_item(1)?;
            let left = left.cast::<PyTuple>()?.iter();
            let left = left.map(|part| generator_of(&part));
            Box::new(Phases::new(left.collect::<PyResult<_>>()?))
        }
        "each_node" => {
            let nodes: Vec<String> = words.get_item(2)?.extract()?;
            let part = |node: String| Ok((node.into(), inner()?));
            let parts = nodes.into_iter().map(part);
            Box::new(EachNode(parts.collect::<PyResult<_>>()?))
        }
        "until_ok" => {
            let calls: Vec<(String, Option<i64>, Option<i64>)> = words.get_item(1)?.extract()?;
            let call = |(f, value, key): (String, _, _)| Call {
                f: f.into(),
                value,
                key,
                foreign: None,
            };
            let calls = calls.into_iter().map(call).collect();
            let (tries, pause_ns) = (words.get_item(2)?, words.get_item(3)?);
            Box::new(UntilOk::new(calls, tries.extract()?, pause_ns.extract()?))
        }
        "set_calls" => {
            let rule = |name: &str| words.get_item(2)?.get_item(name);
            let rules = Rules {
                keys: rule("keys")?.extract()?,
                ops_per_key: rule("ops_per_key")?.extract()?,
                writers: rule("writers")?.extract()?,
                refused_pause_ns: rule("refused_pause_ns")?.extract()?,
                pause_ns: rule("pause_ns")?.extract()?,
                burst_inserts: rule("burst_inserts")?.extract()?,
                paced_inserts: rule("paced_inserts")?.extract()?,
                hanging_ns: rule("hanging_ns")?.extract()?,
            };
            Box::new(SetCalls::new(rules, Seed(words.get_item(1)?.extract()?)))
        }
        "python" => Box::new(PythonGenerator {
            generator: words.get_item(1)?.unbind(),
            listens: words.get_item(2)?.extract()?,
            known: Vec::new(),
        }),
        _ => return Err(PyValueError::new_err(what)),
    })
}

/// The classes of harness/core/protocols.py.
struct Classes {
    context: Py<PyAny>,
    worker: Py<PyAny>,
    ready: Py<PyAny>,
    pending: Py<PyAny>,
    exhausted: Py<PyAny>,
}

fn classes(py: Python<'_>) -> PyResult<&'static Classes> {
    static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();
    CLASSES.get_or_try_init(py, || {
        let protocols = py.import("harness.core.protocols")?;
        let class = |name| Ok::<_, PyErr>(protocols.getattr(name)?.unbind());
        Ok(Classes {
            context: class("Context")?,
            worker: class("Worker")?,
            ready: class("Ready")?,
            pending: class("Pending")?,
            exhausted: class("Exhausted")?,
        })
    })
}

/// A generator of Python's: a value that gives the next one.
struct PythonGenerator {
    generator: Py<PyAny>,
    listens: bool,
    /// Workers as Python knows them, by seat, and their processes then.
    known: Vec<Option<(i64, Py<PyAny>)>>,
}

impl PythonGenerator {
    fn context<'py>(
        &mut self,
        py: Python<'py>,
        context: &Context<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut seen = |seats: &mut dyn Iterator<Item = Seat>| {
            let seen = seats.map(|seat| self.worker(py, context.workers, seat));
            PyTuple::new(py, seen.collect::<PyResult<Vec<_>>>()?)
        };
        let (free, busy) = (seen(&mut context.free())?, seen(&mut context.busy())?);
        let class = classes(py)?.context.bind(py);
        class.call1((context.time_ns, free, busy))
    }

    fn worker<'py>(
        &mut self,
        py: Python<'py>,
        workers: &Workers,
        seat: Seat,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.known.resize_with(workers.seats(), || None);
        let worker = workers.of(seat);
        match &self.known[seat] {
            Some((process, known)) if *process == worker.process => Ok(known.bind(py).clone()),
            _ => {
                let class = classes(py)?.worker.bind(py);
                let made = class.call1((workers.number(seat), worker.process, &*worker.node))?;
                self.known[seat] = Some((worker.process, made.clone().unbind()));
                Ok(made)
            }
        }
    }

    fn asked(&mut self, py: Python<'_>, context: &Context<'_>) -> PyResult<Step> {
        let seen = self.context(py, context)?;
        let answer = self.generator.bind(py).call_method1("op", (seen,))?;
        let (step, generator): (Bound<'_, PyAny>, Py<PyAny>) = answer.extract()?;
        self.generator = generator;
        let (class, classes) = (step.get_type(), classes(py)?);
        if class.is(&classes.ready) {
            let number: i64 = step.getattr("worker")?.getattr("number")?.extract()?;
            return Ok(Step::Ready(
                context.workers.seat(number),
                call_of(&step.getattr("call")?)?,
            ));
        }
        if class.is(&classes.pending) {
            let wake_ns = step.getattr("wake_ns")?.extract()?;
            let firm = match step.getattr("firm")?.extract()? {
                true => Firm::Yes,
                false => Firm::No,
            };
            return Ok(Step::Pending(wake_ns, firm));
        }
        if class.is(&classes.exhausted) {
            return Ok(Step::Exhausted);
        }
        Err(PyRuntimeError::new_err(format!("a generator gave {step}")))
    }
}

fn call_of(call: &Bound<'_, PyAny>) -> PyResult<Call> {
    let value = call.getattr("value")?;
    let number = match value.is_exact_instance_of::<PyInt>() {
        true => value.extract::<i64>().ok(),
        false => None,
    };
    let f: String = call.getattr("f")?.extract()?;
    let key: Option<i64> = call.getattr("key")?.extract()?;
    let node: Option<String> = call.getattr("node")?.extract()?;
    Ok(Call {
        f: f.into(),
        value: number,
        key,
        foreign: Some(Box::new(Foreign {
            call: Rc::new(call.clone().unbind()),
            node: node.map(Rc::from),
            plain: number.is_some() || value.is_none(),
        })),
    })
}

impl Generator for PythonGenerator {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        Ok(Python::attach(|py| self.asked(py, context))?)
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        if !self.listens {
            return Ok(false);
        }
        let op = (event.op)()?;
        let op = python(&*op);
        Ok(Python::attach(|py| {
            let seen = self.context(py, context)?;
            let after = self.generator.bind(py).call_method1("update", (seen, op))?;
            let changed = !after.is(&self.generator);
            self.generator = after.unbind();
            Ok::<_, PyErr>(changed)
        })?)
    }

    fn listens(&self) -> bool {
        self.listens
    }
}

/// What Python gave.
pub(super) fn python(object: &dyn Any) -> &Py<PyAny> {
    object.downcast_ref().expect("it is of Python")
}
