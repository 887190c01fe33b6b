//! Defines the extension module `harness.native._explorer`.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::model::{Model, Protocol, Scope, Who, NONE};
use crate::models;
use crate::search::{Finding, Progress, Search, Step as Taken};
use crate::states::Word;

/// Who acts. In Python: `Literal["client", "replica", "fault"]`.
type Actor = &'static str;
/// Why a search ended. In Python: `Literal["whole", "states", "memory"]`.
type End = &'static str;

/// A property that every state must have, and what the search knows about it.
#[pyclass(frozen, get_all, module = "harness.native.explorer")]
pub struct Claim {
    name: &'static str,
    text: &'static str,
    /// Number of states to which it applies; for comes-to-rest, of steps.
    applied: u64,
    /// Number of actions to the nearest state that violates it; None if there is none so far.
    broken_after: Option<u32>,
}

/// A step of a counterexample and the state after it. The first step is the initial state.
#[pyclass(frozen, get_all, module = "harness.native.explorer")]
pub struct Step {
    action: Option<&'static str>,
    who: Option<Actor>,
    /// The replica, from 0.
    replica: Option<u8>,
    /// A record, a log entry or another replica, from 0.
    other: Option<u8>,
    /// The state after the step, as (column, text).
    state: Vec<(String, String)>,
    /// For each replica the records, from 1, that a client could read there.
    visible: Vec<Vec<u32>>,
}

/// A search over any model, with any state word.
trait Explore: Send + Sync {
    fn advance(&mut self, time: Duration) -> Progress;
    fn counts(&self) -> Counts;
    fn claims(&self) -> Vec<Claim>;
    fn trace(&self, claim: &str) -> Option<Vec<Step>>;
}

struct Counts {
    states: u32,
    transitions: u64,
    depth: u32,
    frontier: u32,
    bytes: usize,
}

impl<M: Model + Send + Sync, W: Word + Send + Sync> Explore for Search<M, W> {
    fn advance(&mut self, time: Duration) -> Progress {
        Search::advance(self, time)
    }

    fn counts(&self) -> Counts {
        Counts {
            states: self.states(),
            transitions: self.transitions(),
            depth: self.depth(),
            frontier: self.frontier(),
            bytes: self.bytes(),
        }
    }

    fn claims(&self) -> Vec<Claim> {
        let findings = self.findings().into_iter();
        findings
            .map(|(claim, Finding { applied, broken })| Claim {
                name: claim.name,
                text: claim.text,
                applied,
                broken_after: broken.map(|(_, depth)| depth),
            })
            .collect()
    }

    fn trace(&self, claim: &str) -> Option<Vec<Step>> {
        let some = |n: u8| (n != NONE).then_some(n);
        let shown = |Taken { action, state }: Taken| Step {
            action: action.map(|a| a.name),
            who: action.map(|a| match a.who {
                Who::Client => "client",
                Who::Replica => "replica",
                Who::Fault => "fault",
            }),
            replica: action.and_then(|a| some(a.replica)),
            other: action.and_then(|a| some(a.other)),
            state: self.model.show(state),
            visible: (0..self.model.chunks().count)
                .map(|r| self.model.visible(state, r))
                .collect(),
        };
        Some(self.trace(claim)?.into_iter().map(shown).collect())
    }
}

/// A search over one model. It proceeds only during calls of `advance`.
///
/// `states_max` and `memory_mb` (10**6 bytes) limit it; None is no limit. With `symmetry`, states
/// that differ only by a permutation of replicas are one state. `protocol` has the mechanisms and
/// the defects of a server version; those that the model does not know are left out. Raises
/// ValueError for parameters that the model does not take.
#[pyclass(module = "harness.native.explorer")]
pub struct Exploration {
    search: Box<dyn Explore>,
    progress: Progress,
}

struct Start {
    symmetry: bool,
    states_max: u32,
    bytes_max: usize,
}

