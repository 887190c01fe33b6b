//! The statements that a simulated server understands; everything else is error 62.
//!
//! It knows what the harness' own workloads and clusters say, and not more.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use rustc_hash::FxHashMap;

use crate::errors::ServerError;
use crate::table::parts::{Row, Value};
use crate::table::schema::Schema;
use crate::table::selection::Selection;

/// A statement, and its words.
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
    /// SYSTEM STOP or START FETCHES.
    Fetches {
        stopped: bool,
        table: Option<Rc<str>>,
    },
    /// Of the rows of each part.
    Hashes {
        table: Rc<str>,
    },
    MutationsUndone {
        database: Rc<str>,
    },
    MutationsToDo {
        database: Rc<str>,
    },
    /// INSERT … VALUES: the rows come beside it.
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
    /// SELECT of a number.
    Number(i64),
}

/// SELECT `what` FROM `table` WHERE `condition`.
pub struct Select {
    pub what: Rc<str>,
    pub table: Rc<str>,
    /// Empty where there is none.
    pub condition: Rc<str>,
    /// GROUP BY the first column; of the other any value will do.
    pub groups: bool,
    /// As it was prepared last.
    prepared: RefCell<Option<Rc<Selection>>>,
}

impl Select {
    fn statement(words: &Words<'_>, what: Rc<str>, groups: bool) -> Statement {
        let condition = words.word("condition");
        if let Some(table) = words.get("table").strip_prefix("system.") {
            let table = table.into();
            return Statement::System {
                what,
                table,
                condition,
            };
        }
        Statement::Select(Rc::new(Select {
            what,
            table: words.word("table"),
            condition,
            groups,
            prepared: RefCell::default(),
        }))
    }

    /// What it takes of tables of that schema.
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

/// What a CREATE TABLE says.
pub struct Creation {
    pub table: Rc<str>,
    /// In ZooKeeper.
    pub path: Rc<str>,
    pub schema: Rc<Schema>,
    /// Those that are numbers.
    pub settings: Vec<(Rc<str>, i64)>,
}

/// What an INSERT … SELECT makes of the number of a row.
pub enum Column {
    Constant(i64),
    /// With a salt.
    Hash(Rc<str>),
}

/// A statement's text, and what it says, once somebody has asked.
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

    /// Error 62 where it is none.
    pub fn statement(&self) -> Result<&Statement, ServerError> {
        let parsed = self.parsed.get_or_init(|| parsed(&self.text));
        parsed.as_ref().map_err(ServerError::clone)
    }
}

/// Queries by their text, as far as they are remembered.
#[derive(Default)]
pub struct Queries(RefCell<FxHashMap<Rc<str>, Rc<Query>>>);

impl Queries {
    const MOST: usize = 1024;

    pub fn of(&self, text: &str) -> Rc<Query> {
        let mut known = self.0.borrow_mut();
        if let Some(query) = known.get(text) {
            return query.clone();
        }
        if known.len() == Queries::MOST {
            known.clear();
        }
        let query = Rc::new(Query::new(text));
        known.insert(query.text.clone(), query.clone());
        query
    }
}

/// Error 62: no statement that is simulated.
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
    for (form, statement) in FORMS.iter() {
        if let Some(found) = form.captures(&flat) {
            if let Some(statement) = statement(&Words(found))? {
                return Ok(statement);
            }
        }
    }
    Err(unknown(&flat.chars().take(200).collect::<String>()))
}

/// What a form found, by name.
struct Words<'a>(Captures<'a>);

impl Words<'_> {
    fn get(&self, name: &str) -> &str {
        self.0.name(name).map_or("", |word| word.as_str())
    }

    fn word(&self, name: &str) -> Rc<str> {
        self.get(name).into()
    }

    /// Of what may be left out.
    fn maybe(&self, name: &str) -> Option<Rc<str>> {
        self.0.name(name).map(|word| word.as_str().into())
    }
}

