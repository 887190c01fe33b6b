//! Damages the parts on a disk: what a power cut takes, and bits that flip.

use std::rc::Rc;

use crate::bugs::{Bug, Bugs};
use crate::disk::{Content, Lost};
use crate::table::part_files::FILES;
use crate::table::parts::{rows_repr, Part, Row, Rows, Value};
use crate::table::replica::{Table, TableDisk};
use crate::world::{Ns, SECOND};
use seed::Seed;

/// Age after which a removal is certainly durable.
const REMEMBERED_NS: Ns = 6 * SECOND;

impl TableDisk {
    /// Removes a part, and remembers it for as long as a power cut may undo that.
    pub fn remove(&self, name: &str, now_ns: Ns) {
        if let Some(part) = self.parts.borrow_mut().remove(name) {
            let mut removed = self.removed.borrow_mut();
            while removed
                .front()
                .is_some_and(|(at, _)| now_ns - at > REMEMBERED_NS)
            {
                removed.pop_front();
            }
            removed.push_back((now_ns, part));
        }
    }

    /// Takes what is not durable. With a seed the first changes survive, and of the data any, some
    /// of it in part.
    pub fn lose_power(&self, torn: Option<Seed>, bugs: Bugs, now_ns: Ns, lost: &mut Lost) {
        let changes = self.unjournalled(now_ns);
        let kept = torn.map_or(0, |seed| seed.below(0, changes.len() as u64 + 1) as usize);
        for (_, change) in changes[kept..].iter().rev() {
            match change {
                Change::Removed(part) => {
                    if self.parts.borrow().get(&part.name).is_none() {
                        self.parts.borrow_mut().insert(part.clone());
                    }
                }
                Change::Added(part) => _ = self.parts.borrow_mut().remove(&part.name),
            }
        }
        self.removed.borrow_mut().clear();
        lost.changes += (changes.len() - kept) as u64;
        lost.kept += kept as u64;
        let never = changes[kept..]
            .iter()
            .filter(|(_, one)| matches!(one, Change::Added(_)));
        lost.pages += never.clone().count() as u64 * FILES;
        lost.files += never.count() as u64 * FILES;
        self.lose_data(torn, bugs, now_ns, lost);
    }

    /// Returns the changes of metadata that no journal has, in their order.
    fn unjournalled(&self, now_ns: Ns) -> Vec<(Ns, Change)> {
        let removed = self.removed.borrow();
        let removed = removed
            .iter()
            .map(|(at, part)| (*at, Change::Removed(part.clone())));
        let added = self.parts.borrow().some(|_| true);
        let added = added
            .into_iter()
            .map(|part| (part.made_ns, Change::Added(part)));
        let mut changes: Vec<_> = added.chain(removed).collect();
        changes.retain(|(at, _)| !self.device.keeps_change(*at, now_ns));
        changes.sort_by_key(|(at, _)| *at);
        changes
    }

    /// Damages the parts whose names are durable and whose data is not.
    fn lose_data(&self, torn: Option<Seed>, bugs: Bugs, now_ns: Ns, lost: &mut Lost) {
        let device = &self.device;
        let cached = |part: &Part| !device.keeps(part.written.get(), part.made_ns, now_ns);
        let cached = self.parts.borrow().some(cached);
        for (at, part) in (1..).zip(cached) {
            // Each of its files is of one page, which is lost or survives as a whole.
            let survives = torn.map_or(0, |seed| seed.below(at, 1 << FILES));
            let gone = |file: &(u64, (&str, bool))| survives >> file.0 & 1 == 0;
            let gone: Vec<_> = (0..).zip(NAMES).filter(gone).collect();
            lost.pages += gone.len() as u64;
            lost.files += gone.len() as u64;
            lost.kept += FILES - gone.len() as u64;
            let content = match gone.iter().all(|(_, (_, is_data))| *is_data) {
                _ if gone.is_empty() => continue,
                true => Content::BadData,
                false => Content::BadIndex,
            };
            self.exchange(torn_part(&part, content, bugs));
            device.damage();
        }
    }

    /// Counts the changes and the pages that are not durable.
    pub fn count_cached(&self, now_ns: Ns, count: &mut Lost) {
        let cached = |part: &Part| !self.device.keeps(part.written.get(), part.made_ns, now_ns);
        count.changes += self.unjournalled(now_ns).len() as u64;
        count.pages += self.parts.borrow().some(cached).len() as u64 * FILES;
    }

    fn exchange(&self, part: Rc<Part>) {
        let known = self.parts.borrow_mut().insert(part);
        assert!(known, "a part that is damaged is on the disk");
    }
}

enum Change {
    Removed(Rc<Part>),
    Added(Rc<Part>),
}

/// Returns a part of which some files were lost. With a planted bug nobody looks.
fn torn_part(part: &Part, content: Content, bugs: Bugs) -> Rc<Part> {
    if bugs.has(Bug::TornUnchecked) {
        let rows = part.rows[..part.rows.len() / 2].into();
        return part.with_content(Content::Whole, rows);
    }
    part.with_content(content, part.rows.clone())
}

