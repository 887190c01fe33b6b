//! Answers the few queries of system tables that the harness sends.

use std::rc::Rc;
use std::sync::LazyLock;

use regex::Regex;
use rustc_hash::FxHashMap;

use crate::block::Block;
use crate::errors::{KeeperError, QueryError, ServerError};
use crate::keeper::paths::number_of;
use crate::keeper::session::{Found, Reading};
use crate::server::{database_of, Server};
use crate::table::entries::TableData;
use crate::table::parts::{Part, Value};
use crate::table::replica::Table;

/// A row by column name.
type Fields = Vec<(&'static str, Value)>;

static EQUALS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(\w+) = '([^']*)'").expect("an expression"));

/// Returns rows of system.replicas, parts, mutations, zookeeper or replication_queue; error 62 for
/// anything that is not simulated.
pub async fn system_rows(
    server: &Server,
    name: &str,
    what: &str,
    condition: &str,
) -> Result<Block, QueryError> {
    let pairs = EQUALS
        .captures_iter(condition)
        .map(|found| found.extract().1);
    let wanted: FxHashMap<&str, &str> = pairs.map(|[column, value]| (column, value)).collect();
    if name == "zookeeper" {
        let path = wanted.get("path").copied().unwrap_or("/");
        return zookeeper(server, what, path).await;
    }
    let is = |column, value: &str| wanted.get(column).is_none_or(|wanted| *wanted == value);
    let mut tables: Vec<_> = server.tables.borrow().values().cloned().collect();
    tables.retain(|table| is("database", database_of(&table.name)) && is("table", short(table)));
    let found: Vec<Fields> = match name {
        "replicas" => {
            let mut replicas = Vec::new();
            for table in &tables {
                replicas.push(replica(table).await?);
            }
            replicas
        }
        "parts" => {
            let mut parts: Vec<Rc<Part>> = Vec::new();
            for table in &tables {
                parts.extend(table.active.borrow().values().cloned());
            }
            parts.retain(|part| is("partition", &part.info.partition));
            parts.iter().map(|part| fields_of(part)).collect()
        }
        "mutations" => {
            let mut known = Vec::new();
            for table in &tables {
                let mutations = table.mutations.borrow();
                let names = mutations.iter().map(|(name, _)| Value::Text(name.clone()));
                known.extend(names.map(|name| vec![("mutation_id", name)]));
            }
            known
        }
        "replication_queue" => tables.iter().flat_map(|table| queued(table)).collect(),
        _ => {
            let text = format!("Table system.{name} is not simulated");
            return Err(ServerError::new(60, text).into());
        }
    };
    Ok(rows(what, &found)?)
}

/// Returns a table's name without its database.
fn short(table: &Table) -> &str {
    table.name.split_once('.').map_or("", |(_, name)| name)
}

fn count(number: usize) -> Value {
    Value::Int(number as i64)
}

async fn replica(table: &Table) -> Result<Fields, KeeperError> {
    let zk = table.zk.borrow().clone().filter(|zk| zk.alive());
    let expired = zk.is_none();
    let (mut active, mut total) = (0, 0);
    let mut log_end = table.queue.pointer.get();
    if let Some(zk) = zk {
        let replicas = table.paths.replicas.clone();
        let names = zk.children(&*replicas).await?;
        let alive = |name| Reading::exists(table.paths.of(name).is_active.clone());
        let mut readings: Vec<_> = names.iter().map(alive).collect();
        readings.push(Reading::children(table.paths.log.clone()));
        let mut found = zk.read(readings, None).await?;
        let logged = found.pop().and_then(Found::children).unwrap_or_default();
        total = names.len();
        active = found.iter().filter(|alive| !alive.is_nothing()).count();
        log_end = logged.last().map_or(0, |last| number_of(last));
    }
    let pointer = table.queue.pointer.get();
    let to_check = table.to_check.borrow().len() + table.missing.len();
    Ok(vec![
        ("database", Value::text(database_of(&table.name))),
        ("table", Value::text(short(table))),
        ("is_leader", Value::Int(table.leader.get().into())),
        ("is_readonly", Value::Int(table.readonly.get().into())),
        ("is_session_expired", Value::Int(expired.into())),
        ("queue_size", count(table.queue.entries.borrow().len())),
        ("parts_to_check", count(to_check)),
        ("log_pointer", Value::Int(pointer)),
        ("log_max_index", Value::Int(log_end)),
        ("active_replicas", count(active)),
        ("total_replicas", count(total)),
    ])
}

