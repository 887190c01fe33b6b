//! Parses the clauses of statements: lists, schemas, settings, and the columns of INSERT … SELECT.

use std::rc::Rc;

use crate::errors::ServerError;
use crate::table::parts::{Row, Value};
use crate::table::references::Storage;
use crate::table::schema::Schema;
use crate::table::ttl::Ttl;

/// A column that INSERT … SELECT computes from the row number.
pub enum Column {
    Constant(i64),
    /// A hash with a salt.
    Hash(Rc<str>),
}

/// Splits the text at commas outside brackets.
pub fn split_list(text: &str) -> Vec<&str> {
    let (mut out, mut from, mut depth) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    out.push(text[from..].trim());
    out
}

/// Parses a TTL of rows, the name of one of these columns; "" is none.
fn ttl_of(text: &str, columns: &[Rc<str>]) -> Result<Option<Ttl>, ServerError> {
    if text.is_empty() {
        return Ok(None);
    }
    let unknown = || ServerError::new(62, format!("Syntax error: TTL {text} is not simulated"));
    let column = columns.iter().position(|known| **known == *text);
    Ok(Some(Ttl {
        column: column.ok_or_else(unknown)?,
    }))
}

/// Returns the schema that the clauses of a CREATE TABLE describe.
pub fn schema_of(
    columns: &str,
    partition: &str,
    order: &str,
    ttl: &str,
) -> Result<Schema, ServerError> {
    let columns = split_list(columns).into_iter();
    let name = |column: &str| column.split_whitespace().next().expect("a name").into();
    let order = order.trim_matches(['(', ')']);
    let columns: Vec<Rc<str>> = columns.map(name).collect();
    Ok(Schema {
        ttl: ttl_of(ttl, &columns)?,
        columns,
        partition_by: (partition != "tuple()").then(|| partition.into()),
        order_by: order
            .split(',')
            .map(|column| column.trim().into())
            .collect(),
    })
}

/// Returns the settings whose values are numbers.
pub fn settings_of(text: &str) -> Vec<(Rc<str>, i64)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let number =
        |(name, value): (&str, &str)| Some((name.trim().into(), value.trim().parse().ok()?));
    pairs.filter_map(number).collect()
}

/// Returns where a table with these settings has its data.
pub fn storage_of(settings: &str) -> Storage {
    let hybrid = settings.contains("storage_policy = 'hybrid'");
    Storage {
        on_store: settings.contains("storage_policy = 's3'") || hybrid,
        hybrid,
        zero_copy: settings.contains("allow_remote_fs_zero_copy_replication = 1"),
    }
}

/// Parses a column of an INSERT … SELECT.
pub fn column(text: &str) -> Result<Column, ServerError> {
    if let Ok(number) = text.parse() {
        return Ok(Column::Constant(number));
    }
    let salt = text
        .strip_prefix("hex(cityHash64(number, ")
        .and_then(|text| text.strip_suffix("))"));
    match salt {
        Some(salt) if !salt.is_empty() && salt.bytes().all(|letter| letter.is_ascii_digit()) => {
            Ok(Column::Hash(salt.into()))
        }
        _ => {
            let text = format!("Syntax error: '{text}' is not simulated");
            Err(ServerError::new(62, text))
        }
    }
}

/// Returns the rows of an INSERT … SELECT … FROM numbers(…).
pub fn rows_of(columns: &[Column], count: i64) -> Vec<Row> {
    let value = |column: &Column, number: i64| match column {
        Column::Constant(constant) => Value::Int(*constant),
        Column::Hash(salt) => {
            let hash = crc32fast::hash(format!("{number} {salt}").as_bytes());
            Value::Text(format!("{hash:016X}").into())
        }
    };
    let row = |number| columns.iter().map(|column| value(column, number)).collect();
    (0..count).map(row).collect()
}
