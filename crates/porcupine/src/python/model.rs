//! Lets the search use a model written in Python.
//!
//! States are Python objects that the model can compare and hash. Each gets a number, so that the
//! search compares states by `==` only once. What a call does to a state is asked once and kept.
//! If few states can be reached, all is asked before the search begins: what the answers show of
//! each call makes the search as fast as that of a built-in model.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PyTuple};
use rustc_hash::FxHashMap;

use super::actions::Actions;
use super::ModelError;
use crate::budget::Limits;
use crate::search::{Model, Op};

/// A Python model with its answers about one object. The GIL is held only during calls.
pub struct PyModel<'a> {
    model: &'a Py<PyAny>,
    pub actions: Actions,
    limits: Limits<'a>,
    /// Set when another object's model failed, after which this verdict is not needed.
    stop: &'a AtomicBool,
    halted: Option<&'static str>,
    /// The exception that the model raised.
    pub error: Option<PyErr>,
    initial: Py<PyAny>,
    states: Vec<Py<PyAny>>,
    numbers: Py<PyDict>,
    /// By state and action: the range of the successors in `after`.
    answers: FxHashMap<(u64, u32), (u32, u32)>,
    after: Vec<u64>,
    bytes: usize,
    /// By action, if few states can be reached: what all answers have in common.
    effects: Option<Vec<Effect>>,
}

/// What an action does to every state.
#[derive(Clone, Copy)]
struct Effect {
    /// It never changes a state.
    pure: bool,
    /// It is possible in every state.
    blind: bool,
    /// It is so, and its state after does not depend on the state before.
    overwrites: bool,
}

/// Maximum number of states of a model that is asked before the search, and of questions for each
/// operation.
const STATES_MAX: usize = 24;
const QUESTIONS_EACH: usize = 4;

/// Memory of an entry of `answers`, and of an entry of `numbers` with its state.
const ANSWER_BYTES: usize = 56;
const STATE_BYTES: usize = 160;

impl<'a> PyModel<'a> {
    /// Asks the model for the initial state.
    pub fn new(
        py: Python<'_>,
        model: &'a Py<PyAny>,
        actions: Actions,
        limits: Limits<'a>,
        stop: &'a AtomicBool,
    ) -> PyResult<Self> {
        let initial = model.bind(py).call_method0("init");
        let question = format!("{}.init()", name(model.bind(py)));
        let initial = initial.map_err(|error| failed(py, error, &question))?;
        if initial.is_none() {
            return Err(ModelError::new_err(format!(
                "{question} returned None, which of step says that a call is impossible; expected \
                 another value as the initial state, such as ()"
            )));
        }
        let mut made = Self {
            model,
            actions,
            limits,
            stop,
            halted: None,
            error: None,
            initial: initial.clone().unbind(),
            states: Vec::new(),
            numbers: PyDict::new(py).unbind(),
            answers: FxHashMap::default(),
            after: Vec::new(),
            bytes: 0,
            effects: None,
        };
        made.number(&initial)
            .map_err(|error| bad_state(py, error, &initial, &question))?;
        Ok(made)
    }

    /// Asks what every action does to every state that can be reached, unless there are many states,
    /// or the model is undecided or fails; the search may never ask that.
    pub fn tabulate(&mut self, py: Python<'_>, actions: usize, ops: usize) -> PyResult<()> {
        let most = QUESTIONS_EACH * ops;
        let mut at = 0;
        while at < self.states.len() {
            if (at + 1) * actions > most.max(STATES_MAX) || self.is_halted() {
                return Ok(());
            }
            for action in 0..actions as u32 {
                let from = self.after.len();
                match self.step_in_python(py, at as u64, action) {
                    Ok(()) if self.after.len() - from < 2 && self.states.len() <= STATES_MAX => {}
                    Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
                    _ => {
                        self.after.truncate(from);
                        return Ok(());
                    }
                }
                let to = self.after.len();
                self.answers
                    .insert((at as u64, action), (from as u32, to as u32));
                self.bytes += ANSWER_BYTES + 8 * (to - from);
            }
            at += 1;
        }
        self.effects = Some(
            (0..actions as u32)
                .map(|action| self.effect(action))
                .collect(),
        );
        Ok(())
    }

