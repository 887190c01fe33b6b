//! Makes the HTML file that shows a history: its intervals, their time, and the page around them.

use std::collections::BTreeSet;
use std::path::Path;

use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyTuple};

use super::moment::Moment;
use super::process::Process;

const PAGE: &str = include_str!("page/page.html");
const STYLES: [&str; 2] = [
    include_str!("../../python/pyporcupine/timeline/timeline.css"),
    include_str!("page/style.css"),
];
const SCRIPTS: [&str; 8] = [
    include_str!("../../python/pyporcupine/timeline/axis.js"),
    include_str!("../../python/pyporcupine/timeline/bands.js"),
    include_str!("../../python/pyporcupine/timeline/gestures.js"),
    include_str!("page/history.js"),
    include_str!("page/draw.js"),
    include_str!("page/notes.js"),
    include_str!("page/cycle.js"),
    include_str!("page/controls.js"),
];
/// Maximum number of characters of an operation's text.
const LABEL_MAX: usize = 2000;
/// Integers up to this are exact in JavaScript.
const EXACT_MAX: i64 = 1 << 53;

/// An interval of a client.
pub struct Bar<'a> {
    pub client: &'a Process,
    pub call: Moment,
    pub ret: Option<Moment>,
}

/// Begins the data of a page. `consistency` is what was asked, `noun` what its intervals are.
pub fn begin<'py>(
    py: Python<'py>,
    title: &str,
    consistency: &str,
    unit: Option<&str>,
    noun: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let data = PyDict::new(py);
    data.set_item("title", title)?;
    data.set_item("consistency", consistency)?;
    data.set_item("unit_s", unit.map(seconds_per_unit).transpose()?)?;
    data.set_item("noun", noun)?;
    Ok(data)
}

fn seconds_per_unit(unit: &str) -> PyResult<f64> {
    match unit {
        "ns" => Ok(1e-9),
        "us" => Ok(1e-6),
        "ms" => Ok(1e-3),
        "s" => Ok(1.0),
        _ => Err(PyValueError::new_err(format!(
            "unit is {unit:?}, expected \"ns\", \"us\", \"ms\", \"s\", or None (no unit of time)"
        ))),
    }
}

/// The time that counts as 0 in a page.
#[derive(Clone, Copy)]
pub struct Origin(Moment);

impl Origin {
    /// Chooses 0, or the first time if the page could not tell the times apart, or show them in few
    /// digits.
    fn new(times: impl Iterator<Item = Moment> + Clone) -> Self {
        let ints = times.clone().map(|time| match time {
            Moment::Int(time) => Some(time),
            Moment::Float(_) => None,
        });
        if let Some(ints) = ints.collect::<Option<Vec<i64>>>() {
            let far = ints
                .iter()
                .any(|time| time.unsigned_abs() > EXACT_MAX as u64);
            let least = ints.into_iter().min().filter(|_| far);
            return Self(Moment::Int(least.unwrap_or(0)));
        }
        let floats = times.map(Moment::as_float);
        let (least, most) = floats.fold((f64::INFINITY, 0.0_f64), |(least, most), time| {
            (least.min(time), most.max(time))
        });
        // Differences are exact if the greater number is at most twice the other (Sterbenz).
        let exact = least > 0.0 && most <= 2.0 * least;
        Self(Moment::Float(if exact { least } else { 0.0 }))
    }

    /// Returns a time as the page has it.
    pub fn since(self, time: Moment) -> Moment {
        match (self.0, time) {
            (Moment::Int(origin), Moment::Int(time)) => Moment::Int(time.saturating_sub(origin)),
            (origin, time) => Moment::Float(time.as_float() - origin.as_float()),
        }
    }
}

/// Adds the intervals as columns, and returns the clients in their order and the page's origin.
pub fn add_bars(data: &Bound<'_, PyDict>, bars: &[Bar]) -> PyResult<(Vec<Process>, Origin)> {
    let times = bars.iter().flat_map(|bar| [Some(bar.call), bar.ret]);
    let origin = Origin::new(times.flatten());
    let clients: BTreeSet<&Process> = bars.iter().map(|bar| bar.client).collect();
    let clients: Vec<&Process> = clients.into_iter().collect();
    let client = |bar: &Bar| clients.binary_search(&bar.client).ok();
    data.set_item("client", bars.iter().map(client).collect::<Vec<_>>())?;
    // As texts, because they may exceed JavaScript's exact range.
    let names: Vec<String> = clients.iter().map(|client| client.to_string()).collect();
    data.set_item("clients", names)?;
    let calls = bars.iter().map(|bar| origin.since(bar.call));
    let rets = bars.iter().map(|bar| bar.ret.map(|ret| origin.since(ret)));
    data.set_item("call", calls.collect::<Vec<_>>())?;
    data.set_item("ret", rets.collect::<Vec<_>>())?;
    Ok((clients.into_iter().cloned().collect(), origin))
}

/// Returns as much of a text as an interval may have.
pub fn cut<'py>(text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    text.get_item(PySlice::new(text.py(), 0, LABEL_MAX as isize, 1))
}

/// Adds spans of time, and writes the page.
pub fn finish(
    data: &Bound<'_, PyDict>,
    bands: Option<&Bound<'_, PyAny>>,
    origin: Origin,
    path: &Path,
) -> PyResult<()> {
    let py = data.py();
    data.set_item("bands", parse_bands(py, bands, origin)?)?;
    let json = py.import("json")?.call_method1("dumps", (data,))?;
    // Within a script, only "<" could end the script.
    let json = json.extract::<String>()?.replace('<', "\\u003c");
    let page = PAGE
        .replacen("/*STYLE*/", &STYLES.concat(), 1)
        .replacen("/*SCRIPT*/", &SCRIPTS.concat(), 1)
        .replacen("/*DATA*/", &json, 1);
    std::fs::write(path, page)
        .map_err(|error| PyOSError::new_err(format!("cannot write {}: {error}", path.display())))
}

/// Parses triples (from, to or None, text) with times on the history's clock.
fn parse_bands<'py>(
    py: Python<'py>,
    bands: Option<&Bound<'py, PyAny>>,
    origin: Origin,
) -> PyResult<Bound<'py, PyList>> {
    let all = PyList::empty(py);
    let Some(bands) = bands else {
        return Ok(all);
    };
    for (at, band) in bands.try_iter()?.enumerate() {
        let band = band?;
        let triple = band.cast::<PyTuple>().ok().and_then(|t| t.extract().ok());
        let Some((from, to, label)) = triple else {
            return Err(PyTypeError::new_err(format!(
                "band {at} is {}, expected (from, to or None, text) with times as in the history",
                band.repr()?
            )));
        };
        let (from, to, label): (Moment, Option<Moment>, String) = (from, to, label);
        let made = PyDict::new(py);
        made.set_item("from", origin.since(from))?;
        made.set_item("to", to.map(|to| origin.since(to)))?;
        made.set_item("label", label)?;
        all.append(made)?;
    }
    Ok(all)
}
