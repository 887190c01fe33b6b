//! Defines what the replicas of a table write to ZooKeeper.

use std::fmt::Write;
use std::rc::Rc;

use crate::table::parts::{rows_repr, Info, Rows};

pub use crate::keeper::data::Data;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    Get,
    /// An ATTACH, of 25.8: a replica with a detached part of the same content may use it.
    Attach,
    Merge,
    Mutate,
    Drop,
    Alter,
    /// A drop that keeps what it removes among the detached parts.
    Detach,
}

impl EntryKind {
    /// Returns the type as system.replication_queue shows it.
    pub fn name(self) -> &'static str {
        match self {
            EntryKind::Get => "GET_PART",
            EntryKind::Attach => "ATTACH_PART",
            EntryKind::Merge => "MERGE_PARTS",
            EntryKind::Mutate => "MUTATE_PART",
            EntryKind::Drop | EntryKind::Detach => "DROP_RANGE",
            EntryKind::Alter => "ALTER_METADATA",
        }
    }

    /// Whether the entry brings rows that no other part has.
    pub fn brings_rows(self) -> bool {
        matches!(self, EntryKind::Get | EntryKind::Attach)
    }

    /// Whether the entry removes the parts of a range.
    pub fn removes_range(self) -> bool {
        matches!(self, EntryKind::Drop | EntryKind::Detach)
    }
}

/// An entry of the log and of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    pub new: Info,
    /// The name of the new part; of a drop, that of a part that would cover whatever it removes.
    pub name: Rc<str>,
    /// The replica that wrote the entry.
    pub source: Rc<str>,
    /// The parts that are merged or mutated.
    pub parts: Vec<Info>,
    pub quorum: usize,
    pub block_id: Rc<str>,
    /// The columns that an ALTER makes.
    pub columns: Option<Rc<Columns>>,
    /// The rows of a part that is attached, which stand for its checksum.
    pub content: Option<Rows>,
}

impl Entry {
    /// Creates an entry for fetching a part that belongs to no insert.
    pub fn get(new: Info) -> Entry {
        Entry {
            kind: EntryKind::Get,
            name: new.name().into(),
            new,
            source: "".into(),
            parts: Vec::new(),
            quorum: 0,
            block_id: "".into(),
            columns: None,
            content: None,
        }
    }

    /// Creates the entry of an ALTER, which makes no part: its range is in no partition.
    pub fn alter(source: Rc<str>, columns: Rc<Columns>) -> Entry {
        Entry {
            kind: EntryKind::Alter,
            name: "".into(),
            source,
            columns: Some(columns.clone()),
            ..Entry::get(Info::block(&"".into(), columns.version))
        }
    }

    /// Returns whether nothing is left of another entry once this one has been executed.
    pub fn covers(&self, other: &Entry) -> bool {
        match other.alter_version() {
            Some(version) => self.alter_version() >= Some(version),
            None => self.new.contains(&other.new),
        }
    }

    /// Returns the version of the columns that an ALTER makes.
    pub fn alter_version(&self) -> Option<i64> {
        self.columns.as_ref().map(|columns| columns.version)
    }
}

/// /quorum/status or a node below /quorum/parallel: an insert whose quorum is pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quorum {
    pub part: Info,
    pub needed: usize,
    pub replicas: Vec<Rc<str>>,
}

/// The columns of a table: their names, and the version of the shared node that has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    pub names: Vec<Rc<str>>,
    pub version: i64,
}

impl Columns {
    /// Returns the list as a node holds it. The types are not simulated.
    pub fn data(&self) -> Data {
        let mut out = format!("columns format version: 1\n{} columns:\n", self.names.len());
        for name in &self.names {
            writeln!(out, "`{name}`").expect("writing to a String cannot fail");
        }
        Data::text(&out)
    }

    /// Parses the content of a node.
    pub fn of(data: &Data, version: i64) -> Columns {
        let names = data.as_text().lines().skip(2);
        Columns {
            names: names.map(|name| name.trim_matches('`').into()).collect(),
            version,
        }
    }
}

