//! Represents histories as rows.

use pyporcupine::datum::Datum;
use pyporcupine::order::Timing;
use pyporcupine::rows::{Field, Rows};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Ints(Vec<i64>),
    /// Whether each is a read, its register, and its value.
    Txn(Vec<(bool, i64, Option<i64>)>),
}

impl Value {
    pub fn datum(&self) -> Datum<'_> {
        match self {
            Value::Null => Datum::Null,
            Value::Bool(flag) => Datum::Bool(*flag),
            Value::Int(value) => Datum::Int(*value),
            Value::Text(text) => Datum::Text(text),
            Value::Ints(values) => Datum::Ints(values),
            Value::Txn(steps) => {
                let step = |&(reads, register, value): &(bool, i64, Option<i64>)| {
                    let f = Datum::Text(if reads { "read" } else { "write" });
                    let value = value.map_or(Datum::Null, Datum::Int);
                    Datum::List(Box::new([f, Datum::Int(register), value]))
                };
                Datum::List(steps.iter().map(step).collect())
            }
        }
    }

    pub fn int(&self) -> i64 {
        match self {
            Value::Int(value) => *value,
            other => panic!("{other:?}"),
        }
    }

    pub fn ints(&self) -> Vec<i64> {
        match self {
            Value::Ints(values) => values.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Row {
    pub at: Timing,
    pub f: &'static str,
    pub value: Value,
    pub output: Value,
    pub expected: Value,
}

pub struct Table(pub Vec<Row>);

impl Rows for Table {
    fn timing(&self, row: usize) -> Timing {
        self.0[row].at
    }
    fn f(&self, row: usize) -> &str {
        self.0[row].f
    }
    fn datum(&self, row: usize, field: Field) -> Datum<'_> {
        match field {
            Field::Value => self.0[row].value.datum(),
            Field::Output => self.0[row].output.datum(),
            Field::Expected => self.0[row].expected.datum(),
        }
    }
}
