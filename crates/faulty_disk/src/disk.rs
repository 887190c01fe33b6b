//! A disk with a cache: what servers see, and what a power cut leaves of it.
//!
//! Metadata is journalled as by ext4 and XFS: an fsync of any file or directory commits every
//! earlier change of metadata, in order, and without one the journal commits after some seconds.
//! Data becomes durable page by page, with an fsync of its file or once it is old enough. A failed
//! fsync leaves its pages clean, as in Linux: no later fsync writes them.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use crate::random::Random;
use crate::tree::{Change, Ino, Kind, Node, Page, Place, Tree, PAGE, ROOT};

/// Age at which the journal commits, and at which a page is written back: ext4's interval of
/// commits, and Linux' dirty_expire_centisecs.
pub const COMMIT_AFTER: Duration = Duration::from_secs(5);
pub const WRITE_BACK_AFTER: Duration = Duration::from_secs(30);
/// Sector, the unit in which a torn page was written.
const SECTOR: usize = 512;
/// Size of the disk.
pub const CAPACITY: u64 = 4 << 30;

pub struct Disk {
    current: Tree,
    durable: Tree,
    journal: Vec<(Instant, Change)>,
    dirty: HashMap<Ino, BTreeMap<u64, Instant>>,
    opens: HashMap<Ino, u32>,
    next: Ino,
    used: u64,
}

/// What a power cut lost.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Lost {
    pub changes: usize,
    pub pages: usize,
    pub files: usize,
    /// Changes and pages that were not synced, and yet survived.
    pub kept: usize,
}

impl Disk {
    pub fn new() -> Disk {
        let tree = Tree::new();
        Disk {
            durable: tree.clone(),
            current: tree,
            journal: Vec::new(),
            dirty: HashMap::new(),
            opens: HashMap::new(),
            next: ROOT + 1,
            used: 0,
        }
    }

    pub fn node(&self, ino: Ino) -> Option<&Node> {
        self.current.nodes.get(&ino)
    }

    pub fn find(&self, parent: Ino, name: &OsStr) -> Option<Ino> {
        self.current.find(parent, name)
    }

