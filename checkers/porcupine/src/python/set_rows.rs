//! The rows of a set: add and read.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PySequence, PyTuple};

use super::operation::Operation;
use super::HistoryError;
use crate::order::{Timing, NEVER};
use crate::set::{Add, History};

/// The operations of one set. Errors name the row and the field.
pub fn read(py: Python<'_>, rows: &[(Timing, Bound<'_, Operation>)]) -> PyResult<History> {
    let mut history = History::default();
    let mut values = Vec::new();
    for (at, operation) in rows {
        let operation = operation.get();
        match operation.f.as_str() {
            "add" => {
                let value = operation.value.as_ref().map(|v| v.bind(py));
                let value = int(at.row, "value", value)?;
                history.adds.push(Add { at: *at, value });
            }
            "read" if at.ret == NEVER => {}
            "read" => {
                let output = operation.output.as_ref().map(|v| v.bind(py));
                ints(at.row, output, &mut values)?;
                history.push_read(*at, &values);
            }
            f => {
                return Err(HistoryError::new_err(format!(
                    "row {}: f is {f:?}, expected \"add\" or \"read\"",
                    at.row
                )))
            }
        }
    }
    Ok(history)
}

fn int(row: usize, field: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<i64> {
    let refuse = |text: String| {
        HistoryError::new_err(format!(
            "row {row}: {field} is {text}, expected an int of 64 bits"
        ))
    };
    let given = given.ok_or_else(|| refuse("None".to_owned()))?;
    if given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>() {
        if let Ok(value) = given.extract() {
            return Ok(value);
        }
    }
    Err(refuse(given.repr()?.to_string()))
}

/// Puts the ints of a list or tuple into `values`.
fn ints(row: usize, given: Option<&Bound<'_, PyAny>>, values: &mut Vec<i64>) -> PyResult<()> {
    values.clear();
    let refuse = |text: String| {
        HistoryError::new_err(format!(
            "row {row}: output is {text}, expected a list of ints (ret None: the read never returned)"
        ))
    };
    let given = given.ok_or_else(|| refuse("None".to_owned()))?;
    if let Ok(list) = given.cast::<PyList>() {
        for item in list.iter() {
            values.push(int(row, "a value in output", Some(&item))?);
        }
    } else if let Ok(tuple) = given.cast::<PyTuple>() {
        for item in tuple.iter() {
            values.push(int(row, "a value in output", Some(&item))?);
        }
    } else if let Ok(sequence) = given.cast::<PySequence>() {
        return ints(row, Some(sequence.to_list()?.as_any()), values);
    } else {
        return Err(refuse(given.repr()?.to_string()));
    }
    Ok(())
}