fn fields_of(part: &Part) -> Fields {
    vec![
        ("name", Value::Text(part.name.clone())),
        ("partition", Value::Text(part.info.partition.clone())),
        ("rows", count(part.rows.len())),
        ("level", Value::Int(part.info.level)),
        ("active", Value::Int(1)),
    ]
}

/// Returns the mutations that are not done, with the number of parts that each has yet to change.
pub fn undone(server: &Server, database: &str) -> Block {
    let mut out = Block::new(2);
    for table in server.tables.borrow().values() {
        if database_of(&table.name) != database {
            continue;
        }
        let active = table.active.borrow();
        for (name, mutation) in table.mutations.borrow().iter() {
            let mine = active.infos(&mutation.partition);
            let parts = mine.filter(|info| info.version() < mutation.number).count();
            if parts > 0 {
                out.push([Value::Text(name.clone()), count(parts)]);
            }
        }
    }
    out
}

fn queued(table: &Table) -> Vec<Fields> {
    let entries = table.queue.entries.borrow();
    let fields = entries.values().map(|attempts| {
        vec![
            ("new_part_name", Value::Text(attempts.entry.name.clone())),
            ("type", Value::text(attempts.entry.kind.name())),
            ("required_quorum", count(attempts.entry.quorum)),
            ("num_tries", Value::Int(attempts.tries as i64)),
            ("num_postponed", Value::Int(0)),
            (
                "is_currently_executing",
                Value::Int(attempts.executing.into()),
            ),
            ("last_exception", Value::text(&attempts.failure)),
            ("postpone_reason", Value::text("")),
        ]
    });
    fields.collect()
}

async fn zookeeper(server: &Server, what: &str, path: &str) -> Result<Block, QueryError> {
    let Some(zk) = server.host.session().filter(|zk| zk.alive()) else {
        return Err(ServerError::new(999, "Session expired").into());
    };
    let values = zk.read_one(Reading::values(path), None).await?.values();
    if what == "max(name)" {
        let last = values
            .last()
            .map_or_else(|| "".into(), |(name, _)| name.clone());
        return Ok(Block::row([Value::Text(last)]));
    }
    let named = values.into_iter().map(|(name, data)| {
        let value = Value::Text(data.serialized().into());
        vec![("name", Value::Text(name)), ("value", value)]
    });
    Ok(rows(what, &named.collect::<Vec<_>>())?)
}

fn rows(what: &str, found: &[Fields]) -> Result<Block, ServerError> {
    let columns: Vec<_> = what.split(',').map(str::trim).collect();
    let mut out = Block::new(columns.len());
    if what.contains('(') {
        let totals = columns.iter().map(|column| totalled(column, found));
        out.push(totals.collect::<Result<Vec<_>, _>>()?);
        return Ok(out);
    }
    for fields in found {
        let values = columns.iter().map(|column| value(fields, column).cloned());
        out.push(values.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(out)
}

fn value<'a>(fields: &'a Fields, column: &str) -> Result<&'a Value, ServerError> {
    let found = fields.iter().find(|(name, _)| *name == column);
    found.map(|(_, value)| value).ok_or_else(|| {
        let text = format!("Unknown identifier: {column} is not simulated");
        ServerError::new(47, text)
    })
}

fn totalled(column: &str, found: &[Fields]) -> Result<Value, ServerError> {
    let stripped = column.trim_end_matches(')');
    let (name, inside) = stripped.split_once('(').unwrap_or((stripped, ""));
    match name {
        "count" => Ok(count(found.len())),
        "sum" => {
            let mut sum = 0;
            for fields in found {
                match value(fields, inside)? {
                    Value::Int(number) => sum += number,
                    Value::Text(text) => panic!("{text} is not a number"),
                }
            }
            Ok(Value::Int(sum))
        }
        "countIf" => {
            let (key, wanted) = inside.split_once(" = ").unwrap_or((inside, ""));
            let wanted = wanted.trim_matches('\'');
            let mut equal = 0;
            for fields in found {
                equal += i64::from(match value(fields, key)? {
                    Value::Int(number) => number.to_string() == wanted,
                    Value::Text(text) => &**text == wanted,
                });
            }
            Ok(Value::Int(equal))
        }
        _ => {
            let text = format!("Syntax error: {column} is not simulated");
            Err(ServerError::new(62, text))
        }
    }
}