    /// Return the node at a path below the root.
    pub fn resolve(&self, path: &str) -> Option<Ino> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts
            .into_iter()
            .try_fold(ROOT, |at, part| self.find(at, OsStr::new(part)))
    }

    /// Return whether a node is at a path or below it.
    pub fn is_below(&self, path: &str, ino: Ino) -> bool {
        let mut left: Vec<Ino> = self.resolve(path).into_iter().collect();
        while let Some(at) = left.pop() {
            if at == ino {
                return true;
            }
            left.extend(
                self.node(at)
                    .and_then(Node::entries)
                    .into_iter()
                    .flat_map(|own| own.values()),
            );
        }
        false
    }

    /// Return the bytes that no file has yet.
    pub fn free(&self) -> u64 {
        CAPACITY.saturating_sub(self.used)
    }

    /// Return how many of the pages that a write would touch do not exist yet.
    pub fn missing_pages(&self, ino: Ino, offset: u64, length: usize) -> usize {
        let Some(content) = self.node(ino).and_then(Node::content) else {
            return 0;
        };
        let end = (offset + length as u64).div_ceil(PAGE as u64);
        (offset / PAGE as u64..end)
            .filter(|n| !content.pages.contains_key(n))
            .count()
    }

    pub fn make(&mut self, at: Place, node: Node) -> Ino {
        let ino = self.next;
        self.next += 1;
        self.change(Change::Make { ino, at, node });
        ino
    }

    /// Execute a change, which is lost unless it is committed before a power cut.
    pub fn change(&mut self, change: Change) {
        if let Change::Resize { ino, size } = &change {
            let before = self.size_of(*ino);
            if let Some(dirty) = self.dirty.get_mut(ino) {
                dirty.split_off(&size.div_ceil(PAGE as u64));
            }
            self.current.apply(&change);
            self.used -= before - self.size_of(*ino);
        } else {
            self.current.apply(&change);
        }
        self.journal.push((Instant::now(), change));
        self.sweep();
    }

    /// Return the bytes of a file's pages.
    fn size_of(&self, ino: Ino) -> u64 {
        let content = self.node(ino).and_then(Node::content);
        content.map_or(0, |content| (content.pages.len() * PAGE) as u64)
    }

    pub fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) {
        self.used += (self.missing_pages(ino, offset, data.len()) * PAGE) as u64;
        let Some(node) = self.current.nodes.get_mut(&ino) else {
            return;
        };
        node.modified = std::time::SystemTime::now();
        let Some(content) = node.content_mut() else {
            return;
        };
        let now = Instant::now();
        let dirty = self.dirty.entry(ino).or_default();
        for number in content.write(offset, data) {
            dirty.entry(number).or_insert(now);
        }
    }

    pub fn open(&mut self, ino: Ino) {
        *self.opens.entry(ino).or_default() += 1;
    }

    pub fn close(&mut self, ino: Ino) {
        let Some(count) = self.opens.get_mut(&ino) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.opens.remove(&ino);
            if self.node(ino).is_some_and(|node| node.links == 0) {
                self.sweep();
            }
        }
    }

    /// Make a file durable, and with it every change of metadata so far.
    pub fn fsync(&mut self, ino: Ino) {
        self.commit();
        let pages = self.dirty.remove(&ino).unwrap_or_default();
        self.write_back(ino, pages.into_keys());
        let size = self
            .node(ino)
            .and_then(Node::content)
            .map(|content| content.size);
        if let (Some(size), Some(node)) = (size, self.durable.nodes.get_mut(&ino)) {
            if let Some(content) = node.content_mut() {
                content.size = size;
            }
        }
    }

    /// Fail an fsync: what was not written stays in the cache, as if it had been.
    pub fn fail_fsync(&mut self, ino: Ino) {
        self.dirty.remove(&ino);
    }

    /// Make everything durable.
    pub fn sync(&mut self) {
        self.commit();
        for ino in self.dirty.keys().copied().collect::<Vec<_>>() {
            self.fsync(ino);
        }
    }

    /// Commit and write back what is old enough, as the kernel does by itself.
    pub fn age(&mut self, now: Instant) {
        let old = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        if self
            .journal
            .first()
            .is_some_and(|(since, _)| old(*since, COMMIT_AFTER))
        {
            self.commit();
        }
        for ino in self.dirty.keys().copied().collect::<Vec<_>>() {
            let dirty = &self.dirty[&ino];
            if dirty.values().all(|since| old(*since, WRITE_BACK_AFTER)) {
                self.fsync(ino);
                continue;
            }
            let aged: Vec<u64> = dirty
                .iter()
                .filter(|(_, since)| old(**since, WRITE_BACK_AFTER))
                .map(|(n, _)| *n)
                .collect();
            if !aged.is_empty() {
                self.commit();
                self.write_back(ino, aged.into_iter());
            }
        }
    }

    /// Return the number of changes and of pages that are not durable.
    pub fn unsynced(&self) -> (usize, usize) {
        (
            self.journal.len(),
            self.dirty.values().map(BTreeMap::len).sum(),
        )
    }

    /// Lose what is not durable. With `torn`, a prefix of the journal survives and any of the pages,
    /// some of them in part.
    pub fn cut_power(&mut self, torn: Option<&mut Random>) -> Lost {
        let (changes, pages) = self.unsynced();
        let files = self
            .dirty
            .values()
            .filter(|dirty| !dirty.is_empty())
            .count();
        let kept = torn.map_or(0, |random| self.tear(random));
        self.current = self.durable.clone();
        self.journal.clear();
        self.dirty.clear();
        self.opens.clear();
        self.used = self
            .current
            .nodes
            .keys()
            .map(|ino| self.size_of(*ino))
            .sum();
        Lost {
            changes,
            pages,
            files,
            kept,
        }
    }

    /// Flip a bit, on the disk and in the cache. Return the byte as it is now; None if it is in no
    /// page.
    pub fn flip(&mut self, ino: Ino, offset: u64, bit: u8) -> Option<u8> {
        let (number, at) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
        let mut found = None;
        for tree in [&mut self.current, &mut self.durable] {
            let content = tree.nodes.get_mut(&ino).and_then(Node::content_mut);
            if let Some(page) = content.and_then(|content| content.pages.get_mut(&number)) {
                let page = std::sync::Arc::make_mut(page);
                page[at] ^= 1 << bit;
                found = found.or(Some(page[at]));
            }
        }
        found
    }

    /// Return path, number and size of every file that is not empty, in the order of the paths.
    pub fn files(&self) -> Vec<(String, Ino, u64)> {
        let mut out = Vec::new();
        let mut ahead = vec![(ROOT, String::new())];
        while let Some((ino, path)) = ahead.pop() {
            match self.node(ino).map(|node| &node.kind) {
                Some(Kind::Directory(entries)) => ahead.extend(
                    entries
                        .iter()
                        .map(|(name, ino)| (*ino, format!("{path}/{}", name.to_string_lossy()))),
                ),
                Some(Kind::File(content)) if content.size > 0 => {
                    out.push((path, ino, content.size))
                }
                _ => {}
            }
        }
        out.sort();
        out
    }

    fn commit(&mut self) {
        for (_, change) in std::mem::take(&mut self.journal) {
            self.durable.apply(&change);
        }
        self.durable.sweep(|_| false);
    }

    fn write_back(&mut self, ino: Ino, numbers: impl Iterator<Item = u64>) {
        let Some(from) = self.current.nodes.get(&ino).and_then(Node::content) else {
            return;
        };
        let Some(to) = self.durable.nodes.get_mut(&ino).and_then(Node::content_mut) else {
            return;
        };
        for number in numbers {
            if let Some(page) = from.pages.get(&number) {
                to.pages.insert(number, page.clone());
                to.size = to.size.max(from.size.min((number + 1) * PAGE as u64));
            }
            if let Some(dirty) = self.dirty.get_mut(&ino) {
                dirty.remove(&number);
            }
        }
    }

    /// Write what a dying disk may still have written, and return how much that was.
    fn tear(&mut self, random: &mut Random) -> usize {
        let survivors = random.below(self.journal.len() + 1);
        let rest = self.journal.split_off(survivors);
        self.commit();
        self.journal = rest;
        let mut kept = survivors;
        let mut dirty: Vec<(Ino, Vec<u64>)> = self
            .dirty
            .iter()
            .map(|(ino, pages)| (*ino, pages.keys().copied().collect()))
            .collect();
        dirty.sort();
        for (ino, numbers) in dirty {
            for number in numbers {
                let sectors = match random.below(4) {
                    0 | 1 => continue,
                    2 => PAGE / SECTOR,
                    _ => random.below(PAGE / SECTOR),
                };
                kept += usize::from(self.write_sectors(ino, number, sectors));
            }
        }
        kept
    }

    /// Write the first sectors of a page; return whether the file survives to have them.
    fn write_sectors(&mut self, ino: Ino, number: u64, sectors: usize) -> bool {
        let Some(from) = self.current.nodes.get(&ino).and_then(Node::content) else {
            return false;
        };
        let Some(to) = self.durable.nodes.get_mut(&ino).and_then(Node::content_mut) else {
            return false;
        };
        let Some(new) = from.pages.get(&number) else {
            return false;
        };
        let page: &mut Page = to
            .pages
            .entry(number)
            .or_insert_with(|| std::sync::Arc::new([0; PAGE]));
        std::sync::Arc::make_mut(page)[..sectors * SECTOR]
            .copy_from_slice(&new[..sectors * SECTOR]);
        to.size = to.size.max(from.size.min((number + 1) * PAGE as u64));
        true
    }

    fn sweep(&mut self) {
        let opens = &self.opens;
        for (ino, node) in self.current.sweep(|ino| opens.contains_key(&ino)) {
            self.dirty.remove(&ino);
            self.used -= node
                .content()
                .map_or(0, |content| (content.pages.len() * PAGE) as u64);
        }
    }
}

/// Return the place of a name in a directory.
pub fn place(parent: Ino, name: &OsStr) -> Place {
    (parent, OsString::from(name))
}

#[cfg(test)]
mod tests;
