//! The Python module `harness.native.histories`.

mod calls;
mod set;

use std::collections::HashMap;
use std::mem::take;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};

use self::calls::Calls;
use self::set::Set;
use crate::arrow::table;
use crate::batch::{self, Batch};
use crate::calls::{calls, Object};
use crate::findings::Findings;
use crate::history::{History, Refused, NO_ROW};
use crate::lines::{Value, NEMESIS};
use crate::sets::{sets, BadValue};
use crate::tally::{tally, Ends};
use crate::words::Word;
use crate::write::LineParts;

pyo3::create_exception!(
    harness.native.histories,
    FormError,
    pyo3::exceptions::PyValueError,
    "A line does not have the form that the journal writes. It may still be a valid operation.
    args has the number of the line, from 1."
);

pyo3::create_exception!(
    harness.native.histories,
    RuleError,
    pyo3::exceptions::PyValueError,
    "An operation breaks the rules of histories. The text names the operation and the field."
);

pyo3::create_exception!(
    harness.native.histories,
    OddValue,
    pyo3::exceptions::PyValueError,
    "An insert whose value is not an integer, or a read whose value is not an array of integers,
    of 64 bits each. args has the operation's row."
);

/// The operations of a history in columns, one row each. Raises FormError and RuleError for
/// lines that `harness.core.lines` would not write.
#[pyclass(frozen, module = "harness.native.histories")]
struct Columns {
    history: Arc<History>,
    parts: LineParts,
}

impl Columns {
    fn of(history: History) -> Columns {
        Columns {
            parts: LineParts::of(&history),
            history: Arc::new(history),
        }
    }

    fn rows(&self, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.history.len()).filter(|&row| wanted(row)).collect()
    }
}

/// Buffers by column. In Python: `dict[str, list[bytes]]`.
type ColumnBuffers = PyDict;
/// What a key's calls operate on. In Python: `Literal["set", "register"]`.
type ObjectName = str;
/// (f, ends, durations in ns at the given quantiles, errors).
type FTally = (String, Ends, Vec<i64>, Vec<(String, usize)>);
/// (node, f, ends).
type NodeTally = (Option<String>, String, Ends);

#[pymethods]
impl Columns {
    #[new]
    fn new(lines: Bound<'_, PyBytes>) -> PyResult<Columns> {
        History::read(lines.as_bytes())
            .map(Columns::of)
            .map_err(refused)
    }

    fn __len__(&self) -> usize {
        self.history.len()
    }