/// None: the words do not fit together.
type Reader = fn(&Words<'_>) -> Result<Option<Statement>, ServerError>;

static FORMS: LazyLock<Vec<(Regex, Reader)>> = LazyLock::new(|| {
    let form = |(form, reader): &(&str, Reader)| {
        // Names are ASCII: words of every language take several times as long to compile.
        let form = form.replace(r"\w", "[0-9A-Za-z_]").replace(r"\d", "[0-9]");
        let whole = Regex::new(&format!(r"(?is)^{form} ?;? ?$"));
        (whole.expect("a form is an expression"), *reader)
    };
    READERS.iter().map(form).collect()
});

const READERS: &[(&str, Reader)] = &[
    (r"CREATE DATABASE (IF NOT EXISTS )?\w+", |_| {
        Ok(Some(Statement::CreateDatabase))
    }),
    (r"DROP DATABASE (IF EXISTS )?(?P<database>\w+)", |words| {
        let database = words.word("database");
        Ok(Some(Statement::DropDatabase { database }))
    }),
    (r"DROP TABLE (IF EXISTS )?(?P<table>[\w.]+)", |words| {
        let table = words.word("table");
        Ok(Some(Statement::DropTable { table }))
    }),
    (
        concat!(
            r"CREATE TABLE (IF NOT EXISTS )?(?P<table>[\w.]+) \((?P<columns>.+?)\) ENGINE = ",
            r"ReplicatedMergeTree\('(?P<path>[^']+)', '(?P<replica>[^']+)'\) ",
            r"PARTITION BY (?P<partition>\w+(\(\))?) ORDER BY (?P<order>\(?[\w, ]+?\)?)",
            r"( SETTINGS (?P<settings>.+))?",
        ),
        |words| {
            let creation = Creation {
                table: words.word("table"),
                path: words.word("path"),
                schema: Rc::new(schema_of(words)),
                settings: settings_of(words.get("settings")),
            };
            Ok(Some(Statement::CreateTable(creation)))
        },
    ),
    (
        r"OPTIMIZE TABLE (?P<table>[\w.]+)( PARTITION (?P<partition>\w+))?(?P<final> FINAL)?",
        |words| {
            Ok(Some(Statement::Optimize {
                table: words.word("table"),
                partition: words.maybe("partition"),
                is_final: words.maybe("final").is_some(),
            }))
        },
    ),
    (
        r"ALTER TABLE (?P<table>[\w.]+) (?P<change>(UPDATE|DELETE) .+)",
        |words| {
            Ok(Some(Statement::Mutate {
                table: words.word("table"),
                change: words.word("change"),
            }))
        },
    ),
    (
        r"SYSTEM (?P<verb>STOP|START) FETCHES( (?P<table>[\w.]+))?",
        |words| {
            Ok(Some(Statement::Fetches {
                stopped: words.get("verb").eq_ignore_ascii_case("STOP"),
                table: words.maybe("table"),
            }))
        },
    ),
    (
        concat!(
            r"SELECT _part, count\(\), sum\(cityHash64\([\w, ]+\)\) FROM (?P<table>[\w.]+) ",
            r"GROUP BY _part",
        ),
        |words| {
            let table = words.word("table");
            Ok(Some(Statement::Hashes { table }))
        },
    ),
    (
        concat!(
            r"SELECT mutation_id, max\(parts_to_do\) FROM system\.mutations WHERE NOT is_done AND ",
            r"database = '(?P<database>\w+)' GROUP BY mutation_id",
        ),
        |words| {
            let database = words.word("database");
            Ok(Some(Statement::MutationsUndone { database }))
        },
    ),
    (
        concat!(
            r"SELECT uniq\(mutation_id\) FROM \(SELECT .+? FROM system\.mutations ARRAY JOIN .+? ",
            r"WHERE database = '(?P<database>\w+)'\) AS \w+ ALL INNER JOIN .+ WHERE data_version < n",
        ),
        |words| {
            let database = words.word("database");
            Ok(Some(Statement::MutationsToDo { database }))
        },
    ),
    (
        r"INSERT INTO (?P<table>[\w.]+) SELECT (?P<what>.+) FROM numbers\((?P<count>\d+)\)",
        |words| {
            let columns = listed(words.get("what")).into_iter().map(column);
            Ok(Some(Statement::Insert {
                table: words.word("table"),
                columns: columns.collect::<Result<_, _>>()?,
                count: words.get("count").parse().expect("digits"),
            }))
        },
    ),
    (
        concat!(
            r"SELECT (?P<what>\w+), count\(\), any\((?P<any>\w+)\) FROM (?P<table>[\w.]+) ",
            r"WHERE (?P<condition>.+) GROUP BY (?P<by>\w+) ORDER BY (?P<order>\w+)",
        ),
        |words| {
            let what = words.get("what");
            let same = |name| words.get(name).eq_ignore_ascii_case(what);
            if !same("by") || !same("order") {
                return Ok(None);
            }
            let what = format!("{what}, {}", words.get("any")).into();
            Ok(Some(Select::statement(words, what, true)))
        },
    ),
    (
        concat!(
            r"SELECT (?P<what>.+?) FROM (?P<table>[\w.]+)( WHERE (?P<condition>.+?))?",
            r"( ORDER BY (?P<order>[\w, ]+))?( LIMIT \d+)?",
        ),
        |words| Ok(Some(Select::statement(words, words.word("what"), false))),
    ),
    (r"SELECT (?P<what>\d+)", |words| {
        let number = words.get("what").parse().expect("digits");
        Ok(Some(Statement::Number(number)))
    }),
];

/// The text between commas, but for those in brackets.
fn listed(text: &str) -> Vec<&str> {
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

fn schema_of(words: &Words<'_>) -> Schema {
    let columns = listed(words.get("columns")).into_iter();
    let name = |column: &str| column.split_whitespace().next().expect("a name").into();
    let partition = words.get("partition");
    let order = words.get("order").trim_matches(['(', ')']);
    Schema {
        columns: columns.map(name).collect(),
        partition_by: (partition != "tuple()").then(|| partition.into()),
        order_by: order
            .split(',')
            .map(|column| column.trim().into())
            .collect(),
    }
}

fn settings_of(text: &str) -> Vec<(Rc<str>, i64)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let number =
        |(name, value): (&str, &str)| Some((name.trim().into(), value.trim().parse().ok()?));
    pairs.filter_map(number).collect()
}

fn column(text: &str) -> Result<Column, ServerError> {
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

/// Of an INSERT … SELECT … FROM numbers(…).
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
