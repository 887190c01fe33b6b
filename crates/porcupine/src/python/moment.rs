//! Defines times as Python passes them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyFloat;
use pyo3::IntoPyObjectExt;

use super::HistoryError;
use crate::clock::{float, rank, rank_of_int, Clock};

/// A time. In Python: `float`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    Int(i64),
    /// Finite.
    Float(f64),
}

impl Moment {
    /// Returns the time's number on the clock; `None` if it has none.
    #[inline]
    pub fn number(self, clock: Clock) -> Option<i64> {
        match (clock, self) {
            (Clock::Ints, Moment::Int(time)) => Some(time),
            (Clock::Ints, Moment::Float(_)) => None,
            (Clock::Floats, Moment::Int(time)) => rank_of_int(time),
            (Clock::Floats, Moment::Float(time)) => Some(rank(time)),
        }
    }

    /// Returns the time's number on the clock of its history, or the error of its row.
    pub fn number_in_row(self, clock: Clock, row: usize, field: &str) -> PyResult<i64> {
        self.number(clock).ok_or_else(|| {
            HistoryError::new_err(format!(
                "row {row}: {field} is {}, which no float equals, expected a float, as other times \
                 are floats",
                self.text()
            ))
        })
    }

    /// Returns the time of a number on a clock.
    pub fn of_number(number: i64, clock: Clock) -> Self {
        match clock {
            Clock::Ints => Moment::Int(number),
            Clock::Floats => Moment::Float(float(number)),
        }
    }

    pub fn text(self) -> String {
        match self {
            Moment::Int(time) => time.to_string(),
            Moment::Float(time) => format!("{time:?}"),
        }
    }

    pub fn as_float(self) -> f64 {
        match self {
            Moment::Int(time) => time as f64,
            Moment::Float(time) => time,
        }
    }
}

/// Returns the clock of a history: that of floats if one of its times is a float.
pub fn clock_of(mut times: impl Iterator<Item = Moment>) -> Clock {
    match times.any(|time| matches!(time, Moment::Float(_))) {
        true => Clock::Floats,
        false => Clock::Ints,
    }
}

impl<'py> FromPyObject<'_, 'py> for Moment {
    type Error = PyErr;

    fn extract(given: pyo3::Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(float) = given.cast::<PyFloat>() {
            let time = float.extract::<f64>()?;
            if time.is_finite() {
                return Ok(Moment::Float(time));
            }
            return Err(PyValueError::new_err(format!(
                "the time is {time}, expected an int or a finite float"
            )));
        }
        given.extract().map(Moment::Int).map_err(|error: PyErr| {
            let py = given.py();
            match error.is_instance_of::<PyTypeError>(py) {
                true => match given.repr() {
                    Ok(text) => PyTypeError::new_err(format!(
                        "the time is {text}, expected an int or a float"
                    )),
                    Err(error) => error,
                },
                false => error,
            }
        })
    }
}

impl<'py> IntoPyObject<'py> for Moment {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Moment::Int(time) => time.into_bound_py_any(py),
            Moment::Float(time) => time.into_bound_py_any(py),
        }
    }
}