/// /mutations/…: an ALTER UPDATE or DELETE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// The mutation changes parts of a lower version.
    pub number: i64,
    pub partition: Rc<str>,
    /// The command.
    pub change: Rc<str>,
    pub made_by: Rc<str>,
}

/// /quorum/last_part: the last part of each partition, in the order in which partitions were added.
pub type LastParts = Vec<(Rc<str>, Info)>;

/// Access by type to what replicas store in nodes. A part's rows stand for its checksums.
pub trait TableData {
    /// Return the entry; panic if the data is something else.
    fn as_entry(&self) -> &Entry;

    /// Return the entry, shared with the node; panic if the data is something else.
    fn shared_entry(&self) -> Rc<Entry>;

    /// Return the pending quorum; panic if the data is something else.
    fn as_quorum(&self) -> &Quorum;

    /// Return the pending quorum, shared with the node; panic if the data is something else.
    fn shared_quorum(&self) -> Rc<Quorum>;

    /// Return the last parts; panic if the data is something else.
    fn as_last(&self) -> &LastParts;

    /// Return the mutation, shared with the node; panic if the data is something else.
    fn shared_mutation(&self) -> Rc<Mutation>;

    /// Return the text that 18.16.1 writes. The texts of rows and of mutations are not meaningful.
    fn serialized(&self) -> String;
}

impl TableData for Data {
    fn as_entry(&self) -> &Entry {
        self.get()
            .unwrap_or_else(|| panic!("{self:?} is not an entry"))
    }

    fn shared_entry(&self) -> Rc<Entry> {
        let entry = self.share();
        entry.unwrap_or_else(|| panic!("{self:?} is not an entry"))
    }

    fn as_quorum(&self) -> &Quorum {
        self.get()
            .unwrap_or_else(|| panic!("{self:?} is not a quorum"))
    }

    fn shared_quorum(&self) -> Rc<Quorum> {
        let quorum = self.share();
        quorum.unwrap_or_else(|| panic!("{self:?} is not a quorum"))
    }

    fn as_last(&self) -> &LastParts {
        let last = self.get();
        last.unwrap_or_else(|| panic!("{self:?} is not a map of last parts"))
    }

    fn shared_mutation(&self) -> Rc<Mutation> {
        let mutation = self.share();
        mutation.unwrap_or_else(|| panic!("{self:?} is not a mutation"))
    }

    fn serialized(&self) -> String {
        match self {
            Data::Text(text) => text.to_string(),
            Data::Number(number) => number.to_string(),
            Data::Payload(_) => serialized_payload(self),
        }
    }
}

fn serialized_payload(data: &Data) -> String {
    if let Some(entry) = data.get() {
        serialized_entry(entry)
    } else if let Some(quorum) = data.get() {
        serialized_quorum(quorum)
    } else if let Some(last) = data.get::<LastParts>() {
        let mut out = format!("version: 2\nparts count: {}\n", last.len());
        for (partition, part) in last {
            writeln!(out, "{partition}\t{}", part.name()).expect("writing to a String cannot fail");
        }
        out
    } else if let Some(mutation) = data.get::<Mutation>() {
        mutation.change.to_string()
    } else if let Some(rows) = data.get::<Rows>() {
        rows_repr(rows, '(', ')')
    } else {
        panic!("{data:?} is not stored by replicas")
    }
}

fn serialized_quorum(quorum: &Quorum) -> String {
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

fn serialized_entry(entry: &Entry) -> String {
    let kind = match entry.kind {
        EntryKind::Get => "get",
        EntryKind::Attach => "attach",
        EntryKind::Merge => "merge",
        EntryKind::Mutate => "mutate",
        EntryKind::Drop => "drop",
        EntryKind::Alter => "alter",
        EntryKind::Detach => "detach",
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
        writeln!(out, "quorum: {}", entry.quorum).expect("writing to a String cannot fail");
    }
    out
}
