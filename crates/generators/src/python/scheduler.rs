//! Exposes the scheduler as a Python class.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::combinator::{generator_of, Combinator};
use super::vocabulary::{
    begun_op, call_of, classes, ended_op, harness_error, kind_of, raised, KnownWorkers,
};
use crate::scheduler::{self, Next};
use crate::workers::{Slot, Worker, Workers};
use crate::Ns;

/// Schedules one history: which worker does what next, and the index of each operation.
///
/// This is a state machine without threads, clocks or I/O: the caller passes the time and the calls
/// that ended. It outlives generators, so that the phases of one run form one history. An info
/// retires a client's process: the worker continues as process + number of clients. Two threads
/// must not use it at the same time.
#[pyclass(module = "harness.native.generators", frozen)]
pub struct Scheduler {
    pub inner: Rc<RefCell<scheduler::Scheduler>>,
    sink: Py<Sink>,
    known: RefCell<KnownWorkers>,
}

// SAFETY: as for `Combinator`.
unsafe impl Send for Scheduler {}
// SAFETY: as above.
unsafe impl Sync for Scheduler {}

/// Receives operations. In Python: `Callable[[Any], object]`.
type Sink = PyAny;

/// A call that was assigned to a worker and is in flight from now on.
#[pyclass(module = "harness.native.generators", frozen, get_all)]
pub struct Assigned {
    op: Py<PyAny>,
    worker: Py<PyAny>,
}

#[pymethods]
impl Scheduler {
    /// Create a scheduler. The first of `workers` is used first. `sink` receives every operation
    /// in the order of the history, except those that others record; its exceptions are passed on.
    #[new]
    fn new(py: Python<'_>, workers: Vec<Bound<'_, PyAny>>, sink: Py<Sink>) -> PyResult<Scheduler> {
        let roams = &classes(py)?.any_node;
        let (mut clients, mut free) = (Vec::new(), Vec::new());
        for worker in workers {
            let number: i64 = worker.getattr("number")?.extract()?;
            let process = worker.getattr("process")?.extract()?;
            let node: String = worker.getattr("node")?.extract()?;
            free.push(number);
            if number >= 0 {
                clients.push(Worker::new(number, process, &node, node == *roams));
            }
        }
        clients.sort_unstable_by_key(|worker| worker.number);
        let inner = scheduler::Scheduler::new(Workers::new(clients, &free, &[]));
        Ok(Scheduler {
            inner: Rc::new(RefCell::new(inner)),
            sink,
            known: RefCell::default(),
        })
    }

    /// All workers by number, the nemesis first.
    #[getter]
    fn workers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let inner = self.inner.borrow();
        let nemesis = inner.workers().nemesis();
        let slots = std::iter::once(nemesis).chain(0..nemesis);
        let workers = slots.map(|slot| self.worker(py, inner.workers().of(slot)));
        PyTuple::new(py, workers.collect::<PyResult<Vec<_>>>()?)
    }

    /// Return the worker's call in flight.
    fn call_of<'py>(&self, py: Python<'py>, number: i64) -> PyResult<Option<Bound<'py, PyAny>>> {
        let inner = self.inner.borrow();
        match self.slot(number) {
            Some(slot) if inner.in_flight(slot).is_some() => begun_op(py, &inner, slot).map(Some),
            _ => Ok(None),
        }
    }

    /// The current generator in its current state.
    #[getter]
    fn generator(&self) -> Combinator {
        Combinator(self.inner.borrow().generator().copied())
    }

    /// Take all further calls from this generator. The history continues.
    fn follow(&self, generator: &Bound<'_, PyAny>) -> PyResult<()> {
        self.inner.borrow_mut().follow(generator_of(generator)?);
        Ok(())
    }

    /// Begin the generator's next call, if it has one now: return Assigned, Pending or
    /// Exhausted. `prefer` is the number of the worker that asks: if it is free, the generator sees
    /// it first.
    ///
    /// Exhausted means that there are no more calls; some may still be in flight. Raises
    /// HarnessError if the generator waits for a call to end although none is in flight, if it
    /// waits for a time that has passed, or if it gives a call to a worker that is not free.
    #[pyo3(signature = (now_ns, prefer=None))]
    fn poll<'py>(
        &self,
        py: Python<'py>,
        now_ns: Ns,
        prefer: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let prefer = prefer.and_then(|number| self.slot(number));
        let next = self.inner.borrow_mut().poll(now_ns, prefer);
        match next.map_err(raised)? {
            Next::Begun(slot) => {
                let worker = {
                    let inner = self.inner.borrow();
                    self.worker(py, inner.workers().of(slot))?.unbind()
                };
                let op = self.record_begun(py, slot)?.unbind();
                Ok(Bound::new(py, Assigned { op, worker })?.into_any())
            }
            Next::Wait(wake_ns) => classes(py)?.pending.bind(py).call1((wake_ns,)),
            Next::Exhausted => classes(py)?.exhausted.bind(py).call0(),
        }
    }

    /// Record a call that no generator made, such as the healing after a run, in flight on a
    /// free worker. Return the operation.
    fn begin<'py>(
        &self,
        py: Python<'py>,
        number: i64,
        call: &Bound<'py, PyAny>,
        now_ns: Ns,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = call_of(call)?;
        let Some(slot) = self.slot(number) else {
            let text = format!("call {} for worker {number}, which is not free", call.f);
            return Err(harness_error("HarnessError", &text)?);
        };
        let begun = self.inner.borrow_mut().begin(slot, call, now_ns);
        begun.map_err(raised)?;
        self.record_begun(py, slot)
    }

    /// Record the end of a worker's call and free the worker. An end without a value gets its
    /// call's value. Return the operation.
    fn complete<'py>(
        &self,
        py: Python<'py>,
        number: i64,
        done: &Bound<'py, PyAny>,
        now_ns: Ns,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = kind_of(done)?;
        let slot = self.slot(number).filter(|&slot| {
            let inner = self.inner.borrow();
            inner.in_flight(slot).is_some()
        });
        let Some(slot) = slot else {
            let text = format!("the end of a call of worker {number}, which has none in flight");
            return Err(harness_error("HarnessError", &text)?);
        };
        let ended = self.inner.borrow_mut().end(slot, kind, now_ns);
        let op = ended_op(py, &ended, done)?;
        self.sink.bind(py).call1((&op,))?;
        let known: Rc<dyn Any> = Rc::new(op.clone().unbind());
        let told = self.inner.borrow_mut().tell(&ended, &|| Ok(known.clone()));
        told.map_err(raised)?;
        Ok(op)
    }
}

impl Scheduler {
    fn slot(&self, number: i64) -> Option<Slot> {
        self.inner.borrow().workers().find(number)
    }

    fn worker<'py>(&self, py: Python<'py>, worker: &Worker) -> PyResult<Bound<'py, PyAny>> {
        self.known.borrow_mut().worker(py, worker)
    }

    fn record_begun<'py>(&self, py: Python<'py>, slot: Slot) -> PyResult<Bound<'py, PyAny>> {
        let op = begun_op(py, &self.inner.borrow(), slot)?;
        self.sink.bind(py).call1((&op,))?;
        Ok(op)
    }
}
