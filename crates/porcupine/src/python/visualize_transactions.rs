//! Implements `pyporcupine.visualize_transactions`: one HTML file that shows the anomalies of
//! transactions.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySequence, PyString};

use super::annotation::{self, Annotations};
use super::check_transactions::{check_list, LevelName, Question, TransactionModel};
use super::list_rows::as_list;
use super::picture::{self, Bar};
use super::source::stream_of;
use super::transaction::{transactions, PyTransactionList, Transaction};
use super::transaction_result::TransactionsResult;
use super::visualize::{Bands, Unit};
use crate::transactions::history::Outcome;
use crate::transactions::Assumptions;

#[doc = include_str!("visualize_transactions.txt")]
#[pyfunction]
#[pyo3(signature = (
    history, model, *, path, consistency="serializable", writes_follow_reads=true,
    sequential_keys=false, linearizable_keys=false, time_s=Some(10.0), memory_mb=Some(1000.0),
    title="History", unit=None, bands=None, annotations=None
), text_signature = "(history, model, *, path, consistency='serializable', \
    writes_follow_reads=True, sequential_keys=False, linearizable_keys=False, time_s=10.0, \
    memory_mb=1000.0, title='History', unit=None, bands=(), annotations=())")]
#[allow(clippy::too_many_arguments)]
pub fn visualize_transactions(
    py: Python<'_>,
    history: &Bound<'_, PyTransactionList>,
    model: &TransactionModel,
    path: std::path::PathBuf,
    consistency: &LevelName,
    writes_follow_reads: bool,
    sequential_keys: bool,
    linearizable_keys: bool,
    time_s: Option<f64>,
    memory_mb: Option<f64>,
    title: &str,
    unit: Option<&Unit>,
    bands: Option<&Bound<'_, Bands>>,
    annotations: Option<&Bound<'_, Annotations>>,
) -> PyResult<TransactionsResult> {
    if stream_of("history", history)?.is_some() {
        return Err(PyTypeError::new_err(
            "history has Arrow columns, expected a list of Transaction, such as those of the witness",
        ));
    }
    let assumptions = Assumptions {
        writes_follow_reads,
        sequential_keys,
        linearizable_keys,
    };
    let question = Question::new(model, consistency, assumptions)?;
    let data = picture::begin(py, title, consistency, unit, "transaction")?;
    let list = as_list(history)?;
    let result = check_list(&list, &question, time_s, memory_mb)?;
    let all = transactions(&list)?;
    let bars: Vec<Bar> = all.iter().map(|one| one.get().bar()).collect();
    let (clients, origin) = picture::add_bars(&data, &bars)?;
    annotation::add(&data, annotations, &clients, origin)?;
    let labels = all.iter().enumerate();
    let labels = labels.map(|(row, one)| label(row, one, None));
    data.set_item("label", labels.collect::<PyResult<Vec<_>>>()?)?;
    data.set_item("object", vec![0; all.len()])?;
    data.set_item("objects", [object(py, &all, &question, &result)?])?;
    picture::finish(&data, bands, origin, &path)?;
    Ok(result)
}

/// Returns a transaction as text: all of its micro-operations, or some.
fn label<'py>(
    row: usize,
    one: &Bound<'py, Transaction>,
    ops: Option<&[u32]>,
) -> PyResult<Bound<'py, PyAny>> {
    let micro_ops = one.get().micro_ops.bind(one.py());
    let micro_ops = micro_ops.cast::<PySequence>()?.to_list()?;
    let mut texts = Vec::new();
    for (at, op) in micro_ops.iter().enumerate() {
        if ops.is_some_and(|ops| !ops.contains(&(at as u32))) {
            continue;
        }
        let triple = op.cast::<PySequence>()?.to_list()?;
        let (f, key, value) = (
            triple.get_item(0)?,
            triple.get_item(1)?,
            triple.get_item(2)?,
        );
        let arrow = match f.cast::<PyString>()?.to_cow()?.starts_with('r') {
            true => "→ ",
            false => "",
        };
        texts.push(format!("{f} {key} {arrow}{value}"));
    }
    let ended = match one.get().outcome {
        Outcome::Committed => "",
        Outcome::Unknown => ", outcome unknown",
        Outcome::Aborted => ", failed",
    };
    let text = format!("T{row}: {}{ended}", texts.join(", "));
    picture::cut(PyString::new(one.py(), &text).as_any())
}

/// Returns the verdict, the witness and the anomalies.
fn object<'py>(
    py: Python<'py>,
    all: &[Bound<'py, Transaction>],
    question: &Question,
    result: &TransactionsResult,
) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(py);
    made.set_item("key", py.None())?;
    made.set_item("status", result.status)?;
    made.set_item("reason", &result.reason)?;
    made.set_item("witness", &result.witness)?;
    let pieces = result.witness.iter().zip(&result.witness_ops);
    let pieces = pieces.map(|(&row, ops)| label(row as usize, &all[row as usize], Some(ops)));
    made.set_item("pieces", pieces.collect::<PyResult<Vec<_>>>()?)?;
    made.set_item("stuck", py.None())?;
    made.set_item("order", PyList::empty(py))?;
    made.set_item("others", PyList::empty(py))?;
    let anomalies = PyList::empty(py);
    for anomaly in &result.anomalies {
        let anomaly = anomaly.get();
        let entry = PyDict::new(py);
        entry.set_item("name", &anomaly.name)?;
        entry.set_item("count", anomaly.count)?;
        entry.set_item("forbidden", question.forbids(&anomaly.name))?;
        entry.set_item("transactions", &anomaly.transactions)?;
        entry.set_item("sentences", anomaly.text.split("; ").collect::<Vec<_>>())?;
        let edges = anomaly.cycle.iter().map(|edge| edge.get());
        let edges: Vec<_> = edges
            .map(|edge| (edge.from_txn, edge.to_txn, &edge.kind, &edge.why))
            .collect();
        entry.set_item("cycle", edges)?;
        anomalies.append(entry)?;
    }
    made.set_item("anomalies", anomalies)?;
    Ok(made)
}
