//! What replicas of a table write into ZooKeeper.

use std::fmt::Write;
use std::rc::Rc;

use crate::keeper::tree::numbered;
use crate::table::parts::{Info, Rows};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    Get,
    Merge,
    Mutate,
}

impl EntryKind {
    /// As system.replication_queue has it.
    pub fn name(self) -> &'static str {
        match self {
            EntryKind::Get => "GET_PART",
            EntryKind::Merge => "MERGE_PARTS",
            EntryKind::Mutate => "MUTATE_PART",
        }
    }
}

/// Of the log's node with that number.
pub fn log_name(number: i64) -> String {
    numbered("log-", number)
}

/// Of the log and of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    pub new: Info,
    /// Of the new part.
    pub name: Rc<str>,
    /// The replica that wrote it.
    pub source: Rc<str>,
    /// What is merged or mutated.
    pub parts: Vec<Info>,
    pub quorum: usize,
    pub block_id: Rc<str>,
}

impl Entry {
    /// A part that is to be fetched, of no insert.
    pub fn get(new: Info) -> Entry {
        Entry {
            kind: EntryKind::Get,
            name: new.name().into(),
            new,
            source: "".into(),
            parts: Vec::new(),
            quorum: 0,
            block_id: "".into(),
        }
    }
}

/// /quorum/status: the insert that has no quorum yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quorum {
    pub part: Info,
    pub needed: usize,
    pub replicas: Vec<Rc<str>>,
}

/// /mutations/…: an ALTER UPDATE or DELETE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// Parts of a lower version are to be changed.
    pub number: i64,
    pub partition: Rc<str>,
    /// The command.
    pub change: Rc<str>,
    pub made_by: Rc<str>,
}

/// /quorum/last_part: by partition, in the order in which these came.
pub type LastParts = Vec<(Rc<str>, Info)>;

/// What a node of ZooKeeper holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    Text(Rc<str>),
    Number(i64),
    Entry(Rc<Entry>),
    Quorum(Rc<Quorum>),
    Last(Rc<LastParts>),
    Mutation(Rc<Mutation>),
    /// Of a part: they stand for its checksums.
    Rows(Rows),
}

impl Default for Data {
    fn default() -> Data {
        Data::text("")
    }
}

impl Data {
    pub fn text(text: &str) -> Data {
        Data::Text(text.into())
    }

    pub fn as_text(&self) -> &str {
        match self {
            Data::Text(text) => text,
            _ => panic!("{self:?} is no text"),
        }
    }

    pub fn as_number(&self) -> i64 {
        match self {
            Data::Number(number) => *number,
            _ => panic!("{self:?} is no number"),
        }
    }

    pub fn as_entry(&self) -> &Rc<Entry> {
        match self {
            Data::Entry(entry) => entry,
            _ => panic!("{self:?} is no entry"),
        }
    }

    pub fn as_quorum(&self) -> &Rc<Quorum> {
        match self {
            Data::Quorum(quorum) => quorum,
            _ => panic!("{self:?} is no quorum"),
        }
    }

    pub fn as_last(&self) -> &Rc<LastParts> {
        match self {
            Data::Last(last) => last,
            _ => panic!("{self:?} are no last parts"),
        }
    }

    pub fn as_mutation(&self) -> &Rc<Mutation> {
        match self {
            Data::Mutation(mutation) => mutation,
            _ => panic!("{self:?} is no mutation"),
        }
    }

    pub fn as_rows(&self) -> &Rows {
        match self {
            Data::Rows(rows) => rows,
            _ => panic!("{self:?} are no rows"),
        }
    }

    /// As 18.16.1 writes it; of rows and mutations, nothing that means anything.
    pub fn spelled(&self) -> String {
        match self {
            Data::Text(text) => text.to_string(),
            Data::Number(number) => number.to_string(),
            Data::Entry(entry) => spelled_entry(entry),
            Data::Quorum(quorum) => {
                let mut out = format!(
                    "version: 1\npart_name: {}\nrequired_number_of_replicas: {}\n\
                     actual_number_of_replicas: {}\nreplicas:\n",
                    quorum.part.name(),
                    quorum.needed,
                    quorum.replicas.len()
                );
                for replica in &quorum.replicas {
                    out.push_str(replica);
                    out.push('\n');
                }
                out
            }
            Data::Last(last) => {
                let mut out = format!("version: 2\nparts count: {}\n", last.len());
                for (partition, part) in last.iter() {
                    writeln!(out, "{partition}\t{}", part.name()).expect("a string takes it");
                }
                out
            }
            Data::Mutation(mutation) => mutation.change.to_string(),
            Data::Rows(rows) => crate::table::parts::spelled_rows(rows, '(', ')'),
        }
    }
}

fn spelled_entry(entry: &Entry) -> String {
    let kind = match entry.kind {
        EntryKind::Get => "get",
        EntryKind::Merge => "merge",
        EntryKind::Mutate => "mutate",
    };
    let mut out = format!(
        "format version: 4\nsource replica: {}\n{kind}\n",
        entry.source
    );
    for part in &entry.parts {
        out += &part.name();
        out.push('\n');
    }
    if !entry.parts.is_empty() {
        out.push_str("into\n");
    }
    out += &entry.name;
    out.push('\n');
    if entry.quorum > 0 {
        writeln!(out, "quorum: {}", entry.quorum).expect("a string takes it");
    }
    out
}
