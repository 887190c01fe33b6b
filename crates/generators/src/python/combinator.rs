//! Represents generators in Python, where they are immutable values. Generators of Rust are copied
//! before they are asked; those of Python are asked by the generators of Rust that hold them.

use std::any::Any;
use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use seed::Seed;

use super::python_generator::PythonGenerator;
use super::vocabulary::{call_of, classes, python_call, python_object, raised};
use crate::calls::{AtMostInFlight, Numbered, Repeat, Sequence, UntilOk};
use crate::choose::{KeyRounds, Mix, PerKey};
use crate::few_nodes::{FewNodes, Turn};
use crate::generator::{Context, Event, Generator, MakeCall, MakeGenerator, Step, WakeCondition};
use crate::order::{Cycle, IsAwaited, Phases, StopWhen};
use crate::shares::{EachNode, OnClients, OnNemesis, Reserve, Together};
use crate::timing::{Limit, Rate, RestAfterFail, Sleep, TimeLimit, WhileAnswered};
use crate::workers::{Worker, Workers};
use crate::{Failure, Kind, Ns};

/// A generator of harness/core/protocols.py in Rust. It is immutable; the generators that it
/// holds may be written in Python. harness/generators documents each of them.
#[pyclass(module = "harness.native.generators", frozen)]
pub struct Combinator(pub(super) Box<dyn Generator>);

// SAFETY: only holders of the interpreter's lock access it. The module requires the lock
// (`gil_used`), and no method releases it, so threads take turns. Garbage is dropped by whichever
// thread collects it.
unsafe impl Send for Combinator {}
// SAFETY: as above.
unsafe impl Sync for Combinator {}

type Parts<'py> = Vec<Bound<'py, PyAny>>;
/// Makes the call of a number. In Python: `Callable[[int], Any]`.
type CallMaker = PyAny;
/// Makes the generator of a number. In Python: `Callable[[int], Any]`.
type GeneratorMaker = PyAny;
/// Says whether an operation is the awaited end. In Python: `Callable[[Any], bool]`.
type Predicate = PyAny;

impl Combinator {
    fn of(generator: impl Generator + 'static) -> Combinator {
        Combinator(Box::new(generator))
    }
}

