//! Defines verdicts on transactions as Python receives them.

use pyo3::prelude::*;
use pyo3::IntoPyObjectExt;

use super::outcome::{raise, refuse_truth_test, restorer, status_of, StatusName};
use super::NoReturn;
use crate::transactions::findings::{self, Finding};
use crate::transactions::{Answer, Kinds, PROCESS, REALTIME, RW, WR, WW};

/// A kind of dependency. In Python: `Literal["ww", "wr", "rw", "process", "realtime"]`.
type DependencyKind = String;
/// The name of an anomaly. In Python: `str`.
type AnomalyName = String;

/// The answer to a question, and the smallest part of the history that suffices for it.
pub struct Answered {
    pub answer: Answer,
    /// By transaction of the witness: its position, and those of its micro-operations.
    pub witness: Vec<(u32, Vec<u32>)>,
    pub transactions: usize,
}

/// `from_txn` precedes `to_txn` in every order that explains the history; both are positions.
///
/// ww: the second wrote a later version of a key than the first; wr: it read what the first wrote;
/// rw: the first read the key without what the second wrote; process: the second is the next of the
/// same process; realtime: the first returned before the second was called.
#[pyclass(frozen, get_all, module = "pyporcupine")]
pub struct Dependency {
    pub from_txn: u32,
    pub to_txn: u32,
    pub kind: DependencyKind,
    /// Such as "T2 read T1's append of 5 to key 34". T1 is the transaction at position 1.
    pub why: String,
}

fn kind_name(kind: Kinds) -> &'static str {
    match kind {
        WW => "ww",
        WR => "wr",
        RW => "rw",
        PROCESS => "process",
        REALTIME => "realtime",
        _ => unreachable!("an edge has one kind"),
    }
}

impl From<findings::Dependency> for Dependency {
    fn from(found: findings::Dependency) -> Self {
        Self {
            from_txn: found.from,
            to_txn: found.to,
            kind: kind_name(found.kind).to_owned(),
            why: found.why,
        }
    }
}

#[pymethods]
impl Dependency {
    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let state = (self.from_txn, self.to_txn, &self.kind, &self.why);
        Ok((restorer(py, "_dependency")?, state.into_py_any(py)?))
    }

    fn __repr__(&self) -> String {
        format!(
            "Dependency(from_txn={}, to_txn={}, kind={:?}, why={:?})",
            self.from_txn, self.to_txn, self.kind, self.why
        )
    }
}

/// An anomaly of a history, with one of its instances.
///
/// Cycles of dependencies: G0 (only ww), G1c (ww and wr), G-single (one rw), G-nonadjacent
/// (several rw, no two in a row), G2-item (rw after rw), G-causal (one rw, and back by wr),
/// G-prefix (each rw after wr); the same with "-process" and "-realtime", if they need that order.
/// Others: garbage, duplicate-elements, cyclic-versions, G1a (aborted
/// read), G1b (intermediate read), dirty-update, incompatible-order, future-read, lost-update,
/// internal.
#[pyclass(frozen, get_all, module = "pyporcupine")]
pub struct Anomaly {
    pub name: AnomalyName,
    /// Number of instances; of cycles: of groups of transactions whose worst cycles they are.
    pub count: usize,
    /// Positions of the transactions of one instance: those of a cycle in its order, others
    /// ascending.
    pub transactions: Vec<u32>,
    /// The dependencies of a cycle, of which the last leads back to the first transaction.
    pub cycle: Vec<Py<Dependency>>,
    /// The instance in sentences.
    pub text: String,
}

impl Anomaly {
    fn new(py: Python<'_>, found: Finding) -> PyResult<Self> {
        let cycle = found.cycle.into_iter();
        let cycle = cycle.map(|one| Py::new(py, Dependency::from(one)));
        Ok(Self {
            name: found.anomaly.name().to_owned(),
            count: found.count,
            transactions: found.transactions,
            cycle: cycle.collect::<PyResult<_>>()?,
            text: found.text,
        })
    }
}

#[pymethods]
impl Anomaly {
    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let state = (
            &self.name,
            self.count,
            &self.transactions,
            &self.cycle,
            &self.text,
        );
        Ok((restorer(py, "_anomaly")?, state.into_py_any(py)?))
    }

    fn __repr__(&self) -> String {
        format!(
            "Anomaly(name={:?}, count={}, transactions={:?}, text={:?})",
            self.name, self.count, self.transactions, self.text
        )
    }
}

