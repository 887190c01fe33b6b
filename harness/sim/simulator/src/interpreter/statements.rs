//! Calls that are one statement, and what their errors mean.

use std::borrow::Cow;
use std::rc::Rc;

use crate::digits::Digits;
use crate::errors::ServerError;
use crate::interpreter::Kind;
use crate::server::Settings;
use crate::table::parts::{Row, Value};
use crate::world::Ns;

/// An INSERT of a key and a value, or a SELECT of a key's values.
pub struct Statement {
    pub is_write: bool,
    /// Without the key of a SELECT.
    pub sql: Rc<str>,
    /// The next of these for the next value.
    pub settings: Vec<Rc<Settings>>,
    pub timeout_ns: Ns,
}

impl Statement {
    /// Whether a call has what it needs.
    pub fn takes(&self, value: Option<i64>, key: Option<i64>) -> bool {
        key.is_some() && (value.is_some() || !self.is_write)
    }

    pub fn settings(&self, value: Option<i64>) -> Rc<Settings> {
        let turn = value.unwrap_or(0).rem_euclid(self.settings.len() as i64);
        self.settings[turn as usize].clone()
    }

    /// What a server is asked.
    pub fn asked(&self, value: Option<i64>, key: Option<i64>) -> (Rc<str>, Option<Vec<Row>>) {
        let key = key.expect("it takes such calls only");
        match value {
            Some(value) if self.is_write => {
                let row: Row = Rc::new([Value::Int(key), Value::Int(value)]);
                (self.sql.clone(), Some(vec![row]))
            }
            _ => ([&self.sql, Digits::of(key).as_str()].concat().into(), None),
        }
    }
}

/// The meaning of an error.
pub struct Outcome {
    pub code: i32,
    pub name: String,
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
    /// The kind of end, and the op's error.
    pub fn of(&self, is_write: bool, error: &ServerError) -> (Kind, String) {
        let (rows, otherwise) = match is_write {
            true => (&self.writes, Kind::Info),
            false => (&self.reads, Kind::Fail),
        };
        let text: &Cow<'static, str> = &error.text;
        let fits = |row: &&Outcome| row.code == error.code && text.contains(&row.text);
        let (kind, name) = match rows.iter().find(fits) {
            Some(row) => (row.kind, row.name.as_str()),
            None => (otherwise, "UNLISTED"),
        };
        (kind, format!("{} {name}: {text}", error.code))
    }
}