#[pymethods]
impl Combinator {
    /// Return the step and the next generator. Raises UsageError for a call that no worker could
    /// ever take, and passes on the exceptions of a generator in Python.
    fn op<'py>(
        &self,
        py: Python<'py>,
        context: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Combinator)> {
        let seen = PythonContext::new(context)?;
        let mut after = self.0.copied();
        let step = after.op(&seen.context()).map_err(raised)?;
        Ok((seen.said(py, step)?, Combinator(after)))
    }

    /// Return the generator after the end of a call; itself if nothing changes.
    fn update<'py>(
        slf: Bound<'py, Self>,
        context: &Bound<'py, PyAny>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        let mut after = slf.get().0.copied();
        let seen = PythonContext::new(context)?;
        let ended = CallEnd::new(event)?;
        let op = || Ok(ended.op.clone());
        let changed = after.update(&seen.context(), &ended.event(&op));
        match changed.map_err(raised)? {
            true => Bound::new(slf.py(), Combinator(after)),
            false => Ok(slf),
        }
    }

    /// Whether events matter to the generator.
    #[getter]
    fn listens(&self) -> bool {
        self.0.listens()
    }

    /// Return the generator that a time limit limits, in its current state. Raises TypeError for
    /// any other generator.
    fn unlimited(&self) -> PyResult<Combinator> {
        let inner = self.0.unlimited();
        let inner = inner.ok_or_else(|| PyTypeError::new_err("a time limit is expected"))?;
        Ok(Combinator(inner))
    }

    // --- calls ----------------------------------------------------------------------------------

    #[staticmethod]
    fn numbered(make: Py<CallMaker>) -> Combinator {
        let make = call_maker(make);
        Combinator::of(Numbered { make, number: 0 })
    }

    #[staticmethod]
    fn repeat(call: &Bound<'_, PyAny>) -> PyResult<Combinator> {
        Ok(Combinator::of(Repeat(call_of(call)?)))
    }

    #[staticmethod]
    fn sequence(calls: Parts<'_>) -> PyResult<Combinator> {
        let calls = calls.iter().map(call_of).collect::<PyResult<_>>()?;
        Ok(Combinator::of(Sequence(calls)))
    }

    #[staticmethod]
    fn until_ok(calls: Parts<'_>, tries: u64, pause_ns: Ns) -> PyResult<Combinator> {
        let calls = calls.iter().map(call_of).collect::<PyResult<_>>()?;
        Ok(Combinator::of(UntilOk::new(calls, tries, pause_ns)))
    }

    #[staticmethod]
    fn at_most_in_flight(
        make: Py<CallMaker>,
        most: usize,
        pause_ns: Ns,
        seed: u64,
        first_ns: Ns,
    ) -> Combinator {
        let make = call_maker(make);
        Combinator::of(AtMostInFlight::new(
            make,
            most,
            pause_ns,
            Seed(seed),
            first_ns,
        ))
    }

    // --- choices --------------------------------------------------------------------------------

    #[staticmethod]
    fn mix(seed: u64, parts: Vec<(f64, Bound<'_, PyAny>)>) -> PyResult<Combinator> {
        let parts = parts.iter();
        let parts = parts.map(|(weight, part)| Ok((*weight, generator_of(part)?)));
        let parts = parts.collect::<PyResult<_>>()?;
        Ok(Combinator::of(Mix::new(Seed(seed), parts)))
    }

    #[staticmethod]
    fn per_key(
        seed: u64,
        make: Py<GeneratorMaker>,
        keys: i64,
        ops_per_key: u64,
    ) -> PyResult<Combinator> {
        let generator = PerKey::new(Seed(seed), generator_maker(make), keys, ops_per_key);
        Ok(Combinator::of(generator.map_err(raised)?))
    }

    #[staticmethod]
    fn key_rounds(
        generator: &Bound<'_, PyAny>,
        seed: u64,
        keys: u64,
        ops_per_key: u64,
    ) -> PyResult<Combinator> {
        Ok(Combinator::of(KeyRounds {
            generator: generator_of(generator)?,
            seed: Seed(seed),
            keys,
            ops_per_key,
            number: 0,
        }))
    }

    // --- order ----------------------------------------------------------------------------------

    #[staticmethod]
    fn phases(parts: Parts<'_>) -> PyResult<Combinator> {
        let parts = parts.iter().map(generator_of).collect::<PyResult<_>>()?;
        Ok(Combinator::of(Phases::new(parts)))
    }

    #[staticmethod]
    fn cycle(make: Py<GeneratorMaker>) -> PyResult<Combinator> {
        let generator = Cycle::new(generator_maker(make));
        Ok(Combinator::of(generator.map_err(raised)?))
    }

    #[staticmethod]
    fn stop_when(is_awaited: Py<Predicate>, generator: &Bound<'_, PyAny>) -> PyResult<Combinator> {
        Ok(Combinator::of(StopWhen {
            generator: generator_of(generator)?,
            is_awaited: predicate(is_awaited),
            over: false,
        }))
    }

    // --- time -----------------------------------------------------------------------------------

    #[staticmethod]
    fn rate(
        generator: &Bound<'_, PyAny>,
        mean_ns: f64,
        seed: u64,
        exponential: bool,
    ) -> PyResult<Combinator> {
        Ok(Combinator::of(Rate {
            generator: generator_of(generator)?,
            mean_ns,
            seed: Seed(seed),
            exponential,
            number: 0,
            due_ns: None,
            spaced_ns: 0,
        }))
    }

    #[staticmethod]
    fn time_limit(generator: &Bound<'_, PyAny>, length_ns: Ns) -> PyResult<Combinator> {
        Ok(Combinator::of(TimeLimit {
            generator: generator_of(generator)?,
            length_ns,
            end_ns: None,
        }))
    }

    #[staticmethod]
    fn while_answered(generator: &Bound<'_, PyAny>, patience_ns: Ns) -> PyResult<Combinator> {
        Ok(Combinator::of(WhileAnswered {
            generator: generator_of(generator)?,
            patience_ns,
            since_ns: None,
        }))
    }

    #[staticmethod]
    fn limit(generator: &Bound<'_, PyAny>, ops: i64) -> PyResult<Combinator> {
        Ok(Combinator::of(Limit {
            generator: generator_of(generator)?,
            left: ops.max(0) as u64,
        }))
    }

    #[staticmethod]
    fn sleep(length_ns: Ns) -> Combinator {
        Combinator::of(Sleep {
            length_ns,
            end_ns: None,
        })
    }

    #[staticmethod]
    fn rest_after_fail(generator: &Bound<'_, PyAny>, pause_ns: Ns) -> PyResult<Combinator> {
        let generator = generator_of(generator)?;
        Ok(Combinator::of(RestAfterFail::new(generator, pause_ns)))
    }

    // --- workers --------------------------------------------------------------------------------

    #[staticmethod]
    fn on_clients(generator: &Bound<'_, PyAny>) -> PyResult<Combinator> {
        Ok(Combinator::of(OnClients(generator_of(generator)?)))
    }

    #[staticmethod]
    fn on_nemesis(generator: &Bound<'_, PyAny>) -> PyResult<Combinator> {
        Ok(Combinator::of(OnNemesis {
            generator: generator_of(generator)?,
            quiet_ns: None,
            waits: false,
        }))
    }

    #[staticmethod]
    fn together(parts: Parts<'_>) -> PyResult<Combinator> {
        let parts = parts.iter().map(generator_of).collect::<PyResult<_>>()?;
        Ok(Combinator::of(Together::new(parts, 0)))
    }

    /// Each part has the number of its first worker, ascending from 0.
    #[staticmethod]
    fn reserve(parts: Vec<(i64, Bound<'_, PyAny>)>) -> PyResult<Combinator> {
        let parts = parts.iter();
        let parts = parts.map(|(first, part)| Ok((*first, generator_of(part)?)));
        let parts = parts.collect::<PyResult<_>>()?;
        Ok(Combinator::of(Reserve { parts }))
    }

    /// If `nodes` is empty: all nodes that workers use at the first question.
    #[staticmethod]
    fn each_node(generator: &Bound<'_, PyAny>, nodes: Vec<String>) -> PyResult<Combinator> {
        let nodes = nodes.into_iter().map(Rc::from).collect();
        let generator = EachNode::new(generator_of(generator)?, nodes);
        Ok(Combinator::of(generator))
    }

    /// `turns` are the kinds of turns: the number of calls, and the pause after each.
    #[staticmethod]
    fn on_few_nodes(
        few: &Bound<'_, PyAny>,
        others: &Bound<'_, PyAny>,
        seed: u64,
        nodes_max: u64,
        turns: Vec<(u64, Ns)>,
        hanging_ns: Ns,
    ) -> PyResult<Combinator> {
        let turn = |(calls, pause_ns)| Turn { calls, pause_ns };
        Ok(Combinator::of(FewNodes::new(
            generator_of(few)?,
            generator_of(others)?,
            Seed(seed),
            nodes_max,
            turns.into_iter().map(turn).collect(),
            hanging_ns,
        )))
    }
}

/// Returns a generator that changes in place.
pub(super) fn generator_of(generator: &Bound<'_, PyAny>) -> PyResult<Box<dyn Generator>> {
    if let Ok(known) = generator.cast_exact::<Combinator>() {
        return Ok(known.get().0.copied());
    }
    let listens = match generator.getattr_opt("listens")? {
        Some(listens) => listens.extract()?,
        None => true,
    };
    Ok(Box::new(PythonGenerator::new(generator, listens)))
}

/// A Python context, converted.
struct PythonContext<'py> {
    time_ns: Ns,
    workers: Workers,
    /// By slot, without a nemesis that is not visible.
    known: Vec<Bound<'py, PyAny>>,
}

