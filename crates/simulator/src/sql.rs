//! Parses the statements that a simulated server understands. Any other statement is error 62.
//!
//! The server understands only what the harness's own workloads and clusters send.

pub mod clauses;
mod partitions;

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use rustc_hash::FxHashMap;

use crate::errors::ServerError;
use crate::sql::clauses::{column, schema_of, settings_of, split_list, storage_of, Column};
use crate::table::references::Storage;
use crate::table::schema::Schema;
use crate::table::selection::Selection;
use crate::world::{Ns, MS, SECOND};

/// A parsed statement.
pub enum Statement {
    CreateDatabase,
    DropDatabase {
        database: Rc<str>,
    },
    DropTable {
        table: Rc<str>,
    },
    CreateTable(Creation),
    Optimize {
        table: Rc<str>,
        partition: Option<Rc<str>>,
        is_final: bool,
    },
    Mutate {
        table: Rc<str>,
        change: Rc<str>,
    },
    AlterColumn {
        table: Rc<str>,
        column: Rc<str>,
        added: bool,
    },
    Describe {
        table: Rc<str>,
    },
    /// DROP PARTITION or DETACH PARTITION.
    DropPartition {
        table: Rc<str>,
        partition: Rc<str>,
        detach: bool,
    },
    AttachPartition {
        table: Rc<str>,
        partition: Rc<str>,
    },
    MovePartition {
        table: Rc<str>,
        partition: Rc<str>,
        volume: Rc<str>,
    },
    /// MOVE PARTITION TO TABLE.
    MoveToTable {
        table: Rc<str>,
        partition: Rc<str>,
        to: Rc<str>,
    },
    /// REPLACE PARTITION FROM, or ATTACH PARTITION FROM.
    CopyPartition {
        table: Rc<str>,
        partition: Rc<str>,
        from: Rc<str>,
        replaces: bool,
    },
    /// CREATE MATERIALIZED VIEW … TO … AS SELECT `columns` FROM `table`.
    CreateView {
        view: Rc<str>,
        table: Rc<str>,
        to: Rc<str>,
        columns: Rc<str>,
    },
    /// SYSTEM SYNC REPLICA.
    SyncReplica {
        table: Rc<str>,
    },
    /// SYSTEM STOP FETCHES or SYSTEM START FETCHES.
    Fetches {
        stopped: bool,
        table: Option<Rc<str>>,
    },
    /// SYSTEM DROP REPLICA.
    DropReplica {
        replica: Rc<str>,
        table: Rc<str>,
    },
    /// SELECT of a hash of the rows of each part.
    Hashes {
        table: Rc<str>,
    },
    MutationsToDo {
        database: Rc<str>,
    },
    /// INSERT … VALUES; the rows are passed separately.
    Values {
        table: Rc<str>,
    },
    /// INSERT … SELECT … FROM numbers(…).
    Insert {
        table: Rc<str>,
        columns: Vec<Column>,
        count: i64,
    },
    Select(Rc<Select>),
    /// SELECT `what` FROM system.`table` WHERE `condition`.
    System {
        what: Rc<str>,
        table: Rc<str>,
        condition: Rc<str>,
    },
    /// SELECT of a constant number.
    Number(i64),
    /// SELECT of the time, in such units since the run began.
    Now {
        unit_ns: Ns,
    },
}

/// What a SELECT groups by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    Nothing,
    /// The first column; any value of the group will do for the other one.
    First,
    /// The whole row.
    Row,
}

/// SELECT `what` FROM `table` WHERE `condition`.
pub struct Select {
    pub what: Rc<str>,
    pub table: Rc<str>,
    /// Empty if there is no WHERE.
    pub condition: Rc<str>,
    pub grouping: Grouping,
    /// The selection as it was last prepared.
    prepared: RefCell<Option<Rc<Selection>>>,
}