    /// Returns what the answers about an action have in common.
    fn effect(&self, action: u32) -> Effect {
        let after = (0..self.states.len() as u64).map(|state| {
            let (from, to) = self.answers[&(state, action)];
            (
                state,
                self.after[from as usize..to as usize].first().copied(),
            )
        });
        let always = after.clone().all(|(_, next)| next.is_some());
        let mut nexts = after.clone().map(|(_, next)| next);
        let first = nexts.next();
        let pure = after
            .clone()
            .all(|(state, next)| next.is_none_or(|next| next == state));
        // The search takes an action that is pure for nothing else.
        Effect {
            pure,
            blind: always && !pure,
            overwrites: always && !pure && nexts.all(|next| Some(next) == first),
        }
    }

    fn has(&self, action: u32, property: impl Fn(Effect) -> bool) -> bool {
        let effects = self.effects.as_ref();
        effects.is_some_and(|effects| effects.get(action as usize).is_some_and(|&e| property(e)))
    }

    /// Returns the state's number. Equal states have the same number.
    fn number(&mut self, state: &Bound<'_, PyAny>) -> PyResult<u64> {
        let numbers = self.numbers.bind(state.py());
        if let Some(number) = numbers.get_item(state)? {
            return number.extract();
        }
        let number = self.states.len() as u64;
        numbers.set_item(state, number)?;
        self.states.push(state.clone().unbind());
        self.bytes += STATE_BYTES + size(state, 2);
        Ok(number)
    }

    /// Returns the range in `after` of the states after the action.
    fn ask(&mut self, state: u64, action: u32) -> (u32, u32) {
        if let Some(&found) = self.answers.get(&(state, action)) {
            return found;
        }
        if self.is_halted() {
            return (0, 0);
        }
        let from = self.after.len() as u32;
        let answers = Python::attach(|py| self.step_in_python(py, state, action));
        if let Err(error) = answers {
            self.fail(error);
            return (0, 0);
        }
        let found = (from, self.after.len() as u32);
        self.answers.insert((state, action), found);
        self.bytes += ANSWER_BYTES + 8 * (found.1 - found.0) as usize;
        found
    }

    fn is_halted(&mut self) -> bool {
        if self.halted.is_none() {
            if self.stop.load(Ordering::Relaxed) {
                self.halted = Some("the model failed on another key");
            } else {
                let full = || self.limits.out_of_memory(self.bytes);
                self.halted = self.limits.out_of_time().or_else(full);
            }
        }
        self.halted.is_some()
    }

    fn step_in_python(&mut self, py: Python<'_>, from: u64, action: u32) -> PyResult<()> {
        let state = self.states[from as usize].clone_ref(py);
        let (call, output) = self.actions.question(action);
        let found = self
            .model
            .bind(py)
            .call_method1("step", (state, call, output));
        let found = found.map_err(|e| failed(py, e, &self.question(py, from, action)))?;
        if found.is_none() {
            return Ok(());
        }
        let states: Vec<Bound<'_, PyAny>> = match found.cast_exact::<PyList>() {
            Ok(list) => list.iter().collect(),
            Err(_) => vec![found],
        };
        for state in states {
            if state.is_none() || state.hasattr("__next__")? {
                return Err(ModelError::new_err(format!(
                    "{} returned {}, expected a state, a list of states, or None (impossible)",
                    self.question(py, from, action),
                    format_value(&state)
                )));
            }
            let number = self
                .number(&state)
                .map_err(|e| bad_state(py, e, &state, &self.question(py, from, action)))?;
            self.after.push(number);
        }
        Ok(())
    }

    /// Describes the question for an error message.
    fn question(&self, py: Python<'_>, state: u64, action: u32) -> String {
        let (call, output) = self.actions.question(action);
        let state = format_value(self.states[state as usize].bind(py));
        let (call, output) = (format_value(call.bind(py)), format_value(output.bind(py)));
        let (row, model) = (self.actions.row(action), name(self.model.bind(py)));
        format!("row {row}: {model}.step({state}, {call}, {output})")
    }

    /// Stores an error and halts the model.
    fn fail(&mut self, error: PyErr) {
        self.error.get_or_insert(error);
        self.halted = Some("the model failed");
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Model for PyModel<'_> {
    fn initial(&mut self) -> u64 {
        Python::attach(|py| {
            let initial = self.initial.clone_ref(py);
            self.number(initial.bind(py)).unwrap_or_else(|error| {
                self.fail(error);
                0
            })
        })
    }

    /// Prefers the state itself if it is among the successors.
    fn step(&mut self, state: u64, action: u32) -> Option<u64> {
        let (from, to) = self.ask(state, action);
        let after = &self.after[from as usize..to as usize];
        let same = after.iter().find(|&&next| next == state);
        same.or(after.first()).copied()
    }

    fn steps(&mut self, state: u64, action: u32, out: &mut Vec<u64>) {
        let (from, to) = self.ask(state, action);
        out.extend_from_slice(&self.after[from as usize..to as usize]);
    }

    fn pure(&self, action: u32) -> bool {
        self.has(action, |effect| effect.pure)
    }

    fn blind(&self, action: u32) -> bool {
        self.has(action, |effect| effect.blind)
    }

    fn overwrites(&self, action: u32) -> bool {
        self.has(action, |effect| effect.overwrites)
    }

    fn finite(&self) -> bool {
        self.effects.is_some()
    }

    fn halted(&self) -> Option<&'static str> {
        self.halted
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn bytes_elsewhere(&self) -> usize {
        self.bytes
    }

    fn renew(&mut self, states: &mut [u64]) {
        let old = std::mem::take(&mut self.states);
        self.answers.clear();
        self.after.clear();
        self.bytes = 0;
        Python::attach(|py| {
            self.numbers = PyDict::new(py).unbind();
            for state in states {
                match self.number(old[*state as usize].bind(py)) {
                    Ok(number) => *state = number,
                    Err(error) => return self.fail(error),
                }
            }
        });
    }

    fn suspect(&mut self, ops: &[Op]) {
        self.actions.suspect(ops);
    }

    fn close(&self, part: &mut Vec<Op>) {
        self.actions.close(part);
    }
}