impl<'py> PythonContext<'py> {
    fn new(context: &Bound<'py, PyAny>) -> PyResult<PythonContext<'py>> {
        let mut every = Vec::new();
        let mut numbers = |name: &str| {
            let mut numbers = Vec::new();
            for worker in context.getattr(name)?.cast::<PyTuple>()?.iter() {
                let number: i64 = worker.getattr("number")?.extract()?;
                numbers.push(number);
                every.push((number, worker));
            }
            Ok::<_, PyErr>(numbers)
        };
        let (free, busy) = (numbers("free")?, numbers("busy")?);
        // The nemesis, which is -1, comes last.
        every.sort_unstable_by_key(|(number, _)| *number as u64);
        let clients = every.iter().filter(|(number, _)| *number >= 0);
        let clients = clients.map(|(number, worker)| {
            let process = worker.getattr("process")?.extract()?;
            let node = worker.getattr("node")?;
            let node = node.cast::<PyString>()?.to_str()?;
            Ok(Worker::new(*number, process, node, false))
        });
        let workers = Workers::new(clients.collect::<PyResult<_>>()?, &free, &busy);
        Ok(PythonContext {
            time_ns: context.getattr("time_ns")?.extract()?,
            workers,
            known: every.into_iter().map(|(_, worker)| worker).collect(),
        })
    }

    fn context(&self) -> Context<'_> {
        Context::of(self.time_ns, &self.workers)
    }