impl Select {
    fn statement(groups: &Groups<'_>, what: Rc<str>, grouping: Grouping) -> Statement {
        let condition = groups.word("condition");
        if let Some(table) = groups.get("table").strip_prefix("system.") {
            let table = table.into();
            return Statement::System {
                what,
                table,
                condition,
            };
        }
        Statement::Select(Rc::new(Select {
            what,
            table: groups.word("table"),
            condition,
            grouping,
            prepared: RefCell::default(),
        }))
    }

    /// Returns what the select reads from tables of this schema.
    pub fn prepared(&self, schema: &Rc<Schema>) -> Rc<Selection> {
        let mut prepared = self.prepared.borrow_mut();
        match &*prepared {
            Some(selection) if selection.is_of(schema) => selection.clone(),
            _ => {
                let selection = Selection::new(schema, &self.what, &self.condition);
                prepared.insert(Rc::new(selection)).clone()
            }
        }
    }
}

/// The content of a CREATE TABLE.
pub struct Creation {
    pub table: Rc<str>,
    /// The table's path in ZooKeeper.
    pub path: Rc<str>,
    pub schema: Rc<Schema>,
    pub storage: Storage,
    /// The settings whose values are numbers.
    pub settings: Vec<(Rc<str>, i64)>,
}

/// The text of a statement, which is parsed on first use.
pub struct Query {
    pub text: Rc<str>,
    parsed: OnceCell<Result<Statement, ServerError>>,
}

impl Query {
    fn new(text: &str) -> Query {
        Query {
            text: text.into(),
            parsed: OnceCell::new(),
        }
    }

    /// Returns the statement, or error 62 if the text is none.
    pub fn statement(&self) -> Result<&Statement, ServerError> {
        let parsed = self.parsed.get_or_init(|| parsed(&self.text));
        parsed.as_ref().map_err(ServerError::clone)
    }
}

/// Caches queries by their text.
#[derive(Default)]
pub struct Queries(RefCell<FxHashMap<Rc<str>, Rc<Query>>>);

impl Queries {
    const CAPACITY: usize = 1024;

    pub fn of(&self, text: &str) -> Rc<Query> {
        let mut known = self.0.borrow_mut();
        if let Some(query) = known.get(text) {
            return query.clone();
        }
        if known.len() == Queries::CAPACITY {
            known.clear();
        }
        let query = Rc::new(Query::new(text));
        known.insert(query.text.clone(), query.clone());
        query
    }
}

/// Returns error 62 for a statement that is not simulated.
pub fn unknown(text: &str) -> ServerError {
    let text = format!("Syntax error: the simulated server does not know: {text}");
    ServerError::new(62, text)
}

fn parsed(text: &str) -> Result<Statement, ServerError> {
    let words: Vec<_> = text.split_whitespace().collect();
    if let [first, _, table, .., last] = words[..] {
        if first.eq_ignore_ascii_case("INSERT") && last.eq_ignore_ascii_case("VALUES") {
            let table = table.into();
            return Ok(Statement::Values { table });
        }
    }
    let flat = words.join(" ");
    for (form, statement) in PATTERNS.iter() {
        if let Some(found) = form.captures(&flat) {
            if let Some(statement) = statement(&Groups(found))? {
                return Ok(statement);
            }
        }
    }
    Err(unknown(&flat.chars().take(200).collect::<String>()))
}

/// The named groups of a matched pattern.
struct Groups<'a>(Captures<'a>);

impl Groups<'_> {
    fn get(&self, name: &str) -> &str {
        self.0.name(name).map_or("", |word| word.as_str())
    }

    fn word(&self, name: &str) -> Rc<str> {
        self.get(name).into()
    }

    /// Returns a group that may be absent.
    fn optional(&self, name: &str) -> Option<Rc<str>> {
        self.0.name(name).map(|word| word.as_str().into())
    }
}

