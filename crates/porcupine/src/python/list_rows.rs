//! Reads rows from a Python list of operations.

use std::borrow::Cow;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyMapping, PySequence, PyString, PyTuple};
use pyo3::Borrowed;
use rustc_hash::FxHashMap;

use super::operation::Operation;
use super::HistoryError;
use crate::clock::Clock;
use crate::datum::Datum;
use crate::order::Timing;
use crate::partition::Partition;
use crate::process::Names;
use crate::rows::{prefetch, Field, Rows, AHEAD};

/// Maximum nesting of lists, each level of which takes some of the stack. Models use two levels.
const NESTED_MAX: usize = 10;

/// A value; long contents are stored elsewhere.
#[derive(Clone, Copy)]
enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    /// Range in `text`.
    Text(usize, u32),
    /// Range in `ints`.
    Ints(usize, u32),
    /// Range in `cells`.
    List(usize, u32),
}

/// A history copied from Python objects.
#[derive(Default)]
pub struct ListRows {
    clock: Clock,
    process: Vec<i64>,
    call: Vec<i64>,
    ret: Vec<i64>,
    f: Vec<u32>,
    names: Vec<String>,
    values: Vec<Cell>,
    outputs: Vec<Cell>,
    text: String,
    ints: Vec<i64>,
    cells: Vec<Cell>,
    processes: Names,
}

/// Number of objects whose contents are remembered while a list is read.
const CELLS_KNOWN: usize = 512;
const NAMES_KNOWN: usize = 16;

/// What has been read of objects that come again, by address. None of them is freed meanwhile,
/// because the history holds them, and none changes, because no Python code runs.
struct Known {
    names: Vec<(usize, u32)>,
    cells: Box<[(usize, Cell); CELLS_KNOWN]>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            cells: Box::new([(0, Cell::Null); CELLS_KNOWN]),
        }
    }
}

impl Rows for ListRows {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn timing(&self, row: usize) -> Timing {
        Timing {
            row,
            process: self.process[row],
            call: self.call[row],
            ret: self.ret[row],
        }
    }

    fn f(&self, row: usize) -> &str {
        &self.names[self.f[row] as usize]
    }

    fn datum(&self, row: usize, field: Field) -> Datum<'_> {
        match field {
            Field::Value => self.read_cell(self.values[row]),
            Field::Output => self.read_cell(self.outputs[row]),
            Field::Expected => Datum::Null,
        }
    }
}

/// The rows of each key, in order of the keys' first appearance.
#[derive(Default)]
pub struct Keyed {
    pub keys: Vec<Option<Py<PyAny>>>,
    pub objects: Partition,
}

/// A key, converted for Rust.
pub enum Key<'a> {
    None,
    Int(i64),
    Text(Cow<'a, str>),
}

/// Groups rows by key as they arrive.
#[derive(Default)]
pub struct Grouping {
    keys: Vec<Option<Py<PyAny>>>,
    /// By row: the index of its key.
    of: Vec<u32>,
    /// By key: its index.
    none: Option<u32>,
    ints: FxHashMap<i64, u32>,
    texts: FxHashMap<String, u32>,
    /// By address of an object that came before: the index of its key. The history holds it.
    objects: FxHashMap<usize, u32>,
}

impl Grouping {
    /// Adds the next row to the group of its key.
    pub fn push(&mut self, key: Option<Borrowed<'_, '_, PyAny>>) -> PyResult<()> {
        let at = key.map_or(0, |key| key.as_ptr() as usize);
        if let Some(&place) = self.objects.get(&at) {
            self.of.push(place);
            return Ok(());
        }
        let key = key.as_deref();
        let next = self.keys.len() as u32;
        let place = match parse_key(|| format!("row {}: key", self.of.len()), key)? {
            Key::None => *self.none.get_or_insert(next),
            Key::Int(number) => *self.ints.entry(number).or_insert(next),
            Key::Text(text) => match self.texts.get(&*text) {
                Some(&place) => place,
                None => *self.texts.entry(text.into_owned()).or_insert(next),
            },
        };
        if place == next {
            self.keys.push(key.map(|key| key.clone().unbind()));
        }
        if self.objects.len() < 2 * self.keys.len() {
            self.objects.insert(at, place);
        }
        self.of.push(place);
        Ok(())
    }

    pub fn keyed(self) -> Keyed {
        let objects = Partition::new(self.of, self.keys.len());
        Keyed {
            keys: self.keys,
            objects,
        }
    }
}

impl ListRows {
    fn with_capacity(rows: usize) -> Self {
        Self {
            process: Vec::with_capacity(rows),
            call: Vec::with_capacity(rows),
            ret: Vec::with_capacity(rows),
            f: Vec::with_capacity(rows),
            values: Vec::with_capacity(rows),
            outputs: Vec::with_capacity(rows),
            ..Self::default()
        }
    }

