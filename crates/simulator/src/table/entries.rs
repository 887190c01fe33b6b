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
    /// Parts of another table, in place of a range or beside what is there.
    Replace,
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
            EntryKind::Replace => "REPLACE_RANGE",
        }
    }

    /// Whether the entry brings rows that no other part has.
    pub fn brings_rows(self) -> bool {
        matches!(
            self,
            EntryKind::Get | EntryKind::Attach | EntryKind::Replace
        )
    }

    /// Whether the entry does nothing but remove the parts of a range.
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
    /// What a REPLACE_RANGE takes from another table.
    pub copies: Option<Rc<Copies>>,
    /// When a merge was chosen, by the clock of its replica (create_time); 0 for other entries.
    pub made_s: i64,
}

/// The parts of another table that a REPLACE_RANGE brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copies {
    /// The table from which they come.
    pub from: Rc<str>,
    /// The range that they replace; `None` for ATTACH FROM and MOVE.
    pub range: Option<Info>,
    pub parts: Vec<Copied>,
}

/// A part of another table, and the one that is made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The name of the part in its own table.
    pub source: Rc<str>,
    pub new: Info,
    /// The rows, which stand for its checksum.
    pub rows: Rows,
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
            copies: None,
            made_s: 0,
        }
    }

    /// Creates a REPLACE_RANGE. Its own Info is in no partition, because it makes any number of
    /// parts.
    pub fn replace(source: Rc<str>, copies: Copies) -> Entry {
        Entry {
            kind: EntryKind::Replace,
            name: "".into(),
            source,
            copies: Some(Rc::new(copies)),
            ..Entry::get(Info::block(&"".into(), 0))
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
            None => other.made().any(|part| self.makes(part)),
        }
    }

    /// Returns the parts that are there once the entry has been executed; of a drop, the one that
    /// would cover whatever it removes.
    pub fn made(&self) -> impl Iterator<Item = &Info> {
        let copied = self.copies.iter().flat_map(|copies| &copies.parts);
        let own = self.copies.is_none().then_some(&self.new);
        own.into_iter().chain(copied.map(|part| &part.new))
    }

    /// Whether the entry makes this part, or one that covers it.
    pub fn makes(&self, part: &Info) -> bool {
        self.made().any(|made| made.contains(part))
    }

    /// Returns the range whose parts the entry removes.
    pub fn range(&self) -> Option<&Info> {
        match &self.copies {
            Some(copies) => copies.range.as_ref(),
            None => self.kind.removes_range().then_some(&self.new),
        }
    }

    /// Whether nothing that the entry does is left once this range has been removed.
    pub fn is_within(&self, range: &Info) -> bool {
        let mut own = self.range().into_iter().chain(self.made()).peekable();
        own.peek().is_some() && own.all(|part| range.contains(part))
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

/// The checksums are left out.
fn serialized_copies(copies: &Copies) -> String {
    let (database, table) = copies.from.split_once('.').expect("a full name");
    let partition = copies.parts.first().map_or("", |part| &part.new.partition);
    let none = || format!("{partition}_0_0_999999999_999999999");
    let range = copies.range.as_ref().map_or_else(none, Info::name);
    let quoted = |names: Vec<String>| format!("[{}]", names.join(","));
    let parts = copies.parts.iter();
    let sources = quoted(
        parts
            .clone()
            .map(|part| format!("'{}'", part.source))
            .collect(),
    );
    let new = quoted(parts.map(|part| format!("'{}'", part.new.name())).collect());
    format!(
        "drop_range_name: {range}\nfrom_database: {database}\nfrom_table: {table}\n\
         source_parts: {sources}\nnew_parts: {new}\npart_checksums: []\ncolumns_version: -1"
    )
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
        EntryKind::Replace => "REPLACE_RANGE",
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
    match &entry.copies {
        None => out += &entry.name,
        Some(copies) => out += &serialized_copies(copies),
    }
    out.push('\n');
    if entry.quorum > 0 {
        writeln!(out, "quorum: {}", entry.quorum).expect("writing to a String cannot fail");
    }
    out
}