    /// Memory that the operations take.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.history.bytes()
    }

    /// Return the lines of all operations, as `harness.core.lines` writes them.
    fn lines<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let lines = self.parts.lines(&self.history, 0..self.history.len());
        PyBytes::new(py, &lines)
    }

    /// Return the line of an operation without its newline.
    fn line<'py>(&self, py: Python<'py>, row: usize) -> Bound<'py, PyBytes> {
        let line = self.parts.lines(&self.history, row..row + 1);
        PyBytes::new(py, &line[..line.len() - 1])
    }

    /// Return the lines of these rows, in their order.
    fn lines_at<'py>(&self, py: Python<'py>, rows: Vec<usize>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.parts.lines(&self.history, rows.into_iter()))
    }

    /// Return Arrow buffers by column name: validity bitmap, offsets if entries differ in size,
    /// data. The columns are process (int32, the nemesis is -1), node and f (int32, indices into
    /// `words`), kind (int32: invoke, ok, fail, info), key, value and time_ns (int64), values
    /// (lists of int64), detail and error (texts). Raises OddValue for a number that does not
    /// fit.
    fn arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, ColumnBuffers>> {
        let made = table(&self.history).map_err(bad_value)?;
        let columns = PyDict::new(py);
        for (name, column) in [
            ("process", &made.process),
            ("node", &made.node),
            ("kind", &made.kind),
            ("f", &made.f),
            ("key", &made.key),
            ("value", &made.value),
            ("values", &made.values),
            ("detail", &made.detail),
            ("time_ns", &made.time_ns),
            ("error", &made.error),
        ] {
            let buffers = [&column.validity, &column.offsets, &column.data];
            columns.set_item(name, buffers.map(|bytes| PyBytes::new(py, bytes)))?;
        }
        Ok(columns)
    }

    /// Return the interned texts of the columns node and f.
    fn words(&self) -> [(&'static str, Vec<String>); 2] {
        [
            ("node", self.history.nodes.all()),
            ("f", self.history.fs.all()),
        ]
    }

    fn time_ns(&self, row: usize) -> i64 {
        self.history.time_ns[row]
    }

    /// Return the rows of the nemesis.
    fn nemesis(&self) -> Vec<usize> {
        self.rows(|row| self.history.process[row] == NEMESIS)
    }

    /// Return the rows whose value is an object.
    fn objects(&self) -> Vec<usize> {
        self.rows(|row| matches!(self.history.value[row], Value::Object(_)))
    }

    /// Return the rows of invocation and end of the client calls at these places in order of
    /// invocation. The end is None if the call never ended.
    fn pairs(&self, places: Vec<usize>) -> Vec<(u32, Option<u32>)> {
        let pairs = places.iter().map(|&place| &self.history.pairs[place]);
        pairs.map(|pair| (pair.invoke, row_of(pair.end))).collect()
    }

    /// Return the places of the client calls with one of these names and, if any is given, one
    /// of these kinds ("ok", "fail" or "info"), as 32-bit numbers.
    fn places<'py>(
        &self,
        py: Python<'py>,
        fs: Vec<String>,
        kinds: Vec<String>,
    ) -> Bound<'py, PyBytes> {
        bytes_of(py, &self.history.places(&fs, &kinds))
    }

    /// Return the times in ns at which the calls at these places began, and those at which they
    /// may have ended, as 64-bit numbers: 2**63 - 1 for a call that is not ok.
    fn spans<'py>(
        &self,
        py: Python<'py>,
        places: Vec<u32>,
    ) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let (begins, ends) = self.history.spans(&places);
        (bytes_of(py, &begins), bytes_of(py, &ends))
    }

    /// Return those of the calls at these places that name the same key and the same number as
    /// another of them, as 32-bit numbers: their places, group by group in order of the first call
    /// of each, and the number of places up to the end of each group.
    fn repeated<'py>(
        &self,
        py: Python<'py>,
        places: Vec<u32>,
    ) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let groups = self.history.repeated(places);
        (bytes_of(py, &groups.places), bytes_of(py, &groups.ends))
    }

    /// Return the number of client calls.
    fn calls_count(&self) -> usize {
        self.history.pairs.len()
    }

    /// Return every key that a client named, ascending.
    fn keys(&self) -> Vec<i64> {
        let pairs = self.history.pairs.iter();
        let mut keys: Vec<i64> = pairs
            .filter_map(|pair| self.history.key[pair.invoke as usize])
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Return every node that a client call names, in no particular order.
    fn nodes(&self) -> Vec<String> {
        let pairs = self.history.pairs.iter();
        let mut nodes: Vec<Word> = pairs
            .map(|pair| self.history.node[pair.invoke as usize])
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
            .into_iter()
            .filter_map(|node| self.history.nodes.text(node))
            .collect()
    }

    /// Whether some client call was in flight during the closed interval.
    fn called_between(&self, begin_ns: i64, end_ns: i64) -> bool {
        self.history.pairs.iter().any(|pair| {
            let begun = self.history.time_ns[pair.invoke as usize] <= end_ns;
            begun && (pair.end == NO_ROW || self.history.time_ns[pair.end as usize] >= begin_ns)
        })
    }

    /// Count the client calls. For each f: the numbers that ended ok, fail and info; the
    /// durations in ns of those that ended ok, at the quantiles by nearest rank (empty without an
    /// ok call); and how often each error code occurred, in order of the calls, where the code is
    /// the text before the first colon. For each node and f: the numbers that ended ok, fail and
    /// info.
    fn tally(&self, quantiles: Vec<f64>) -> (Vec<FTally>, Vec<NodeTally>) {
        let (by_f, by_node) = tally(&self.history);
        let text = |word| self.history.fs.text(word).unwrap_or_default();
        let of_f = by_f.into_iter().map(|one| {
            let last = one.took.len().saturating_sub(1) as f64;
            let at = |q: &f64| one.took.get((q * last).round_ties_even() as usize).copied();
            (
                text(one.f),
                one.ends,
                quantiles.iter().filter_map(at).collect(),
                one.errors,
            )
        });
        let of_node = by_node.into_iter();
        let of_node = of_node.map(|one| (self.history.nodes.text(one.node), text(one.f), one.ends));
        (of_f.collect(), of_node.collect())
    }

    /// Return the set of each key that has inserts or reads, the missing key first, then
    /// ascending. Raises OddValue.
    fn sets(&self) -> PyResult<Vec<Set>> {
        let made = sets(&self.history).map_err(bad_value)?;
        let made = made.into_iter().map(|set| Set {
            history: self.history.clone(),
            set,
            places: OnceLock::new(),
        });
        Ok(made.collect())
    }

    /// Return the calls that constrain each key's object of this kind, in the order in which
    /// keys are first called. Raises OddValue.
    fn calls(&self, kind: &ObjectName) -> PyResult<Vec<Calls>> {
        let object = match kind {
            "set" => Object::Set,
            _ => Object::Register,
        };
        let made = calls(&self.history, object).map_err(bad_value)?;
        let made = made.into_iter().map(|calls| Calls {
            history: self.history.clone(),
            calls,
        });
        Ok(made.collect())
    }
}