    /// Copies what decisions need out of Python, and groups the rows by key.
    pub fn new(history: &Bound<'_, PyAny>) -> PyResult<(Self, Keyed)> {
        let list = as_list(history)?;
        match Self::read(&list, Clock::Ints)? {
            Some(read) => Ok(read),
            None => Ok(Self::read(&list, Clock::Floats)?.expect("a float fits its clock")),
        }
    }

    /// Reads a list; `None` if its times need the clock of floats.
    fn read(list: &Bound<'_, PyList>, clock: Clock) -> PyResult<Option<(Self, Keyed)>> {
        let mut rows = ListRows::with_capacity(list.len());
        rows.clock = clock;
        let mut grouping = Grouping::default();
        let mut known = Known::default();
        for (row, item) in objects(list) {
            let operation = as_operation(row, item)?;
            let operation = operation.get();
            if clock == Clock::Ints && operation.times().any(|time| time.number(clock).is_none()) {
                return Ok(None);
            }
            rows.push(list.py(), row, operation, &mut known)?;
            let key = operation.key.as_ref().map(|k| k.bind_borrowed(list.py()));
            grouping.push(key)?;
        }
        Ok(Some((rows, grouping.keyed())))
    }

    fn push<'py>(
        &mut self,
        py: Python<'py>,
        row: usize,
        operation: &Operation,
        known: &mut Known,
    ) -> PyResult<()> {
        let process = operation.process.number(&mut self.processes);
        let timing = operation.timing(row, process, self.clock)?;
        self.process.push(process);
        self.call.push(timing.call);
        self.ret.push(timing.ret);
        let name = operation.f.as_ptr() as usize;
        let f = match known.names.iter().find(|&&(at, _)| at == name) {
            Some(&(_, number)) => number,
            None => {
                let number = self.number_of(&operation.name(py));
                if known.names.len() < NAMES_KNOWN {
                    known.names.push((name, number));
                }
                number
            }
        };
        self.f.push(f);
        let value = operation.value.as_ref().map(|v| v.bind_borrowed(py));
        let value = self.known_cell(row, "value", value, known)?;
        self.values.push(value);
        let output = operation.output.as_ref().map(|v| v.bind_borrowed(py));
        let output = self.known_cell(row, "output", output, known)?;
        self.outputs.push(output);
        Ok(())
    }

    fn number_of(&mut self, f: &str) -> u32 {
        let known = self.names.iter().position(|name| name == f);
        known.unwrap_or_else(|| {
            self.names.push(f.to_owned());
            self.names.len() - 1
        }) as u32
    }

    /// Returns the cell of a value, that of an earlier one if it is the same object.
    #[inline]
    fn known_cell(
        &mut self,
        row: usize,
        field: &str,
        given: Option<Borrowed<'_, '_, PyAny>>,
        known: &mut Known,
    ) -> PyResult<Cell> {
        let Some(given) = given else {
            return Ok(Cell::Null);
        };
        let at = given.as_ptr() as usize;
        let slot = &mut known.cells[at / 16 % CELLS_KNOWN];
        if slot.0 == at {
            return Ok(slot.1);
        }
        let cell = self.cell(row, field, Some(&given))?;
        *slot = (at, cell);
        Ok(cell)
    }

    fn cell(
        &mut self,
        row: usize,
        field: &str,
        given: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Cell> {
        let Some(given) = given.filter(|g| !g.is_none()) else {
            return Ok(Cell::Null);
        };
        if let Ok(flag) = given.cast::<PyBool>() {
            return Ok(Cell::Bool(flag.is_true()));
        }
        if given.is_instance_of::<PyInt>() {
            if let Ok(value) = given.extract() {
                return Ok(Cell::Int(value));
            }
        } else if let Ok(text) = given.cast::<PyString>() {
            let from = self.text.len();
            self.text.push_str(&text.to_cow()?);
            return Ok(Cell::Text(from, (self.text.len() - from) as u32));
        } else if let Ok(list) = given.cast::<PyList>() {
            return self.list(row, field, list.len(), list.iter());
        } else if let Ok(tuple) = given.cast::<PyTuple>() {
            return self.list(row, field, tuple.len(), tuple.iter());
        } else if let Ok(dict) = given.cast::<PyDict>() {
            return self.pairs(row, field, dict);
        }
        Err(HistoryError::new_err(format!(
            "row {row}: {field} is {}, expected an int of 64 bits, a str, a bool, None or a list of these",
            given.repr()?
        )))
    }

    /// Reads the pairs of a dict, in their order, without making tuples of them.
    fn pairs(&mut self, row: usize, field: &str, dict: &Bound<'_, PyDict>) -> PyResult<Cell> {
        check_depth(row, field)?;
        if dict.is_empty() {
            return Ok(Cell::Ints(self.ints.len(), 0));
        }
        let field = format!("an item of an item of {field}");
        let mut cells = Vec::with_capacity(dict.len());
        for (key, value) in dict {
            let pair = [
                self.cell(row, &field, Some(&key))?,
                self.cell(row, &field, Some(&value))?,
            ];
            let from = match pair {
                [Cell::Int(key), Cell::Int(value)] => {
                    self.ints.extend([key, value]);
                    Cell::Ints(self.ints.len() - 2, 2)
                }
                _ => {
                    self.cells.extend(pair);
                    Cell::List(self.cells.len() - 2, 2)
                }
            };
            cells.push(from);
        }
        let from = self.cells.len();
        self.cells.extend(cells);
        Ok(Cell::List(from, dict.len() as u32))
    }

    fn list<'py>(
        &mut self,
        row: usize,
        field: &str,
        count: usize,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<Cell> {
        check_depth(row, field)?;
        let from = self.ints.len();
        self.ints.reserve(count);
        let mut items = items;
        let mut other = None;
        for item in items.by_ref() {
            // To Python, bools are ints.
            let is_int = item.is_instance_of::<PyInt>() && !item.is_instance_of::<PyBool>();
            match is_int.then(|| item.extract::<i64>()) {
                Some(Ok(value)) => self.ints.push(value),
                _ => {
                    other = Some(item);
                    break;
                }
            }
        }
        let Some(other) = other else {
            return Ok(Cell::Ints(from, count as u32));
        };
        let mut cells: Vec<Cell> = self.ints.drain(from..).map(Cell::Int).collect();
        let field = format!("an item of {field}");
        for item in std::iter::once(other).chain(items) {
            cells.push(self.cell(row, &field, Some(&item))?);
        }
        let from = self.cells.len();
        self.cells.extend(cells);
        Ok(Cell::List(from, count as u32))
    }

    fn read_cell(&self, cell: Cell) -> Datum<'_> {
        match cell {
            Cell::Null => Datum::Null,
            Cell::Bool(flag) => Datum::Bool(flag),
            Cell::Int(value) => Datum::Int(value),
            Cell::Text(from, len) => Datum::Text(&self.text[from..from + len as usize]),
            Cell::Ints(from, len) => Datum::Ints(&self.ints[from..from + len as usize]),
            Cell::List(from, len) => {
                let cells = self.cells[from..from + len as usize].iter();
                Datum::List(cells.map(|&cell| self.read_cell(cell)).collect())
            }
        }
    }
}

