//! Reads rows from a Python list of operations.

use std::borrow::Cow;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyMapping, PySequence, PyString, PyTuple};
use rustc_hash::FxHashMap;

use super::operation::Operation;
use super::HistoryError;
use crate::clock::Clock;
use crate::datum::Datum;
use crate::order::Timing;
use crate::partition::Partition;
use crate::process::Names;
use crate::rows::{prefetch, Field, Rows};

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

/// A row, in a cache line of its own: the rows of one object lie apart.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Row {
    process: i64,
    call: i64,
    ret: i64,
    value: Cell,
    output: Cell,
    /// Index of the operation's name in `names`.
    f: u32,
}

/// A history copied from Python objects.
#[derive(Default)]
pub struct ListRows {
    clock: Clock,
    rows: Vec<Row>,
    names: Vec<String>,
    text: String,
    ints: Vec<i64>,
    cells: Vec<Cell>,
    processes: Names,
}

impl Rows for ListRows {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn timing(&self, row: usize) -> Timing {
        let Row {
            process, call, ret, ..
        } = self.rows[row];
        Timing {
            row,
            process,
            call,
            ret,
        }
    }

    fn f(&self, row: usize) -> &str {
        &self.names[self.rows[row].f as usize]
    }

    fn datum(&self, row: usize, field: Field) -> Datum<'_> {
        match field {
            Field::Value => self.read_cell(self.rows[row].value),
            Field::Output => self.read_cell(self.rows[row].output),
            Field::Expected => Datum::Null,
        }
    }

    fn prefetch(&self, row: usize) {
        prefetch((&raw const self.rows[row]).cast());
    }

    fn prefetch_texts(&self, row: usize) {
        for cell in [self.rows[row].value, self.rows[row].output] {
            if let Cell::Text(from, _) = cell {
                prefetch(self.text.as_ptr().wrapping_add(from));
            }
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
}

impl Grouping {
    /// Adds the next row to the group of its key.
    pub fn push(&mut self, key: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
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
            rows: Vec::with_capacity(rows),
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
        for (row, item) in list.iter().enumerate() {
            let operation = as_operation(row, item)?;
            let operation = operation.get();
            if clock == Clock::Ints && operation.times().any(|time| time.number(clock).is_none()) {
                return Ok(None);
            }
            rows.push(list.py(), row, operation)?;
            let key = operation.key.as_ref().map(|k| k.bind(list.py()));
            grouping.push(key)?;
        }
        Ok(Some((rows, grouping.keyed())))
    }

    fn push(&mut self, py: Python<'_>, row: usize, operation: &Operation) -> PyResult<()> {
        let process = operation.process.number(&mut self.processes);
        let timing = operation.timing(row, process, self.clock)?;
        // There are few names.
        let known = self.names.iter().position(|name| *name == operation.f);
        let f = known.unwrap_or_else(|| {
            self.names.push(operation.f.clone());
            self.names.len() - 1
        }) as u32;
        let value = operation.value.as_ref().map(|v| v.bind(py));
        let value = self.cell(row, "value", value)?;
        let output = operation.output.as_ref().map(|v| v.bind(py));
        let output = self.cell(row, "output", output)?;
        self.rows.push(Row {
            process,
            call: timing.call,
            ret: timing.ret,
            value,
            output,
            f,
        });
        Ok(())
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
            // Its pairs, in their order.
            return self.list(row, field, dict.len(), dict.items().iter());
        }
        Err(HistoryError::new_err(format!(
            "row {row}: {field} is {}, expected an int of 64 bits, a str, a bool, None or a list of these",
            given.repr()?
        )))
    }

    fn list<'py>(
        &mut self,
        row: usize,
        field: &str,
        count: usize,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<Cell> {
        if field.matches("an item of ").count() == NESTED_MAX {
            return Err(HistoryError::new_err(format!(
                "row {row}: {field} is a list, expected lists of at most {NESTED_MAX} within each other"
            )));
        }
        let from = self.ints.len();
        self.ints.reserve(count);
        let mut items = items;
        let mut other = None;
        for item in items.by_ref() {
            // To Python, bools are ints.
            match item.extract::<i64>() {
                Ok(value) if !item.is_instance_of::<PyBool>() => self.ints.push(value),
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

/// Returns the operation of a row. The error for a mapping says how to make an operation of it.
pub fn as_operation<'py>(row: usize, item: Bound<'py, PyAny>) -> PyResult<Bound<'py, Operation>> {
    item.cast_into::<Operation>().map_err(|error| {
        let item = error.into_inner();
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
