//! The operations on one object as actions of a model written in Python.

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::call::{Call, Plain};
use super::operation::Operation;
use crate::order::NEVER;
use crate::search::Op;

/// One thing to ask a model.
struct Action {
    call: Py<Call>,
    output: Py<PyAny>,
    /// The first row that asks it.
    row: u32,
    /// Numbers of the ints and texts in the value; of those in the output that some value has.
    gives: Vec<u32>,
    needs: Vec<u32>,
}

/// By number. Calls of the same plain values that returned the same are one; others may be.
pub struct Actions(Vec<Action>);

impl Actions {
    /// The operations of one object, and their actions. `unknown` is the output of what never returned. O(n).
    pub fn new(
        py: Python<'_>,
        history: &[Py<Operation>],
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
                call: operation.call,
                ret: operation.ret.unwrap_or(NEVER),
            });
        }
        let given: FxHashSet<u32> = all.iter().flat_map(|a| &a.gives).copied().collect();
        for action in &mut all {
            action.needs.retain(|atom| given.contains(atom));
        }
        Ok((Self(all), ops))
    }

    /// The call and the output that a model is asked about.
    pub fn asks(&self, action: u32) -> (&Py<Call>, &Py<PyAny>) {
        let action = &self.0[action as usize];
        (&action.call, &action.output)
    }

    pub fn row(&self, action: u32) -> u32 {
        self.0[action as usize].row
    }

    /// Drops what returned something that was given by operations which are all dropped, until all that is
    /// left has what it needs.
    pub fn close(&self, part: &mut Vec<Op>) {
        loop {
            let actions = part.iter().map(|op| &self.0[op.action as usize]);
            let given: FxHashSet<u32> = actions.flat_map(|a| &a.gives).copied().collect();
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
