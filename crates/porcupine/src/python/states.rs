//! Describes the states that a model in Python takes along an order of operations.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rustc_hash::FxHashMap;

use super::call::Call;
use super::model::{failed, name};
use super::operation::Operation;
use super::picture::cut;

/// Maximum number of possible states that are followed, and of those that a text names.
const FOLLOWED_MAX: usize = 64;
const NAMED_MAX: usize = 4;

/// The states of a model as texts, each once.
pub struct States<'a, 'py> {
    model: &'a Bound<'py, PyAny>,
    history: &'a [Py<Operation>],
    unknown: Bound<'py, PyAny>,
    numbers: FxHashMap<String, u32>,
    pub texts: Vec<String>,
}

/// The states that are possible after the operations of an order, and the numbers of their texts: at
/// the beginning, and after each operation.
#[derive(Clone)]
pub struct Path<'py> {
    sets: Vec<Bound<'py, PyDict>>,
    pub numbers: Vec<u32>,
}

impl<'a, 'py> States<'a, 'py> {
    pub fn new(model: &'a Bound<'py, PyAny>, history: &'a [Py<Operation>]) -> PyResult<Self> {
        let unknown = model.py().import("pyporcupine")?.getattr("UNKNOWN")?;
        Ok(Self {
            model,
            history,
            unknown,
            numbers: FxHashMap::default(),
            texts: Vec::new(),
        })
    }

    /// Returns the path of no operations.
    pub fn initial(&mut self) -> PyResult<Path<'py>> {
        let py = self.model.py();
        let question = format!("{}.init()", name(self.model));
        let state = self.model.call_method0("init");
        let state = state.map_err(|error| failed(py, error, &question))?;
        let set = PyDict::new(py);
        set.set_item(state, true)?;
        Ok(Path {
            numbers: vec![self.number(&set)?],
            sets: vec![set],
        })
    }

    /// Returns the first `keep` operations of a path and then those of some rows. O(rows), each a
    /// step of the model.
    pub fn follow(&mut self, path: &Path<'py>, keep: usize, rows: &[usize]) -> PyResult<Path<'py>> {
        let mut path = Path {
            sets: path.sets[..=keep].to_vec(),
            numbers: path.numbers[..=keep].to_vec(),
        };
        for &row in rows {
            let set = self.after(&path.sets[path.sets.len() - 1], row)?;
            path.numbers.push(self.number(&set)?);
            path.sets.push(set);
        }
        Ok(path)
    }

    fn after(&self, before: &Bound<'py, PyDict>, row: usize) -> PyResult<Bound<'py, PyDict>> {
        let py = self.model.py();
        let operation = self.history[row].get();
        let call = Py::new(py, Call::of(py, operation))?;
        let output = match (&operation.ret, &operation.output) {
            (None, _) => self.unknown.clone(),
            (_, Some(output)) => output.bind(py).clone(),
            (_, None) => py.None().into_bound(py),
        };
        let set = PyDict::new(py);
        for (state, _) in before {
            let found = self.model.call_method1("step", (state, &call, &output));
            let question = || format!("row {row}: {}.step", name(self.model));
            let found = found.map_err(|error| failed(py, error, &question()))?;
            match found.cast_exact::<PyList>() {
                Ok(list) => list
                    .iter()
                    .try_for_each(|state| set.set_item(state, true))?,
                Err(_) if found.is_none() => {}
                Err(_) => set.set_item(found, true)?,
            }
            if set.len() > FOLLOWED_MAX {
                break;
            }
        }
        Ok(set)
    }

    fn number(&mut self, set: &Bound<'py, PyDict>) -> PyResult<u32> {
        let mut texts = Vec::new();
        for (state, _) in set.iter().take(NAMED_MAX) {
            texts.push(self.text(&state)?);
        }
        let more = set.len() - texts.len();
        let mut text = texts.join(" or ");
        if set.len() > FOLLOWED_MAX {
            text = format!("one of more than {FOLLOWED_MAX}");
        } else if more > 0 {
            text += &format!(" or {more} more");
        }
        let next = self.texts.len() as u32;
        let number = *self.numbers.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            next
        });
        Ok(number)
    }

    /// Returns a state as the model describes it, or as Python shows it.
    fn text(&self, state: &Bound<'py, PyAny>) -> PyResult<String> {
        let text = match self.model.getattr_opt("describe_state")? {
            Some(describe) => {
                let question = format!("{}.describe_state({})", name(self.model), state.repr()?);
                let text = describe.call1((state,)).and_then(|text| text.str());
                text.map_err(|error| failed(state.py(), error, &question))?
            }
            None => state.repr()?,
        };
        Ok(cut(text.as_any())?.str()?.to_string_lossy().into_owned())
    }
}