/// Returns the name of the model's class.
pub fn name(model: &Bound<'_, PyAny>) -> String {
    let name = model.get_type().name();
    name.map_or("model".to_owned(), |name| name.to_string())
}

/// Formats a value for an error message, shortened if it is long.
pub fn format_value(value: &Bound<'_, PyAny>) -> String {
    const MOST: usize = 120;
    let text = value.repr().map(|text| text.to_string_lossy().into_owned());
    let text = text.unwrap_or_else(|_| format!("<{}>", name(value)));
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Wraps the exception that a model raised. An exception that is no `Exception` (Ctrl-C) is passed
/// on unchanged.
pub fn failed(py: Python<'_>, error: PyErr, question: &str) -> PyErr {
    if !error.is_instance_of::<PyException>(py) {
        return error;
    }
    let kind = name(error.value(py));
    let wrapped = ModelError::new_err(format!("{question} raised {kind}: {}", error.value(py)));
    wrapped.set_cause(py, Some(error));
    wrapped
}

/// Returns the error for an object that cannot be used as a state.
fn bad_state(py: Python<'_>, error: PyErr, state: &Bound<'_, PyAny>, question: &str) -> PyErr {
    if !error.is_instance_of::<PyException>(py) {
        return error;
    }
    let hint = match error.is_instance_of::<PyTypeError>(py) {
        true => "; a state must be hashable: a tuple or a frozenset in place of a list or a set",
        false => "",
    };
    let kind = name(error.value(py));
    let wrapped = ModelError::new_err(format!(
        "{question} returned {}, which cannot be told from other states ({kind}: {}){hint}",
        format_value(state),
        error.value(py)
    ));
    wrapped.set_cause(py, Some(error));
    wrapped
}

/// Estimates the memory of an object, looking into tuples and frozen sets.
fn size(object: &Bound<'_, PyAny>, depth: usize) -> usize {
    let own = object.call_method0("__sizeof__");
    let own = own.and_then(|own| own.extract()).unwrap_or(0);
    let held = |items: &mut dyn Iterator<Item = Bound<'_, PyAny>>| {
        items.map(|item| size(&item, depth - 1)).sum::<usize>()
    };
    if depth == 0 {
        own
    } else if let Ok(tuple) = object.cast::<PyTuple>() {
        own + held(&mut tuple.iter())
    } else if let Ok(set) = object.cast::<PyFrozenSet>() {
        own + held(&mut set.iter())
    } else {
        own
    }
}