/// Refuses a list within too many others.
fn check_depth(row: usize, field: &str) -> PyResult<()> {
    if field.matches("an item of ").count() < NESTED_MAX {
        return Ok(());
    }
    Err(HistoryError::new_err(format!(
        "row {row}: {field} is a list, expected lists of at most {NESTED_MAX} within each other"
    )))
}

/// Iterates over the objects of a list, without changing their reference counts.
fn objects<'a, 'py>(
    list: &'a Bound<'py, PyList>,
) -> impl Iterator<Item = (usize, Borrowed<'a, 'py, PyAny>)> {
    let get = |row: usize| {
        // SAFETY: the row is one of the list's.
        unsafe { pyo3::ffi::PyList_GetItem(list.as_ptr(), row as isize) }
    };
    let count = list.len();
    (0..count).map(move |row| {
        if row + AHEAD < count {
            prefetch(get(row + AHEAD).cast());
        }
        // SAFETY: the list holds the object, and nothing changes the list: the GIL is held, and what
        // reads the objects runs no Python code until it returns an error.
        (row, unsafe { Borrowed::from_ptr(list.py(), get(row)) })
    })
}

/// Returns the operation of a row. The error for a mapping says how to make an operation of it.
pub fn as_operation<'a, 'py>(
    row: usize,
    item: Borrowed<'a, 'py, PyAny>,
) -> PyResult<Borrowed<'a, 'py, Operation>> {
    item.cast::<Operation>().map_err(|_| {
        let name = item.get_type().name().map(|name| name.to_string());
        let name = name.unwrap_or_else(|_| "thing without a type".to_owned());
        let how = match item.cast::<PyMapping>() {
            Ok(_) => ": Operation(**row), or a data frame of the rows",
            Err(_) => "",
        };
        PyTypeError::new_err(format!("row {row} is a {name}, expected an Operation{how}"))
    })
}

pub fn as_list<'py>(history: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    if let Ok(list) = history.cast::<PyList>() {
        return Ok(list.clone());
    }
    match history.cast::<PySequence>() {
        Ok(sequence) => sequence.to_list(),
        Err(_) => {
            let name = history.get_type().to_string();
            Err(PyTypeError::new_err(format!(
                "history is a {name}, expected a list of Operation, or Arrow columns"
            )))
        }
    }
}

/// Converts a key. `what` names it in an error.
pub fn parse_key<'a>(
    what: impl Fn() -> String,
    key: Option<&'a Bound<'_, PyAny>>,
) -> PyResult<Key<'a>> {
    let Some(key) = key else {
        return Ok(Key::None);
    };
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(Key::Text(text.to_cow()?));
    }
    if key.is_instance_of::<PyInt>() && !key.is_instance_of::<PyBool>() {
        if let Ok(number) = key.extract::<i64>() {
            return Ok(Key::Int(number));
        }
    }
    Err(HistoryError::new_err(format!(
        "{} is {}, expected an int of 64 bits, a str or None",
        what(),
        key.repr()?
    )))
}
