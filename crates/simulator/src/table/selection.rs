//! Evaluates a SELECT on a table's rows.

use std::rc::Rc;

use crate::block::Block;
use crate::disk::Content;
use crate::errors::ServerError;
use crate::table::parts::{append_row_repr, Part, Value};
use crate::table::schema::{Conditions, Schema};

const CHECKSUM_DOESNT_MATCH: i32 = 40;

/// A SELECT, prepared for tables of one schema. An unknown column is an error only when it is
/// evaluated.
pub struct Selection {
    schema: Rc<Schema>,
    conditions: Result<Conditions, ServerError>,
    columns: Result<Columns, ServerError>,
    /// Whether the name of each row's part is the last column.
    with_part: bool,
    /// The only partition that may have matching rows; `None` if any may.
    pub partition: Option<Rc<str>>,
}

enum Columns {
    /// The number of rows.
    Count,
    /// Columns by index.
    At(Vec<usize>),
    /// Columns by index, then a hash of the whole row.
    Hashed(Vec<usize>),
}

impl Selection {
    /// Prepares SELECT `what` … WHERE `condition`.
    pub fn new(schema: &Rc<Schema>, what: &str, condition: &str) -> Selection {
        let conditions = schema.conditions(condition);
        let with_part = what.contains("_part");
        let known = conditions.as_ref().ok().filter(|_| !with_part);
        Selection {
            columns: columns(schema, &what.replace(", _part", "")),
            partition: known.and_then(|known| schema.partition_of(known)),
            schema: schema.clone(),
            conditions,
            with_part,
        }
    }

    /// Whether it was prepared for tables of this schema.
    pub fn is_of(&self, schema: &Rc<Schema>) -> bool {
        Rc::ptr_eq(&self.schema, schema)
    }

    /// Returns the result over these parts.
    pub fn of(&self, parts: &[&Rc<Part>]) -> Result<Block, ServerError> {
        let conditions = self.conditions.as_ref().map_err(ServerError::clone)?;
        if self.with_part && parts.is_empty() {
            return Ok(Block::default());
        }
        check(parts)?;
        match self.columns.as_ref().map_err(ServerError::clone)? {
            Columns::Count => Ok(self.counted(conditions, parts)),
            Columns::At(places) => Ok(self.taken(conditions, places, parts)),
            Columns::Hashed(places) => Ok(self.hashed(conditions, places, parts)),
        }
    }

    fn counted(&self, conditions: &Conditions, parts: &[&Rc<Part>]) -> Block {
        let count = |part: &&Rc<Part>| {
            let found = part.rows.iter().filter(|row| conditions.hold(row));
            found.count() as i64
        };
        if self.with_part {
            let row = |part| [Value::Int(count(part)), Value::Text(part.name.clone())];
            return parts.iter().map(row).collect();
        }
        Block::row([Value::Int(parts.iter().map(count).sum())])
    }

    fn hashed(&self, conditions: &Conditions, places: &[usize], parts: &[&Rc<Part>]) -> Block {
        let mut out = Block::new(places.len() + 1);
        let rows = parts.iter().flat_map(|part| part.rows.iter());
        for row in rows.filter(|row| conditions.hold(row)) {
            let mut text = String::new();
            append_row_repr(&mut text, row);
            let hash = Value::Int(crc32fast::hash(text.as_bytes()).into());
            out.push(places.iter().map(|at| row[*at].clone()).chain([hash]));
        }
        out
    }

    fn taken(&self, conditions: &Conditions, places: &[usize], parts: &[&Rc<Part>]) -> Block {
        let width = places.len() + usize::from(self.with_part);
        let rows = parts.iter().map(|part| part.rows.len()).sum();
        let mut out = Block::with_capacity(width, rows);
        for part in parts {
            for row in part.rows.iter() {
                if !conditions.hold(row) {
                    continue;
                }
                out.push(places.iter().map(|at| row[*at].clone()));
                if self.with_part {
                    out.add(Value::Text(part.name.clone()));
                }
            }
        }
        out
    }
}

/// Returns error 40 if the data of some part is damaged.
#[inline]
pub fn check(parts: &[&Rc<Part>]) -> Result<(), ServerError> {
    match parts.iter().find(|part| part.content == Content::BadData) {
        None => Ok(()),
        Some(part) => Err(mismatch(part)),
    }
}

#[cold]
fn mismatch(part: &Part) -> ServerError {
    let text = format!(
        "Checksum doesn't match: corrupted data in part {}",
        part.name
    );
    ServerError::new(CHECKSUM_DOESNT_MATCH, text)
}

fn columns(schema: &Schema, what: &str) -> Result<Columns, ServerError> {
    if what.trim() == "count()" {
        return Ok(Columns::Count);
    }
    if let Some(others) = what.strip_suffix(", cityHash64(*)") {
        return match columns(schema, others)? {
            Columns::At(places) => Ok(Columns::Hashed(places)),
            _ => Err(ServerError::new(62, format!("{what} is not simulated"))),
        };
    }
    let places = what.split(',').map(|column| schema.at(column.trim()));
    Ok(Columns::At(places.collect::<Result<_, _>>()?))
}
