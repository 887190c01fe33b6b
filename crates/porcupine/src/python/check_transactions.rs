//! Implements `pyporcupine.check_transactions`.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use super::check::{budget_of, memory_mb};
use super::list_rows::as_list;
use super::source::stream_of;
use super::transaction_result::{Answered, TransactionsResult};
use super::{refused, transaction, HistoryError};
use crate::arrow::transactions::{ArrowTransactions, Bad};
use crate::budget::Budget;
use crate::rows::BadRow;
use crate::transactions::history::History;
use crate::transactions::levels::Level;
use crate::transactions::{self, witness, Assumptions, Model};

/// What the keys hold. In Python: `Literal["list-append", "rw-register"]`.
pub type TransactionModel = str;
/// The transactions. In Python: `Sequence[Transaction] | ArrowColumns`.
type PyTransactions = PyAny;
/// Their micro-operations. In Python: `ArrowColumns | None`.
type PyMicroOpColumns = PyAny;
/// A level. In Python: `str`.
pub type LevelName = str;

#[doc = include_str!("check_transactions.txt")]
#[pyfunction]
#[pyo3(signature = (
    history, model, *, micro_ops=None, consistency="serializable", writes_follow_reads=true,
    sequential_keys=false, linearizable_keys=false, time_s=Some(60.0), memory_mb=Some(memory_mb())
), text_signature = "(history, model, *, micro_ops=None, consistency='serializable', \
    writes_follow_reads=True, sequential_keys=False, linearizable_keys=False, time_s=60.0, \
    memory_mb=MEMORY_MB)")]
#[allow(clippy::too_many_arguments)]
pub fn check_transactions(
    py: Python<'_>,
    history: &Bound<'_, PyTransactions>,
    model: &TransactionModel,
    micro_ops: Option<&Bound<'_, PyMicroOpColumns>>,
    consistency: &LevelName,
    writes_follow_reads: bool,
    sequential_keys: bool,
    linearizable_keys: bool,
    time_s: Option<f64>,
    memory_mb: Option<f64>,
) -> PyResult<TransactionsResult> {
    let question = Question::new(
        model,
        consistency,
        Assumptions {
            writes_follow_reads,
            sequential_keys,
            linearizable_keys,
        },
    )?;
    let Some(calls) = stream_of("history", history)? else {
        if micro_ops.is_some() {
            return Err(PyTypeError::new_err(
                "micro_ops is for a history in Arrow columns; a Transaction has its own",
            ));
        }
        return check_list(&as_list(history)?, &question, time_s, memory_mb);
    };
    let ops = micro_ops
        .map(|ops| stream_of("micro_ops", ops))
        .transpose()?;
    let Some(ops) = ops.flatten() else {
        return Err(PyTypeError::new_err(
            "micro_ops is missing, expected Arrow columns, as history is",
        ));
    };
    let budget = budget_of(time_s, memory_mb)?;
    let answer = py.detach(|| {
        let mut tables = ArrowTransactions::new(calls, ops, question.lists())?;
        let history = tables.history()?;
        question.answer(&history, &budget).map_err(Bad::Row)
    });
    let answer = answer.map_err(|bad| match bad {
        Bad::Column(text) => HistoryError::new_err(text),
        Bad::Row(row) => refused(row),
        Bad::MicroOp(row) => {
            HistoryError::new_err(format!("micro_ops: row {}: {}", row.row, row.text))
        }
    })?;
    TransactionsResult::new(py, answer)
}

/// Judges transactions of Python.
pub fn check_list(
    history: &Bound<'_, PyList>,
    question: &Question,
    time_s: Option<f64>,
    memory_mb: Option<f64>,
) -> PyResult<TransactionsResult> {
    let budget = budget_of(time_s, memory_mb)?;
    let owned = transaction::read(history, question.lists())?;
    let py = history.py();
    let answer = py.detach(|| question.answer(&owned.history(), &budget));
    TransactionsResult::new(py, answer.map_err(refused)?)
}

/// What is asked of a history.
pub struct Question {
    model: Model,
    level: Level,
}

impl Question {
    pub fn new(model: &str, consistency: &str, assumptions: Assumptions) -> PyResult<Self> {
        Ok(Self {
            model: parse_model(model, assumptions)?,
            level: parse_level(consistency)?,
        })
    }

    /// Whether the level forbids the anomaly of a name.
    pub fn forbids(&self, anomaly: &str) -> bool {
        self.level.forbids_name(anomaly)
    }

    /// Whether keys hold lists.
    fn lists(&self) -> bool {
        self.model == Model::ListAppend
    }

    fn answer(&self, history: &History, budget: &Budget) -> Result<Answered, BadRow> {
        let limits = budget.to_decide(1, 1);
        let answer = transactions::check(history, self.model, self.level, &limits)?;
        let limits = budget.to_explain(budget.end_of_explaining(), 1, 1);
        let pieces = witness::smallest(history, self.model, self.level, &answer, limits);
        let positions = |piece: witness::Piece| {
            let first = history.ops(piece.transaction).start as u32;
            let ops = piece.ops.iter().map(|op| op - first).collect();
            (piece.transaction, ops)
        };
        Ok(Answered {
            answer,
            witness: pieces.into_iter().map(positions).collect(),
            transactions: history.len(),
        })
    }
}

fn parse_model(name: &str, assumptions: Assumptions) -> PyResult<Model> {
    match name {
        "list-append" => Ok(Model::ListAppend),
        "rw-register" => Ok(Model::RwRegister(assumptions)),
        name => Err(PyValueError::new_err(format!(
            "model is {name:?}, expected \"list-append\" or \"rw-register\""
        ))),
    }
}

fn parse_level(name: &str) -> PyResult<Level> {
    Level::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Level::all().map(Level::name).collect();
        let text = format!(
            "consistency is {name:?}, expected one of {}",
            names.join(", ")
        );
        PyValueError::new_err(text)
    })
}

/// Returns the names of all levels, each after those that it implies.
pub fn level_names(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let names: Vec<Py<PyString>> = Level::all()
        .map(|level| PyString::new(py, level.name()).unbind())
        .collect();
    Ok(pyo3::types::PyTuple::new(py, names)?.into_any().unbind())
}