impl models::Visit for Start {
    type Out = Box<dyn Explore>;

    fn visit<M: Model + Send + Sync + 'static>(self, model: M) -> Self::Out {
        if model.chunks().bits() <= u64::BITS {
            Box::new(Search::<M, u64>::new(
                model,
                self.symmetry,
                self.states_max,
                self.bytes_max,
            ))
        } else {
            Box::new(Search::<M, u128>::new(
                model,
                self.symmetry,
                self.states_max,
                self.bytes_max,
            ))
        }
    }
}

#[pymethods]
impl Exploration {
    #[new]
    #[pyo3(signature = (
        model, *, replicas=3, records=2, reads=2, quorum=2, read="server", skip_failed=false,
        protocol=None, parallel=false, mutant=None, fixes=vec![], symmetry=false, states_max=None,
        memory_mb=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        model: &str,
        replicas: u32,
        records: u32,
        reads: u32,
        quorum: u32,
        read: &str,
        skip_failed: bool,
        protocol: Option<(Vec<String>, Vec<String>)>,
        parallel: bool,
        mutant: Option<&str>,
        fixes: Vec<String>,
        symmetry: bool,
        states_max: Option<u32>,
        memory_mb: Option<f64>,
    ) -> PyResult<Self> {
        let protocol = protocol.map(|(mechanisms, defects)| Protocol {
            mechanisms,
            defects,
        });
        let scope = Scope {
            replicas,
            records,
            reads,
            quorum,
            read,
            skip_failed,
            protocol: protocol.as_ref(),
            parallel,
            mutant,
            fixes: &fixes,
        };
        let start = Start {
            symmetry,
            states_max: states_max.unwrap_or(u32::MAX).max(1),
            bytes_max: memory_mb.map_or(usize::MAX, |mb| (mb * 1e6) as usize),
        };
        let search = models::visit_model(model, &scope, start).map_err(PyValueError::new_err)?;
        Ok(Self {
            search,
            progress: Progress::Going,
        })
    }

    /// Search for this time without the GIL; return whether the search has ended.
    fn advance(&mut self, py: Python<'_>, seconds: f64) -> bool {
        let time = Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
        self.progress = py.detach(|| self.search.advance(time));
        self.progress != Progress::Going
    }

    /// Why the search ended: every state was found, or a limit was reached. None if it has
    /// not.
    #[getter]
    fn ended(&self) -> Option<End> {
        match self.progress {
            Progress::Going => None,
            Progress::Whole => Some("whole"),
            Progress::TooMany => Some("states"),
            Progress::OutOfMemory => Some("memory"),
        }
    }

    #[getter]
    fn states(&self) -> u32 {
        self.search.counts().states
    }

    /// Number of examined steps, including those to known states.
    #[getter]
    fn transitions(&self) -> u64 {
        self.search.counts().transitions
    }

    /// The greatest distance of a found state from the initial one, in actions.
    #[getter]
    fn depth(&self) -> u32 {
        self.search.counts().depth
    }

    /// Number of states that are not expanded yet.
    #[getter]
    fn frontier(&self) -> u32 {
        self.search.counts().frontier
    }

    #[getter]
    fn bytes(&self) -> usize {
        self.search.counts().bytes
    }

    fn claims(&self) -> Vec<Claim> {
        self.search.claims()
    }

    /// Return a shortest path that violates a claim; None if there is none so far.
    fn trace(&self, claim: &str) -> Option<Vec<Step>> {
        self.search.trace(claim)
    }
}

/// Explores every interleaving of small models of the replication protocol, breadth first.
#[pymodule(gil_used = true)]
fn _explorer(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // MODELS: list[tuple[str, list[str], list[str], list[str]]]
    // Each model, with its mutants, its fixes, and the defects of protocols that it has as switches.
    module.add("MODELS", models::catalogue())?;
    module.add_class::<Claim>()?;
    module.add_class::<Step>()?;
    module.add_class::<Exploration>()
}
