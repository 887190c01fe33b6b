//! Converts names, requests and results between Python and the servers.

use std::collections::HashMap;
use std::rc::Rc;

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString, PyTuple};
use pyo3::IntoPyObjectExt;

use crate::block::Block;
use crate::keeper::session::{Found, Reading};
use crate::keeper::tree::{Done, Names, Operation};
use crate::network::Node;
use crate::python::requests::SessionResult;
use crate::table::entries::{Data, TableData};
use crate::table::parts::Value;

/// Returns the node of a name; KeyError if there is none.
pub(super) fn found(nodes: &HashMap<String, Node>, name: &str) -> PyResult<Node> {
    let node = nodes.get(name).copied();
    node.ok_or_else(|| PyKeyError::new_err(name.to_string()))
}

/// Returns the nodes of links, which are pairs of source and target.
pub(super) fn linked(
    nodes: &HashMap<String, Node>,
    links: &[(String, String)],
) -> PyResult<Vec<(Node, Node)>> {
    let link =
        |(source, target): &(String, String)| Ok((found(nodes, source)?, found(nodes, target)?));
    links.iter().map(link).collect()
}

/// Returns a tuple for each column; none if there are no rows.
pub(super) fn columns<'py>(py: Python<'py>, block: &Block) -> PyResult<Bound<'py, PyList>> {
    let value = |value: &Value| match value {
        Value::Int(number) => Ok(PyInt::new(py, *number).into_any()),
        Value::Text(text) => Ok(PyString::new(py, text).into_any()),
        Value::List(numbers) => PyList::new(py, numbers.iter()).map(Bound::into_any),
    };
    let column = |at: usize| {
        let values = block.rows().map(|row| value(&row[at]));
        PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
    };
    PyList::new(
        py,
        (0..block.width())
            .map(column)
            .collect::<PyResult<Vec<_>>>()?,
    )
}

pub(super) fn texts<'py>(py: Python<'py>, texts: &[Rc<str>]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, texts.iter().map(|text| &**text))
}

pub(super) fn reading((what, path): (String, String)) -> PyResult<Reading> {
    let path = path.into();
    Ok(match what.as_str() {
        "get" => Reading::Get(path),
        "exists" => Reading::Exists(path),
        "stat" => Reading::Stat(path),
        "children" => Reading::Children(path),
        "count" => Reading::Count(path),
        "listed" => Reading::Listed(path),
        "values" => Reading::Values(path),
        _ => return Err(PyValueError::new_err(what)),
    })
}

pub(super) fn operation(words: &Bound<'_, PyTuple>) -> PyResult<Operation> {
    let kind: String = words.get_item(0)?.extract()?;
    let path = words.get_item(1)?.extract::<String>()?.into();
    let data = || Ok::<_, PyErr>(Data::text(&words.get_item(2)?.extract::<String>()?));
    let version = |at| words.get_item(at)?.extract::<Option<i64>>();
    Ok(match kind.as_str() {
        "create" => Operation::Create {
            path,
            data: data()?,
            ephemeral: words.get_item(3)?.extract()?,
            sequential: words.get_item(4)?.extract()?,
        },
        "remove" => Operation::Remove {
            path,
            version: version(2)?,
        },
        "put" => Operation::Put {
            path,
            data: data()?,
            version: version(3)?,
        },
        "check" => Operation::Check {
            path,
            version: version(2)?,
        },
        "absent" => Operation::Absent { path },
        _ => return Err(PyValueError::new_err(kind)),
    })
}

pub(super) fn said_of(py: Python<'_>, said: SessionResult) -> PyResult<Bound<'_, PyAny>> {
    match said {
        SessionResult::Opened(session) => session.into_bound_py_any(py),
        SessionResult::Synced => ().into_bound_py_any(py),
        SessionResult::Found(found) => {
            let found = found.into_iter().map(|found| found_of(py, found));
            found.collect::<PyResult<Vec<_>>>()?.into_bound_py_any(py)
        }
        SessionResult::Done(done) => {
            let done = done.iter().map(|done| match done {
                Done::Created(path) => (**path).into_bound_py_any(py),
                Done::Put(version) => version.into_bound_py_any(py),
                Done::Other => Ok(py.None().into_bound(py)),
            });
            done.collect::<PyResult<Vec<_>>>()?.into_bound_py_any(py)
        }
    }
}

fn found_of(py: Python<'_>, found: Found) -> PyResult<Bound<'_, PyAny>> {
    match found {
        Found::Nothing => Ok(py.None().into_bound(py)),
        Found::Get(data, version) => (data.serialized(), version).into_bound_py_any(py),
        Found::Exists(version) => version.into_bound_py_any(py),
        Found::Stat {
            data,
            version,
            czxid,
            mzxid,
        } => (data.serialized(), version, czxid, mzxid).into_bound_py_any(py),
        Found::Children(names) => names_of(py, &names).map(Bound::into_any),
        Found::Count(count) => count.into_bound_py_any(py),
        Found::Listed(made, names) => (made, names_of(py, &names)?).into_bound_py_any(py),
        Found::Values(values) => {
            let out = PyDict::new(py);
            for (name, data) in values {
                out.set_item(&*name, data.serialized())?;
            }
            Ok(out.into_any())
        }
    }
}

fn names_of<'py>(py: Python<'py>, names: &Names) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, names.iter().map(|name| &**name))
}