/// Turns the groups into a statement; `None` if they contradict each other.
type Reader = fn(&Groups<'_>) -> Result<Option<Statement>, ServerError>;

static PATTERNS: LazyLock<Vec<(Regex, Reader)>> = LazyLock::new(|| {
    let form = |(form, reader): &(&str, Reader)| {
        // Names are ASCII. Classes for the letters of every language take several times as long to
        // compile.
        let form = form.replace(r"\w", "[0-9A-Za-z_]").replace(r"\d", "[0-9]");
        let whole = Regex::new(&format!(r"(?is)^{form} ?;? ?$"));
        (whole.expect("a form is an expression"), *reader)
    };
    let readers = partitions::READERS.iter().chain(READERS);
    readers.map(form).collect()
});

const READERS: &[(&str, Reader)] = &[
    (r"CREATE DATABASE (IF NOT EXISTS )?\w+", |_| {
        Ok(Some(Statement::CreateDatabase))
    }),
    (
        r"DROP DATABASE (IF EXISTS )?(?P<database>\w+)( SYNC)?",
        |groups| {
            let database = groups.word("database");
            Ok(Some(Statement::DropDatabase { database }))
        },
    ),
    (r"DROP TABLE (IF EXISTS )?(?P<table>[\w.]+)", |groups| {
        let table = groups.word("table");
        Ok(Some(Statement::DropTable { table }))
    }),
    (
        concat!(
            r"CREATE TABLE (IF NOT EXISTS )?(?P<table>[\w.]+) \((?P<columns>.+?)\) ENGINE = ",
            r"ReplicatedMergeTree\('(?P<path>[^']+)', '(?P<replica>[^']+)'\) ",
            r"PARTITION BY (?P<partition>\w+(\(\))?) ORDER BY (?P<order>\(?[\w, ]+?\)?)",
            r"( TTL (?P<ttl>.+?))?( SETTINGS (?P<settings>.+))?",
        ),
        |groups| {
            let creation = Creation {
                table: groups.word("table"),
                path: groups.word("path"),
                schema: Rc::new(schema_of(
                    groups.get("columns"),
                    groups.get("partition"),
                    groups.get("order"),
                    groups.get("ttl"),
                )?),
                storage: storage_of(groups.get("settings")),
                settings: settings_of(groups.get("settings")),
            };
            Ok(Some(Statement::CreateTable(creation)))
        },
    ),
    (
        concat!(
            r"CREATE MATERIALIZED VIEW (?P<view>[\w.]+) TO (?P<to>[\w.]+) AS ",
            r"SELECT (?P<columns>[\w, ]+) FROM (?P<table>[\w.]+)",
        ),
        |groups| {
            Ok(Some(Statement::CreateView {
                view: groups.word("view"),
                table: groups.word("table"),
                to: groups.word("to"),
                columns: groups.word("columns"),
            }))
        },
    ),
    (
        r"OPTIMIZE TABLE (?P<table>[\w.]+)( PARTITION (?P<partition>\w+))?(?P<final> FINAL)?",
        |groups| {
            Ok(Some(Statement::Optimize {
                table: groups.word("table"),
                partition: groups.optional("partition"),
                is_final: groups.optional("final").is_some(),
            }))
        },
    ),
    (
        r"ALTER TABLE (?P<table>[\w.]+) (?P<change>(UPDATE|DELETE) .+)",
        |groups| {
            Ok(Some(Statement::Mutate {
                table: groups.word("table"),
                change: groups.word("change"),
            }))
        },
    ),
    (
        r"ALTER TABLE (?P<table>[\w.]+) (?P<verb>ADD|DROP) COLUMN (?P<column>\w+)( \w+)?",
        |groups| {
            Ok(Some(Statement::AlterColumn {
                table: groups.word("table"),
                column: groups.word("column"),
                added: groups.get("verb").eq_ignore_ascii_case("ADD"),
            }))
        },
    ),
    (
        r"SYSTEM DROP REPLICA '(?P<replica>\w+)' FROM TABLE (?P<table>[\w.]+)",
        |groups| {
            Ok(Some(Statement::DropReplica {
                replica: groups.word("replica"),
                table: groups.word("table"),
            }))
        },
    ),
    (r"DESCRIBE TABLE (?P<table>[\w.]+)", |groups| {
        let table = groups.word("table");
        Ok(Some(Statement::Describe { table }))
    }),
    (r"SYSTEM SYNC REPLICA (?P<table>[\w.]+)", |groups| {
        let table = groups.word("table");
        Ok(Some(Statement::SyncReplica { table }))
    }),
    (
        r"SYSTEM (?P<verb>STOP|START) FETCHES( (?P<table>[\w.]+))?",
        |groups| {
            Ok(Some(Statement::Fetches {
                stopped: groups.get("verb").eq_ignore_ascii_case("STOP"),
                table: groups.optional("table"),
            }))
        },
    ),
    (
        concat!(
            r"SELECT _part, count\(\), sum\(cityHash64\([\w, ]+\)\) FROM (?P<table>[\w.]+) ",
            r"GROUP BY _part",
        ),
        |groups| {
            let table = groups.word("table");
            Ok(Some(Statement::Hashes { table }))
        },
    ),
    (
        concat!(
            r"SELECT uniq\(mutation_id\) FROM \(SELECT .+? FROM system\.mutations ARRAY JOIN .+? ",
            r"WHERE database = '(?P<database>\w+)'\) AS \w+ ALL INNER JOIN .+ WHERE data_version < n",
        ),
        |groups| {
            let database = groups.word("database");
            Ok(Some(Statement::MutationsToDo { database }))
        },
    ),
    (
        r"INSERT INTO (?P<table>[\w.]+) SELECT (?P<what>.+) FROM numbers\((?P<count>\d+)\)",
        |groups| {
            let columns = split_list(groups.get("what")).into_iter().map(column);
            Ok(Some(Statement::Insert {
                table: groups.word("table"),
                columns: columns.collect::<Result<_, _>>()?,
                count: groups.get("count").parse().expect("digits"),
            }))
        },
    ),
    (
        concat!(
            r"SELECT (?P<what>\w+), count\(\), any\((?P<any>\w+)\) FROM (?P<table>[\w.]+) ",
            r"WHERE (?P<condition>.+) GROUP BY (?P<by>\w+) ORDER BY (?P<order>\w+)",
        ),
        |groups| {
            let what = groups.get("what");
            let same = |name| groups.get(name).eq_ignore_ascii_case(what);
            if !same("by") || !same("order") {
                return Ok(None);
            }
            let what = format!("{what}, {}", groups.get("any")).into();
            Ok(Some(Select::statement(groups, what, Grouping::First)))
        },
    ),
    (
        concat!(
            r"SELECT (?P<what>[\w, ]+), count\(\) FROM (?P<table>[\w.]+) ",
            r"WHERE (?P<condition>.+) GROUP BY (?P<by>[\w, ]+) ORDER BY (?P<order>[\w, ]+)",
        ),
        |groups| {
            let what = groups.get("what");
            let same = |name| groups.get(name).eq_ignore_ascii_case(what);
            if !same("by") || !same("order") {
                return Ok(None);
            }
            Ok(Some(Select::statement(groups, what.into(), Grouping::Row)))
        },
    ),
    (
        concat!(
            r"SELECT (?P<what>.+?) FROM (?P<table>[\w.]+)( WHERE (?P<condition>.+?))?",
            r"( ORDER BY (?P<order>[\w, ]+))?( LIMIT \d+)?",
        ),
        |groups| {
            let what = groups.word("what");
            Ok(Some(Select::statement(groups, what, Grouping::Nothing)))
        },
    ),
    (r"SELECT toUnixTimestamp\(now\(\)\)", |_| {
        Ok(Some(Statement::Now { unit_ns: SECOND }))
    }),
    (r"SELECT toUnixTimestamp64Micro\(now64\(6\)\)", |_| {
        Ok(Some(Statement::Now { unit_ns: MS / 1000 }))
    }),
    (r"SELECT (?P<what>\d+)", |groups| {
        let number = groups.get("what").parse().expect("digits");
        Ok(Some(Statement::Number(number)))
    }),
];
