//! The interpreter as a class of Python, with a host of Python.

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::generator::{generator_of, python};
use super::{Simulation, Word};
use crate::interpreter::host::{Begun, Host};
use crate::interpreter::statements::{said, Outcome, Outcomes, Statement};
use crate::interpreter::workers::{Seat, Worker, Workers};
use crate::interpreter::{self, Failure, Kind, Named, Place, Stop};
use crate::server::Settings;
use crate::world::Ns;

/// Clients' calls and faults on a simulation's servers.
#[pyclass(module = "pysimulator")]
pub struct Interpreter {
    inner: interpreter::Interpreter,
    /// What ended and has yet to be told.
    ended: Option<interpreter::Ended>,
}

// SAFETY: as of `Simulation`.
unsafe impl Send for Interpreter {}
unsafe impl Sync for Interpreter {}

type StatementWords = (bool, String, Vec<HashMap<String, Word>>, Ns);
/// Number, process and node.
type WorkerWords = (i64, i64, String);
type OutcomeWords = (i32, String, String, String);
/// Of the next op, of the last op, and the world's when the run's was 0.
type PlaceWords = (u64, Ns, Ns);

#[pymethods]
impl Interpreter {
    #[new]
    fn new(
        simulation: PyRef<'_, Simulation>,
        generator: &Bound<'_, PyAny>,
        workers: Vec<WorkerWords>,
        roams: &str,
        statements: HashMap<String, StatementWords>,
        outcomes: (Vec<OutcomeWords>, Vec<OutcomeWords>),
        place: PlaceWords,
    ) -> PyResult<Interpreter> {
        let free: Vec<i64> = workers.iter().map(|(number, ..)| *number).collect();
        let mut clients: Vec<_> = workers.into_iter().filter(|(n, ..)| *n >= 0).collect();
        clients.sort_unstable();
        let worker = |(_, process, node): WorkerWords| Worker::new(process, &node, node == roams);
        let workers = Workers::new(clients.into_iter().map(worker).collect(), &free);
        let statement = |(f, (is_write, sql, settings, timeout_ns)): (String, StatementWords)| {
            let set = |words: HashMap<String, Word>| {
                let words = words.into_iter().map(|(name, word)| (name, word.into()));
                Rc::new(words.collect::<Settings>())
            };
            let settings = settings.into_iter().map(set).collect();
            Rc::new(Statement::new(&f, is_write, &sql, settings, timeout_ns))
        };
        let nodes = simulation.nodes.iter();
        let (index, time_ns, zero_ns) = place;
        Ok(Interpreter {
            inner: interpreter::Interpreter::new(
                simulation.simulation.clone(),
                nodes.map(|(name, node)| Named::new(name, *node)).collect(),
                generator_of(generator)?,
                workers,
                statements.into_iter().map(statement).collect(),
                Outcomes {
                    writes: outcomes_of(outcomes.0)?,
                    reads: outcomes_of(outcomes.1)?,
                },
                Place {
                    index,
                    time_ns,
                    zero_ns,
                },
            ),
            ended: None,
        })
    }

    #[getter]
    fn over(&self) -> bool {
        self.inner.over()
    }

    fn exhaust(&mut self) {
        self.inner.exhaust();
    }

    fn step(&mut self, host: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        match self.inner.step(&PythonHost(host)) {
            Ok(Stop::Due(number)) => Ok(Some(number)),
            Ok(Stop::Pause) => Ok(None),
            Err(failure) => Err(raised(failure)),
        }
    }

    fn pump(&mut self, host: &Bound<'_, PyAny>) -> PyResult<()> {
        self.inner.pump(&PythonHost(host)).map_err(raised)
    }

    fn end(&mut self, number: i64, kind: &str) -> PyResult<(u64, Ns)> {
        let (ended, index) = self.inner.end(number, kind_of(kind)?);
        let time_ns = ended.time_ns;
        self.ended = Some(ended);
        Ok((index, time_ns))
    }

    fn told(&mut self, op: Py<PyAny>, line: &[u8]) -> PyResult<()> {
        let ended = self.ended.take().expect("something ended");
        let op: Rc<dyn Any> = Rc::new(op);
        self.inner.told(&ended, line, &op).map_err(raised)
    }

    fn lines<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.inner.take_lines(|lines| PyBytes::new(py, lines))
    }

    fn counts(&mut self) -> (u64, Vec<(String, &'static str, u64)>) {
        let counts = self.inner.take_counts();
        let ended = counts.ended.into_iter();
        let ended = ended.map(|(f, kind, count)| (f.to_string(), kind.name(), count));
        (counts.begun, ended.collect())
    }

    #[getter]
    fn keys(&self) -> Vec<i64> {
        self.inner.keys().iter().copied().collect()
    }

    #[getter]
    fn place(&self) -> PlaceWords {
        let place = self.inner.place();
        (place.index, place.time_ns, place.zero_ns)
    }

    #[getter]
    fn workers(&self) -> (Vec<WorkerWords>, Vec<WorkerWords>) {
        let workers = self.inner.workers();
        let words = |&seat: &Seat| {
            let worker = workers.of(seat);
            (
                workers.number(seat),
                worker.process,
                worker.node.to_string(),
            )
        };
        let (free, busy) = (workers.free().iter(), workers.busy().iter());
        (free.map(words).collect(), busy.map(words).collect())
    }
}

fn raised(failure: Failure) -> PyErr {
    match failure.downcast::<PyErr>() {
        Ok(error) => *error,
        Err(failure) => harness_error(&failure.to_string()).unwrap_or_else(|error| error),
    }
}

fn harness_error(text: &str) -> PyResult<PyErr> {
    Python::attach(|py| {
        let errors = py.import("harness.core.errors")?;
        let error = errors.getattr("HarnessError")?.call1((text,))?;
        Ok(PyErr::from_value(error))
    })
}

fn kind_of(name: &str) -> PyResult<Kind> {
    Kind::named(name).ok_or_else(|| PyValueError::new_err(name.to_string()))
}

fn outcomes_of(words: Vec<OutcomeWords>) -> PyResult<Vec<Outcome>> {
    let outcome = |(code, name, kind, text): OutcomeWords| {
        Ok(Outcome {
            code,
            said: said(code, &name),
            kind: kind_of(&kind)?,
            text,
        })
    };
    words.into_iter().map(outcome).collect()
}

// --- the host -----------------------------------------------------------------------------------

struct PythonHost<'a, 'py>(&'a Bound<'py, PyAny>);

impl Host for PythonHost<'_, '_> {
    fn begin(&self, begun: &Begun<'_>) -> Result<Vec<u8>, Failure> {
        let call = match &begun.call.foreign {
            Some(foreign) => python(&*foreign.call).bind(self.0.py()).clone(),
            None => {
                let words = (&*begun.call.f, begun.call.value, begun.call.key);
                self.0.call_method1("call", words)?
            }
        };
        let place = (begun.index, begun.time_ns);
        let who = (begun.number, begun.process, begun.node);
        Ok(self
            .0
            .call_method1("begin", (place, who, call))?
            .extract()?)
    }

    fn retired(&self, number: i64) -> Result<(), Failure> {
        self.0.call_method1("retired", (number,))?;
        Ok(())
    }

    fn op(&self, line: &[u8]) -> Result<Rc<dyn Any>, Failure> {
        let op = self.0.call_method1("op", (line,))?;
        Ok(Rc::new(op.unbind()))
    }
}
