//! A generator written in Python, which generators of Rust ask.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::vocabulary::{call_of, classes, python_object, KnownWorkers};
use crate::generator::{Context, Event, Generator, Step, WakeCondition};
use crate::workers::Slot;
use crate::Failure;

/// A generator written in Python: a value that returns its successor.
pub(super) struct PythonGenerator {
    generator: Py<PyAny>,
    listens: bool,
    known: KnownWorkers,
}

impl PythonGenerator {
    /// `listens` says whether it wants to be told how calls ended.
    pub(super) fn new(generator: &Bound<'_, PyAny>, listens: bool) -> PythonGenerator {
        PythonGenerator {
            generator: generator.clone().unbind(),
            listens,
            known: KnownWorkers::default(),
        }
    }

    fn context<'py>(
        &mut self,
        py: Python<'py>,
        context: &Context<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut seen = |slots: &mut dyn Iterator<Item = Slot>| {
            let seen = slots.map(|slot| self.known.worker(py, context.workers.of(slot)));
            PyTuple::new(py, seen.collect::<PyResult<Vec<_>>>()?)
        };
        let (free, busy) = (seen(&mut context.free())?, seen(&mut context.busy())?);
        let class = classes(py)?.context.bind(py);
        class.call1((context.time_ns, free, busy))
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
                context.workers.slot(number),
                call_of(&step.getattr("call")?)?,
            ));
        }
        if class.is(&classes.pending) {
            let wake_ns = step.getattr("wake_ns")?.extract()?;
            let condition = match step.getattr("firm")?.extract()? {
                true => WakeCondition::TimeOnly,
                false => WakeCondition::AnyEvent,
            };
            return Ok(Step::Pending(wake_ns, condition));
        }
        if class.is(&classes.exhausted) {
            return Ok(Step::Exhausted);
        }
        Err(PyTypeError::new_err(format!(
            "a generator gave {step}; expected Ready, Pending or Exhausted"
        )))
    }
}

impl Generator for PythonGenerator {
    fn name(&self) -> String {
        Python::attach(|py| {
            let name = self.generator.bind(py).get_type().name();
            name.map_or_else(|error| error.to_string(), |name| name.to_string())
        })
    }

    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        Ok(Python::attach(|py| self.asked(py, context))?)
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        if !self.listens {
            return Ok(false);
        }
        let op = (event.op)()?;
        let op = python_object(&*op);
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

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(PythonGenerator {
            generator: Python::attach(|py| self.generator.clone_ref(py)),
            listens: self.listens,
            known: KnownWorkers::default(),
        })
    }
}
