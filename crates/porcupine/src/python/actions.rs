//! Turns the operations on one object into actions of a model written in Python.

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::call::{Call, Plain};
use super::operation::Operation;
use crate::order::Timing;
use crate::search::Op;

/// A question to the model.
struct Action {
    call: Py<Call>,
    output: Py<PyAny>,
    /// The first row with this action.
    row: u32,
    /// Numbers of the integers and texts in the value, and of those in the output.
    gives: Vec<u32>,
    needs: Vec<u32>,
}

/// The actions by number. Calls of equal plain values with equal results are one action; others may
/// be.
pub struct Actions(Vec<Action>);

impl Actions {
    /// Returns the operations of one object and their actions. `unknown` is the output of calls
    /// that never returned, `timings` the times of all of the history. O(n).
    pub fn new(
        py: Python<'_>,
        history: &[Py<Operation>],
        timings: &[Timing],
        object: &[u32],
        unknown: &Py<PyAny>,
    ) -> PyResult<(Self, Vec<Op>)> {
        let mut all: Vec<Action> = Vec::new();
        let mut numbers: FxHashMap<_, u32> = FxHashMap::default();
        let mut atoms: FxHashMap<Plain, u32> = FxHashMap::default();
        let mut ops = Vec::with_capacity(object.len());
        for &row in object {
            let operation = history[row as usize].get();
            let plain = |given: &Option<Py<PyAny>>| Plain::new(given.as_ref().map(|g| g.bind(py)));
            let never = operation.ret.is_none();
            let (value, output) = (plain(&operation.value), plain(&operation.output));
            let next = all.len() as u32;
            let output = if never { None } else { Some(output) };
            let number = match (&value, plain(&operation.key), &output) {
                (Some(value), Some(key), None | Some(Some(_))) => {
                    let same = (operation.f.clone(), value.clone(), key, output.clone());
                    *numbers.entry(same).or_insert(next)
                }
                _ => next,
            };
            if number == next {
                let returned = operation.output.as_ref().map(|o| o.clone_ref(py));
                all.push(Action {
                    call: Py::new(py, Call::of(py, operation))?,
                    output: match never {
                        true => unknown.clone_ref(py),
                        false => returned.unwrap_or_else(|| py.None()),
                    },
                    row,
                    gives: atoms_of(value.as_ref(), &mut atoms),
                    needs: atoms_of(output.flatten().as_ref(), &mut atoms),
                });
            }
            ops.push(Op {
                row,
                action: number,
                call: timings[row as usize].call,
                ret: timings[row as usize].ret,
            });
        }
        Ok((Self(all), ops))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the call and the output about which the model is asked.
    pub fn question(&self, action: u32) -> (&Py<Call>, &Py<PyAny>) {
        let action = &self.0[action as usize];
        (&action.call, &action.output)
    }

    pub fn row(&self, action: u32) -> u32 {
        self.0[action as usize].row
    }

    /// Forgets that operations need what none of these provide.
    pub fn suspect(&mut self, part: &[Op]) {
        let given = self.given(part);
        for op in part {
            let needs = &mut self.0[op.action as usize].needs;
            needs.retain(|atom| given.contains(atom));
        }
    }

    fn given(&self, part: &[Op]) -> FxHashSet<u32> {
        let actions = part.iter().map(|op| &self.0[op.action as usize]);
        actions.flat_map(|a| &a.gives).copied().collect()
    }

    /// Drops operations that returned a value which only dropped operations provided, until all
    /// that are left have what they need.
    pub fn close(&self, part: &mut Vec<Op>) {
        loop {
            let given = self.given(part);
            let before = part.len();
            part.retain(|op| {
                let needs = &self.0[op.action as usize].needs;
                needs.iter().all(|atom| given.contains(atom))
            });
            if part.len() == before {
                return;
            }
        }
    }
}

fn atoms_of(plain: Option<&Plain>, numbers: &mut FxHashMap<Plain, u32>) -> Vec<u32> {
    let mut found = Vec::new();
    if let Some(plain) = plain {
        plain.atoms(&mut found);
    }
    let mut number = |atom: &Plain| {
        let next = numbers.len() as u32;
        *numbers.entry(atom.clone()).or_insert(next)
    };
    found.into_iter().map(&mut number).collect()
}
