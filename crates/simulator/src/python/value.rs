//! Values of rows and settings, as Python gives them.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use pyo3::Borrowed;

use crate::table::parts::Value;

/// A value of a row or of a setting. In Python: `int | str | list[int]`.
pub enum Word {
    Int(i64),
    Text(String),
    List(Vec<i64>),
}

impl<'py> FromPyObject<'_, 'py> for Word {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Word> {
        // Ask first, because extracting a number from a text raises an exception, which takes 17
        // us.
        match given.cast::<PyString>() {
            Ok(text) => Ok(Word::Text(text.to_str()?.into())),
            Err(_) => match given.cast::<PyList>() {
                Ok(numbers) => Ok(Word::List(numbers.extract()?)),
                Err(_) => Ok(Word::Int(given.extract()?)),
            },
        }
    }
}

impl From<Word> for Value {
    fn from(word: Word) -> Value {
        match word {
            Word::Int(number) => Value::Int(number),
            Word::Text(text) => Value::Text(text.into()),
            Word::List(numbers) => Value::List(numbers.into()),
        }
    }
}