/// The buffers of a column as `Columns.arrow` returns them. In Python: `list[bytes]`.
type Buffers = [PyBackedBytes; 3];

/// Makes the columns of a history from batches of Arrow buffers.
#[pyclass(module = "harness.native.histories")]
struct ColumnsBuilder {
    history: History,
}

#[pymethods]
impl ColumnsBuilder {
    /// Begin a history with memory for so many operations, numbers in lists, and bytes of
    /// objects, which then need not be copied as it grows. Unless it is `whole`, the operations
    /// are some of a history's, and keep their indices.
    #[new]
    #[pyo3(signature = (rows=0, numbers=0, raw=0, *, whole))]
    fn new(rows: usize, numbers: usize, raw: usize, whole: bool) -> ColumnsBuilder {
        let mut history = match whole {
            true => History::with_capacity(rows),
            false => History::part(rows),
        };
        history.numbers.reserve_exact(numbers);
        history.raw.reserve_exact(raw);
        ColumnsBuilder { history }
    }

    /// Append operations that are given as `Columns.arrow` returns them, with the texts of node,
    /// kind and f, and with their index, and return the bytes that all of them take so far. The
    /// columns node, key, value, values, detail and error may be missing, and count as null. Raises
    /// FormError for a row that lacks a field, and RuleError.
    fn append(
        &mut self,
        py: Python<'_>,
        rows: usize,
        columns: HashMap<String, Buffers>,
        mut words: HashMap<String, Vec<String>>,
    ) -> PyResult<usize> {
        let column = |name: &str| {
            let found = columns.get(name).map(|buffers| batch::Column {
                validity: &buffers[0],
                offsets: &buffers[1],
                data: &buffers[2],
            });
            found.unwrap_or_default()
        };
        let mut texts = |name: &str| words.remove(name).unwrap_or_default();
        let batch = Batch {
            index: column("index"),
            process: column("process"),
            node: (column("node"), texts("node")),
            kind: (column("kind"), texts("kind")),
            f: (column("f"), texts("f")),
            key: column("key"),
            value: column("value"),
            values: column("values"),
            detail: column("detail"),
            time_ns: column("time_ns"),
            error: column("error"),
        };
        let history = &mut self.history;
        py.detach(|| batch.append_to(rows, history))
            .map_err(refused)?;
        Ok(history.bytes())
    }

    /// Return the columns. Nothing may be appended afterwards. Raises RuleError.
    fn finish(&mut self, py: Python<'_>) -> PyResult<Columns> {
        let mut history = take(&mut self.history);
        py.detach(|| history.match_ends()).map_err(refused)?;
        Ok(Columns::of(history))
    }
}

fn refused(why: Refused) -> PyErr {
    match why {
        Refused::Form(line) => FormError::new_err(line + 1),
        Refused::Rule(text) => RuleError::new_err(text),
    }
}

/// Returns numbers as bytes in the little-endian order, as `memoryview.cast` reads them here.
fn bytes_of<'py, T: Copy + Into<i64>>(py: Python<'py>, numbers: &[T]) -> Bound<'py, PyBytes> {
    let mut bytes = Vec::with_capacity(size_of_val(numbers));
    for &number in numbers {
        let eight = number.into().to_le_bytes();
        bytes.extend_from_slice(&eight[..size_of::<T>()]);
    }
    PyBytes::new(py, &bytes)
}

fn row_of(row: u32) -> Option<u32> {
    (row != NO_ROW).then_some(row)
}

fn bad_value(BadValue(row): BadValue) -> PyErr {
    OddValue::new_err(row)
}

/// Adds `harness.native.histories` to the extension module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("FormError", module.py().get_type::<FormError>())?;
    module.add("RuleError", module.py().get_type::<RuleError>())?;
    module.add("OddValue", module.py().get_type::<OddValue>())?;
    module.add_class::<Columns>()?;
    module.add_class::<ColumnsBuilder>()?;
    module.add_class::<Set>()?;
    module.add_class::<Calls>()?;
    module.add_class::<Findings>()
}