/// The verdict on a history of transactions. Testing it for truth raises TypeError; compare
/// `status` or call `raise_if_invalid` instead.
#[pyclass(frozen, get_all, module = "pyporcupine")]
pub struct TransactionsResult {
    /// INVALID if an anomaly shows that the level forbids.
    pub status: StatusName,
    /// A clause for human readers.
    pub reason: String,
    /// The anomalies, also those that the level allows, the worst first.
    pub anomalies: Vec<Py<Anomaly>>,
    /// The weakest levels that the anomalies violate. The orders in time that the level does not
    /// respect were not looked at, nor, unless it is one of them, what causal and prefix
    /// consistency alone forbid.
    violated: Vec<String>,
    /// The other levels, which are violated with them.
    also_violated: Vec<String>,
    /// Positions of the transactions of a smallest part of the history that still shows the
    /// first anomaly that the level forbids; empty if the history is not INVALID, or if no part
    /// was found in time.
    pub witness: Vec<u32>,
    /// By transaction of the witness: the positions of the micro-operations that belong to it.
    /// The lists that they read count without the elements whose appends do not.
    pub witness_ops: Vec<Vec<u32>>,
    /// Number of transactions.
    transactions: usize,
}

impl TransactionsResult {
    pub fn new(py: Python<'_>, answered: Answered) -> PyResult<Self> {
        let Answered {
            answer,
            witness,
            transactions,
        } = answered;
        let (witness, witness_ops) = witness.into_iter().unzip();
        let anomalies = answer.findings.into_iter();
        let anomalies = anomalies.map(|found| Py::new(py, Anomaly::new(py, found)?));
        let names = |levels: Vec<crate::transactions::levels::Level>| {
            levels.iter().map(|level| level.name().to_owned()).collect()
        };
        Ok(Self {
            status: answer.status.name(),
            reason: answer.reason,
            anomalies: anomalies.collect::<PyResult<_>>()?,
            violated: names(answer.weakest),
            also_violated: names(answer.others),
            witness,
            witness_ops,
            transactions,
        })
    }
}

#[pymethods]
impl TransactionsResult {
    /// Return if the status is VALID. Raises InvalidError if it is INVALID, and UndecidedError
    /// if it is UNKNOWN.
    fn raise_if_invalid(&self) -> PyResult<()> {
        let mut text = format!("{}: {}", self.status, self.reason);
        if let Some(first) = self.anomalies.first() {
            text += &format!(" ({})", first.get().text);
        }
        raise(self.status, text)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let state = (
            self.status,
            &self.reason,
            &self.anomalies,
            &self.violated,
            &self.also_violated,
            &self.witness,
            &self.witness_ops,
            self.transactions,
        );
        Ok((
            restorer(py, "_transactions_result")?,
            state.into_py_any(py)?,
        ))
    }

    fn __bool__(&self) -> PyResult<NoReturn> {
        refuse_truth_test(self.status)
    }

    fn __repr__(&self) -> String {
        format!(
            "TransactionsResult(status={:?}, reason={:?}, violated={:?})",
            self.status, self.reason, self.violated
        )
    }
}

/// Makes a pickled dependency again.
#[pyfunction]
#[pyo3(name = "_dependency")]
pub fn restore_dependency(from_txn: u32, to_txn: u32, kind: String, why: String) -> Dependency {
    Dependency {
        from_txn,
        to_txn,
        kind,
        why,
    }
}

/// Makes a pickled anomaly again.
#[pyfunction]
#[pyo3(name = "_anomaly")]
pub fn restore_anomaly(
    name: String,
    count: usize,
    transactions: Vec<u32>,
    cycle: Vec<Py<Dependency>>,
    text: String,
) -> Anomaly {
    Anomaly {
        name,
        count,
        transactions,
        cycle,
        text,
    }
}

/// Makes a pickled result again.
#[pyfunction]
#[pyo3(name = "_transactions_result")]
#[allow(clippy::too_many_arguments)]
pub fn restore_transactions_result(
    status: &str,
    reason: String,
    anomalies: Vec<Py<Anomaly>>,
    violated: Vec<String>,
    also_violated: Vec<String>,
    witness: Vec<u32>,
    witness_ops: Vec<Vec<u32>>,
    transactions: usize,
) -> PyResult<TransactionsResult> {
    Ok(TransactionsResult {
        status: status_of(status)?,
        reason,
        anomalies,
        violated,
        also_violated,
        witness,
        witness_ops,
        transactions,
    })
}
