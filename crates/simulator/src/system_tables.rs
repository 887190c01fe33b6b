//! Answers the few queries of system tables that the harness sends.

use std::rc::Rc;
use std::sync::LazyLock;

use regex::Regex;
use rustc_hash::FxHashMap;

use crate::block::Block;
use crate::bugs::Bug;
use crate::errors::{KeeperError, QueryError, ServerError};
use crate::keeper::paths::{child, number_of};
use crate::keeper::session::{Found, KeeperSession, Reading};
use crate::protocol::Mechanism;
use crate::server::{database_of, Server};
use crate::table::entries::TableData;
use crate::table::parts::{Part, Value};
use crate::table::references::objects;
use crate::table::replica::Table;

/// A row by column name.
type Fields = Vec<(&'static str, Value)>;

static EQUALS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(\w+) = '([^']*)'").expect("an expression"));

static POSITION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"position\(local_path, '([^']*)'\) > 0").expect("an expression"));

/// Queries that match one of several words, and are none of system tables.
static PROCESSES: LazyLock<Regex> = LazyLock::new(|| {
    let form = r"^query NOT LIKE '%system\.%' AND match\(query, '([^']*)'\)$";
    Regex::new(form).expect("an expression")
});

/// Returns rows of system.processes, replicas, tables, parts, mutations, zookeeper or replication_queue; error 62 for
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
        if let Some(list) = condition.strip_prefix("path IN (") {
            return children(server, what, list).await;
        }
        let path = wanted.get("path").copied().unwrap_or("/");
        return zookeeper(server, what, path, wanted.get("name").copied()).await;
    }
    if name == "processes" {
        return Ok(Block::row([count(running_queries(server, condition))]));
    }
    if name == "functions" {
        let here = server
            .host
            .deployment
            .mechanisms
            .has(Mechanism::AtomicDatabases);
        let known = here && wanted.get("name") == Some(&"now64");
        return Ok(Block::row([Value::Int(i64::from(known))]));
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
        "parts" if condition.starts_with("NOT active") => {
            tables.iter().flat_map(|table| old_parts(table)).collect()
        }
        "remote_data_paths" => paths_under(&tables, condition),
        "tables" => {
            tables.retain(|table| is("name", short(table)));
            let uuid = |table: &Rc<Table>| vec![("uuid", Value::text(&uuid_of(table)))];
            let found: Vec<_> = tables.iter().map(uuid).collect();
            return Ok(rows(
                what.trim_start_matches("toString(").trim_end_matches(')'),
                &found,
            )?);
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

/// Returns the number of running queries that the condition's pattern matches.
fn running_queries(server: &Server, condition: &str) -> usize {
    let texts = PROCESSES
        .captures(condition)
        .map(|found| found[1].to_string());
    let texts = texts.unwrap_or_default();
    let is_asked = |text: &str| {
        let mut wanted = texts.split('|');
        !text.contains("system.") && wanted.any(|wanted| text.contains(wanted))
    };
    let running = server.running.borrow();
    let asked = running.iter().filter(|one| is_asked(&one.query.text));
    asked.count()
}

/// Returns where the files are that the tables have in an object store, those in the condition's
/// directory.
fn paths_under(tables: &[Rc<Table>], condition: &str) -> Vec<Fields> {
    let directory = POSITION
        .captures(condition)
        .map(|found| found[1].to_string());
    let directory = directory.unwrap_or_default();
    let mut paths: Vec<_> = tables
        .iter()
        .flat_map(|table| remote_paths(table))
        .collect();
    paths.retain(|(local, _)| local.contains(&directory));
    paths.sort();
    let paths = paths.into_iter().map(|(local, remote)| {
        vec![
            ("local_path", Value::text(&local)),
            ("remote_path", Value::Text(remote)),
        ]
    });
    paths.collect()
}

/// Returns a table's name without its database.
fn short(table: &Table) -> &str {
    table.name.split_once('.').map_or("", |(_, name)| name)
}

fn count(number: usize) -> Value {
    Value::Int(number as i64)
}

/// Whether a replica says that it leads, once ZooKeeper has answered this query in its session: a
/// session that was alive when ZooKeeper answered has not been succeeded by another leader's. The
/// server itself reports a flag, which stays until it looks at its session.
fn claims_to_lead(table: &Table, answered: Option<&Rc<KeeperSession>>) -> bool {
    if table.bugs.has(Bug::StaleLeaderClaim) {
        return table.leader.get();
    }
    answered.is_some_and(|zk| table.leads(zk))
}

async fn replica(table: &Table) -> Result<Fields, KeeperError> {
    let zk = table.zk.borrow().clone().filter(|zk| zk.alive());
    let expired = zk.is_none();
    let (mut active, mut total) = (0, 0);
    let mut log_end = table.queue.pointer.get();
    if let Some(zk) = &zk {
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
    let leads = claims_to_lead(table, zk.as_ref());
    let pointer = table.queue.pointer.get();
    let to_check = table.to_check.borrow().len() + table.missing.len();
    Ok(vec![
        ("database", Value::text(database_of(&table.name))),
        ("table", Value::text(short(table))),
        ("is_leader", Value::Int(leads.into())),
        ("is_readonly", Value::Int(table.readonly.get().into())),
        ("is_session_expired", Value::Int(expired.into())),
        ("queue_size", count(table.queue.entries.borrow().len())),
        ("parts_to_check", count(to_check)),
        ("log_pointer", Value::Int(pointer)),
        ("columns_version", Value::Int(table.columns().version)),
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

/// Returns the parts that are not visible, and what is still to be released.
fn old_parts(table: &Table) -> Vec<Fields> {
    let active = table.active.borrow();
    let old = |part: &Part| active.get(&part.info).is_none();
    let old = table.disk.parts.borrow().some(old);
    let mut names: Vec<_> = old.iter().map(|part| part.name.clone()).collect();
    let references = &table.disk.references;
    let garbage = references.garbage.borrow();
    names.extend(garbage.iter().map(|reference| reference.part.clone()));
    names.extend(references.fetches.borrow().keys().cloned());
    let fields = names
        .into_iter()
        .map(|name| vec![("name", Value::Text(name))]);
    fields.collect()
}

/// Returns the UUID of a table, which differs between replicas.
fn uuid_of(table: &Table) -> String {
    let hash = crc32fast::hash(format!("{} {}", table.me, table.name).as_bytes());
    format!("{hash:08x}-0000-4000-8000-0000{hash:08x}")
}

/// Returns the directory of a table's files.
fn directory(table: &Table) -> String {
    if table.mechanisms.has(Mechanism::AtomicDatabases) {
        let uuid = uuid_of(table);
        return format!("store/{}/{uuid}", &uuid[..3]);
    }
    format!("data/{}", table.name.replace('.', "/"))
}

/// Returns the objects of a table: the path of the local file, and the key.
fn remote_paths(table: &Table) -> Vec<(String, Rc<str>)> {
    let directory = directory(table);
    let references = &table.disk.references;
    let parts = references.parts.borrow();
    let parts = parts.iter().map(|(part, blob)| (part.to_string(), blob));
    let (garbage, pending) = (references.garbage.borrow(), references.pending.borrow());
    let others = garbage.iter().chain(pending.iter());
    let others = others.map(|one| (format!("tmp/{}", one.part), &one.blob));
    let mut out = Vec::new();
    for (part, blob) in parts.chain(others) {
        for (file, key) in objects(blob) {
            out.push((format!("{directory}/{part}/{file}"), key));
        }
    }
    out
}

fn session_of(server: &Server) -> Result<Rc<KeeperSession>, ServerError> {
    let session = server.host.session().filter(|zk| zk.alive());
    session.ok_or_else(|| ServerError::new(999, "Session expired"))
}

/// Returns the children of several nodes, with the path of each; `list` has the paths in quotes.
async fn children(server: &Server, what: &str, list: &str) -> Result<Block, QueryError> {
    let zk = session_of(server)?;
    let mut found = Vec::new();
    for path in list.trim_end_matches(')').split(", ") {
        let path = path.trim_matches('\'');
        for name in zk.children(path).await?.iter() {
            found.push(vec![
                ("path", Value::text(path)),
                ("name", Value::Text(name.clone())),
            ]);
        }
    }
    Ok(rows(what, &found)?)
}

async fn zookeeper(
    server: &Server,
    what: &str,
    path: &str,
    only: Option<&str>,
) -> Result<Block, QueryError> {
    let zk = session_of(server)?;
    if let Some(name) = only.filter(|_| ["version", "toInt64(value)"].contains(&what)) {
        let found = zk.get(child(path, name)).await?;
        let number = found.map(|(data, version)| match what {
            "version" => version,
            _ => data.as_number(),
        });
        let row = number.map(|number| [Value::Int(number)]);
        return Ok(row.into_iter().collect());
    }
    let values = zk.read_one(Reading::values(path), None).await?.values();
    let wanted = |(name, _): &(Rc<str>, _)| only.is_none_or(|only| only == &**name);
    let values = values.into_iter().filter(wanted).collect::<Vec<_>>();
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
                    other => panic!("{other:?} is not a number"),
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
                    Value::List(_) => false,
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
