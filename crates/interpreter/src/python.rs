//! Defines the Python module `harness.native.interpreter`: the interpreter as a class, with a host in
//! Python.

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

use generators::python::{begun_op, ended_op, kind_of, raised};
use generators::workers::Slot;
use generators::{scheduler, Failure, Kind};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use simulator::errors::ServerError;
use simulator::network::Node;
use simulator::python::Word;
use simulator::server::Settings;
use simulator::world::Ns;

use crate::statements::Statement;
use crate::{Host, ServerNode, Stop};

/// Executes a generator's calls on a simulation's servers and writes the lines of their history.
/// For one thread only.
#[pyclass(module = "harness.native.interpreter")]
pub struct Interpreter {
    inner: crate::Interpreter,
}

// SAFETY: only holders of the interpreter's lock access it, as they do a Simulation.
unsafe impl Send for Interpreter {}
// SAFETY: as above.
unsafe impl Sync for Interpreter {}

/// What `Interpreter` says of `statements`.
/// In Python: `tuple[bool, str, Sequence[dict[str, int | str]], int]`.
type StatementWords = (bool, String, Vec<HashMap<String, Word>>, Ns);

/// The simulated servers. In Python: `Simulation`.
type Simulation = simulator::python::Simulation;

/// The scheduler of the history. In Python: `Scheduler`.
type Scheduler = generators::python::Scheduler;

/// Executes the other calls. In Python: `Host`.
type PyHost = PyAny;

#[pymethods]
impl Interpreter {
    /// Execute the calls of the scheduler's generator. `statements` gives for each f whether it
    /// is an INSERT of the call's key and value, the SQL (of a SELECT without the key), settings
    /// that successive values use in turn, and the timeout in nanoseconds. `zero_ns` is the
    /// simulation's time at the history's time 0.
    #[new]
    fn new(
        simulation: PyRef<'_, Simulation>,
        scheduler: &Bound<'_, Scheduler>,
        statements: HashMap<String, StatementWords>,
        zero_ns: Ns,
    ) -> PyResult<Interpreter> {
        let statement = |(f, (is_write, sql, settings, timeout_ns)): (String, StatementWords)| {
            let set = |words: HashMap<String, Word>| {
                let words = words.into_iter().map(|(name, word)| (name, word.into()));
                Rc::new(words.collect::<Settings>())
            };
            let settings = settings.into_iter().map(set).collect();
            Rc::new(Statement::new(&f, is_write, &sql, settings, timeout_ns))
        };
        let nodes = simulation.nodes.iter();
        let node = |(name, node): (&String, &Node)| ServerNode::new(name, *node);
        Ok(Interpreter {
            inner: crate::Interpreter::new(
                simulation.simulation.clone(),
                nodes.map(node).collect(),
                scheduler.get().inner.clone(),
                statements.into_iter().map(statement).collect(),
                zero_ns,
            ),
        })
    }

    /// Whether nothing is in flight and nothing will be.
    #[getter]
    fn over(&self) -> bool {
        self.inner.over()
    }

    /// Start no more calls.
    fn exhaust(&mut self) {
        self.inner.exhaust();
    }

    /// Run the simulation; return the caller's next due number, or None if the run is over or
    /// `lines` have waited for 20 ms. Raises as `Scheduler.poll` does, and passes on the host's
    /// exceptions.
    fn step(&mut self, host: &Bound<'_, PyHost>) -> PyResult<Option<u64>> {
        match self.inner.step(&PythonHost(host)) {
            Ok(Stop::Due(number)) => Ok(Some(number)),
            Ok(Stop::Pause) => Ok(None),
            Err(failure) => Err(raised(failure)),
        }
    }

    /// Start every call that is due now. Raises as `step` does.
    fn pump(&mut self, host: &Bound<'_, PyHost>) -> PyResult<()> {
        self.inner.pump(&PythonHost(host)).map_err(raised)
    }

    /// End a call of the host's; `pump` must follow. Passes on exceptions of generator and
    /// host.
    fn end<'py>(
        &mut self,
        host: &Bound<'py, PyHost>,
        number: i64,
        done: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let ended = self.inner.end(number, kind_of(done)?);
        let op = ended_op(host.py(), &ended, done)?;
        let line: Vec<u8> = host.call_method1("ended", (&op,))?.extract()?;
        let op: Rc<dyn Any> = Rc::new(op.unbind());
        self.inner.tell(&ended, &line, &op).map_err(raised)
    }

    /// Return the history's lines since the last call.
    fn lines<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.inner.take_lines(|lines| PyBytes::new(py, lines))
    }

    /// Return, since the last call: the number of client calls that began, and the numbers that
    /// ended, by f and kind.
    fn counts(&mut self) -> (u64, Vec<(String, &'static str, u64)>) {
        let counts = self.inner.take_counts();
        let ended = counts.ended.into_iter();
        let ended = ended.map(|(f, kind, count)| (f.to_string(), kind.name(), count));
        (counts.begun, ended.collect())
    }

    /// Every key that clients named, ascending.
    #[getter]
    fn keys(&self) -> Vec<i64> {
        self.inner.keys().iter().copied().collect()
    }
}

// --- the host -----------------------------------------------------------------------------------

struct PythonHost<'a, 'py>(&'a Bound<'py, PyAny>);

impl Host for PythonHost<'_, '_> {
    fn begin(&self, scheduler: &scheduler::Scheduler, slot: Slot) -> Result<Vec<u8>, Failure> {
        let op = begun_op(self.0.py(), scheduler, slot)?;
        let number = scheduler.workers().of(slot).number;
        Ok(self.0.call_method1("begin", (number, op))?.extract()?)
    }

    fn failed(&self, is_write: bool, error: &ServerError) -> Result<(Kind, String), Failure> {
        let words = (is_write, error.code, &*error.text);
        let done = self.0.call_method1("failed", words)?;
        Ok((kind_of(&done)?, done.getattr("error")?.extract()?))
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

/// Adds `harness.native.interpreter` to the extension module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Interpreter>()
}
