//! Calls that are one statement, and what their errors mean.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::digits::Digits;
use crate::errors::ServerError;
use crate::interpreter::lines::Called;
use crate::interpreter::Kind;
use crate::server::Settings;
use crate::simulation::Simulation;
use crate::sql::Query;
use crate::table::parts::{Row, Value};
use crate::world::Ns;

/// An INSERT of a key and a value, or a SELECT of a key's values.
pub struct Statement {
    /// What calls it.
    pub f: Rc<str>,
    pub called: Called,
    pub is_write: bool,
    /// Without the key of a SELECT.
    sql: Rc<str>,
    /// The next of these for the next value.
    settings: Vec<Rc<Settings>>,
    pub timeout_ns: Ns,
    /// By key; an INSERT's is the same for all.
    queries: RefCell<FxHashMap<i64, Rc<Query>>>,
}

impl Statement {
    pub fn new(
        f: &str,
        is_write: bool,
        sql: &str,
        settings: Vec<Rc<Settings>>,
        timeout_ns: Ns,
    ) -> Statement {
        Statement {
            f: f.into(),
            called: Called::new(f),
            is_write,
            sql: sql.into(),
            settings,
            timeout_ns,
            queries: RefCell::default(),
        }
    }

    /// Whether a call has what it needs.
    pub fn takes(&self, value: Option<i64>, key: Option<i64>) -> bool {
        key.is_some() && (value.is_some() || !self.is_write)
    }

    pub fn settings(&self, value: Option<i64>) -> Rc<Settings> {
        let turn = value.unwrap_or(0).rem_euclid(self.settings.len() as i64);
        self.settings[turn as usize].clone()
    }

    /// What a server is asked.
    pub fn asked(
        &self,
        simulation: &Simulation,
        value: Option<i64>,
        key: Option<i64>,
    ) -> (Rc<Query>, Option<Vec<Row>>) {
        let key = key.expect("it takes such calls only");
        let row = value
            .filter(|_| self.is_write)
            .map(|value| -> Row { Rc::new([Value::Int(key), Value::Int(value)]) });
        let mut queries = self.queries.borrow_mut();
        let query = match row {
            Some(_) => queries
                .entry(0)
                .or_insert_with(|| simulation.query(&self.sql)),
            None => queries.entry(key).or_insert_with(|| {
                let text = [&self.sql, Digits::of(key).as_str()].concat();
                simulation.query(&text)
            }),
        };
        (query.clone(), row.map(|row| vec![row]))
    }
}

/// The meaning of an error.
pub struct Outcome {
    pub code: i32,
    /// Code and name.
    pub said: String,
    pub kind: Kind,
    /// Only where the message contains this.
    pub text: String,
}

/// By what was asked; the first row that fits decides. See harness/core/outcomes.py.
pub struct Outcomes {
    pub writes: Vec<Outcome>,
    pub reads: Vec<Outcome>,
}

impl Outcomes {
    /// The kind of end, and what comes before the error's text in the op's.
    pub fn of(&self, is_write: bool, error: &ServerError) -> (Kind, Cow<'_, str>) {
        let (rows, otherwise) = match is_write {
            true => (&self.writes, Kind::Info),
            false => (&self.reads, Kind::Fail),
        };
        let fits = |row: &&Outcome| row.code == error.code && error.text.contains(&row.text);
        match rows.iter().find(fits) {
            Some(row) => (row.kind, row.said.as_str().into()),
            None => (otherwise, said(error.code, "UNLISTED").into()),
        }
    }
}

/// As an op's error begins.
pub fn said(code: i32, name: &str) -> String {
    format!("{code} {name}: ")
}