// --- flipped bits -------------------------------------------------------------------------------

/// A file whose bit can be flipped.
pub struct PartFile {
    table: Rc<TableDisk>,
    part: Rc<Part>,
    name: &'static str,
    pub path: String,
}

/// A bit that was flipped.
pub struct Flip {
    file: PartFile,
    /// The part as it is since.
    damaged: Rc<Part>,
    offset: usize,
    bit: u32,
}

/// The names of a part's files, and whether readers of its data see them.
const NAMES: [(&str, bool); FILES as usize] = [
    ("data.bin", true),
    ("data.mrk2", true),
    ("checksums.txt", false),
    ("columns.txt", false),
    ("count.txt", false),
    ("primary.idx", false),
];

/// Returns the files of every part of a table.
pub fn files(table: &Rc<TableDisk>) -> Vec<PartFile> {
    let parts = table
        .parts
        .borrow()
        .some(|part| part.content == Content::Whole);
    let files = parts.into_iter().flat_map(|part| {
        NAMES.map(|(name, _)| PartFile {
            table: table.clone(),
            path: format!(
                "/data/{}/{}/{name}",
                table.name.replace('.', "/"),
                part.name
            ),
            part: part.clone(),
            name,
        })
    });
    files.collect()
}

impl PartFile {
    /// Returns the file's bytes. Only that they depend on the part matters.
    pub fn bytes(&self) -> Vec<u8> {
        let rows = rows_repr(&self.part.rows, '[', ']');
        match self.name {
            "data.bin" => rows.into_bytes(),
            "count.txt" => self.part.rows.len().to_string().into_bytes(),
            "columns.txt" => self.table.columns.borrow().names.join(",").into_bytes(),
            name => format!("{name}:{:08x}", crc32fast::hash(rows.as_bytes())).into_bytes(),
        }
    }

    /// Returns the name of its table.
    pub fn table(&self) -> &Rc<str> {
        &self.table.name
    }

    /// Flips a bit, and lets the table see it, if its server runs.
    pub fn flip(self, offset: usize, bit: u32, bugs: Bugs, live: Option<&Table>) -> Flip {
        let seen = NAMES.iter().any(|(name, seen)| *name == self.name && *seen);
        let content = if seen {
            Content::BadData
        } else {
            Content::BadIndex
        };
        let damaged = match seen && bugs.has(Bug::FlipUnchecked) {
            true => {
                let rows = with_flipped(&self.part.rows, offset, bit);
                self.part.with_content(Content::Whole, rows)
            }
            false => self.part.with_content(content, self.part.rows.clone()),
        };
        self.table.device.damage();
        replace(&self.table, &damaged, live);
        Flip {
            file: self,
            damaged,
            offset,
            bit,
        }
    }
}

impl Flip {
    /// Returns the name of its table.
    pub fn table(&self) -> &Rc<str> {
        self.file.table()
    }

    /// Whether the file is still there with the flipped bit.
    pub fn is_there(&self) -> bool {
        let parts = self.file.table.parts.borrow();
        let here = parts.get(&self.file.part.name);
        here.is_some_and(|here| Rc::ptr_eq(here, &self.damaged))
    }

    /// Returns the byte as it is read now.
    pub fn read(&self) -> u8 {
        let byte = self.file.bytes()[self.offset];
        if self.is_there() {
            byte ^ 1 << self.bit
        } else {
            byte
        }
    }

    /// Flips the bit back, unless the file is gone.
    pub fn restore(&self, live: Option<&Table>) {
        if self.is_there() {
            let rows = self.file.part.rows.clone();
            let whole = self.damaged.with_content(Content::Whole, rows);
            replace(&self.file.table, &whole, live);
        }
    }
}

/// Replaces a part on the disk and in the memory of its table.
fn replace(disk: &TableDisk, part: &Rc<Part>, live: Option<&Table>) {
    disk.exchange(part.clone());
    if let Some(table) = live {
        table.active.borrow_mut().replace(|info, known| {
            let same = *info == part.info;
            if same { part } else { known }.clone()
        });
        table.replaced.set(table.replaced.get() + 1);
    }
}

/// Returns the rows with a bit of one of their numbers flipped.
fn with_flipped(rows: &Rows, offset: usize, bit: u32) -> Rows {
    let mut rows: Vec<Row> = rows.to_vec();
    let Some(row) = rows.len().checked_sub(1).map(|last| offset.min(last)) else {
        return rows.into();
    };
    let mut values = rows[row].to_vec();
    let numbers = values.iter_mut().rev();
    if let Some(Value::Int(number)) = { numbers }.find(|value| matches!(value, Value::Int(_))) {
        *number ^= 1 << bit;
    }
    rows[row] = values.into();
    rows.into()
}
