//! Defines calls that are one statement.

use std::cell::RefCell;
use std::rc::Rc;

use histories::digits::Digits;
use histories::journal::Called;
use rustc_hash::FxHashMap;
use simulator::server::Settings;
use simulator::simulation::Simulation;
use simulator::sql::Query;
use simulator::table::parts::{Row, Value};
use simulator::world::Ns;

/// An INSERT of a key and a value, or a SELECT of a key's values.
pub struct Statement {
    /// The f of the calls that use it.
    pub f: Rc<str>,
    pub called: Called,
    pub is_write: bool,
    /// Without the key of a SELECT.
    sql: Rc<str>,
    /// Settings that successive values use in turn.
    settings: Vec<Rc<Settings>>,
    pub timeout_ns: Ns,
    /// By key; all INSERTs share one query.
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

    /// Whether a call has the value and the key that the statement needs.
    pub fn takes(&self, value: Option<i64>, key: Option<i64>) -> bool {
        key.is_some() && (value.is_some() || !self.is_write)
    }

    pub fn settings(&self, value: Option<i64>) -> Rc<Settings> {
        let turn = value.unwrap_or(0).rem_euclid(self.settings.len() as i64);
        self.settings[turn as usize].clone()
    }

    /// Returns the query, and the row of an INSERT.
    pub fn query(
        &self,
        simulation: &Simulation,
        value: Option<i64>,
        key: Option<i64>,
    ) -> (Rc<Query>, Option<Vec<Row>>) {
        let key = key.expect("the statement takes calls with a key");
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