    fn said(&self, py: Python<'py>, step: Step) -> PyResult<Bound<'py, PyAny>> {
        let classes = classes(py)?;
        match step {
            Step::Ready(slot, call) => {
                let call = python_call(py, &call)?;
                classes.ready.bind(py).call1((call, &self.known[slot]))
            }
            Step::Pending(wake_ns, condition) => {
                let firm = condition == WakeCondition::TimeOnly;
                classes.pending.bind(py).call1((wake_ns, firm))
            }
            Step::Exhausted => classes.exhausted.bind(py).call0(),
        }
    }
}

/// The end of a call in Python's form.
struct CallEnd {
    process: i64,
    is_fault: bool,
    kind: Kind,
    f: String,
    key: Option<i64>,
    node: String,
    time_ns: Ns,
    op: Rc<dyn Any>,
}

impl CallEnd {
    fn new(op: &Bound<'_, PyAny>) -> PyResult<CallEnd> {
        let process = op.getattr("process")?;
        let is_fault = process.is_instance_of::<PyString>();
        let kind: String = op.getattr("kind")?.extract()?;
        let node: Option<String> = op.getattr("node")?.extract()?;
        Ok(CallEnd {
            process: if is_fault { -1 } else { process.extract()? },
            is_fault,
            kind: Kind::from_name(&kind).ok_or_else(|| PyTypeError::new_err(kind))?,
            f: op.getattr("f")?.extract()?,
            key: op.getattr("key")?.extract()?,
            node: node.unwrap_or_default(),
            time_ns: op.getattr("time_ns")?.extract()?,
            op: Rc::new(op.clone().unbind()),
        })
    }

    fn event<'a>(&'a self, op: &'a dyn Fn() -> Result<Rc<dyn Any>, Failure>) -> Event<'a> {
        Event {
            is_fault: self.is_fault,
            process: self.process,
            kind: self.kind,
            f: &self.f,
            key: self.key,
            node: &self.node,
            time_ns: self.time_ns,
            op,
        }
    }
}

fn call_maker(make: Py<PyAny>) -> MakeCall {
    Rc::new(move |number| {
        let call = Python::attach(|py| call_of(&make.bind(py).call1((number,))?));
        Ok(call?)
    })
}

fn generator_maker(make: Py<PyAny>) -> MakeGenerator {
    Rc::new(move |number| {
        let generator = Python::attach(|py| generator_of(&make.bind(py).call1((number,))?));
        Ok(generator?)
    })
}

fn predicate(asked: Py<PyAny>) -> IsAwaited {
    Rc::new(move |op| {
        let op = python_object(op);
        Ok(Python::attach(|py| {
            asked.bind(py).call1((op,))?.is_truthy()
        })?)
    })
}
