//! A tree of directories and files, and the changes of its metadata.
//!
//! A change is a value, so that the tree that servers see and the one that survives a power cut
//! execute the same code, the second one later.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::SystemTime;

pub type Ino = u64;
pub const ROOT: Ino = 1;
/// Granularity of writes that a power cut may lose.
pub const PAGE: usize = 4096;
pub type Page = Arc<[u8; PAGE]>;

/// Content of a file. A page that is missing consists of zeros.
#[derive(Clone, Default)]
pub struct Content {
    pub pages: BTreeMap<u64, Page>,
    pub size: u64,
}

#[derive(Clone)]
pub enum Kind {
    File(Content),
    Directory(BTreeMap<OsString, Ino>),
    Symlink(OsString),
}

#[derive(Clone)]
pub struct Node {
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub modified: SystemTime,
}

impl Node {
    pub fn new(kind: Kind, mode: u32, uid: u32, gid: u32) -> Node {
        Node {
            kind,
            mode: mode & 0o7777,
            uid,
            gid,
            links: 0,
            modified: SystemTime::now(),
        }
    }

    pub fn content(&self) -> Option<&Content> {
        match &self.kind {
            Kind::File(content) => Some(content),
            _ => None,
        }
    }

    pub fn content_mut(&mut self) -> Option<&mut Content> {
        match &mut self.kind {
            Kind::File(content) => Some(content),
            _ => None,
        }
    }

    pub fn entries(&self) -> Option<&BTreeMap<OsString, Ino>> {
        match &self.kind {
            Kind::Directory(entries) => Some(entries),
            _ => None,
        }
    }
}

impl Content {
    /// Return up to `length` bytes from `offset` on.
    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(length as u64));
        let mut out = vec![0; end.saturating_sub(offset) as usize];
        for (number, from, to) in pieces(offset, out.len()) {
            if let Some(page) = self.pages.get(&number) {
                let at = (number * PAGE as u64 + from as u64 - offset) as usize;
                out[at..at + to - from].copy_from_slice(&page[from..to]);
            }
        }
        out
    }

    /// Write bytes and return the numbers of the pages that changed.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Vec<u64> {
        let mut touched = Vec::new();
        for (number, from, to) in pieces(offset, data.len()) {
            let at = (number * PAGE as u64 + from as u64 - offset) as usize;
            let page = self
                .pages
                .entry(number)
                .or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[from..to].copy_from_slice(&data[at..at + to - from]);
            touched.push(number);
        }
        self.size = self.size.max(offset + data.len() as u64);
        touched
    }

    fn resize(&mut self, size: u64) {
        if size < self.size {
            let whole = size / PAGE as u64;
            let rest = (size % PAGE as u64) as usize;
            drop(self.pages.split_off(&(whole + u64::from(rest > 0))));
            if let Some(last) = self.pages.get_mut(&whole).filter(|_| rest > 0) {
                Arc::make_mut(last)[rest..].fill(0);
            }
        }
        self.size = size;
    }
}

/// Return page number, first and last offset in the page of each piece of a range.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let page = PAGE as u64;
    let end = offset + length as u64;
    let numbers = offset / page..if length == 0 {
        offset / page
    } else {
        (end - 1) / page + 1
    };
    numbers.map(move |n| {
        let start = n * page;
        (
            n,
            offset.saturating_sub(start) as usize,
            (end - start).min(page) as usize,
        )
    })
}

/// Name in a directory.
pub type Place = (Ino, OsString);

/// Change of metadata, which a journal keeps in order.
#[derive(Clone)]
pub enum Change {
    Make {
        ino: Ino,
        at: Place,
        node: Node,
    },
    Link {
        ino: Ino,
        at: Place,
    },
    Remove {
        at: Place,
    },
    Rename {
        from: Place,
        to: Place,
    },
    Exchange {
        one: Place,
        other: Place,
    },
    Attributes {
        ino: Ino,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    Resize {
        ino: Ino,
        size: u64,
    },
}

#[derive(Clone)]
pub struct Tree {
    pub nodes: HashMap<Ino, Node>,
    /// Nodes that lost their last name since the last `sweep`, or were open then.
    nameless: Vec<Ino>,
}

impl Tree {
    pub fn new() -> Tree {
        let mut root = Node::new(Kind::Directory(BTreeMap::new()), 0o755, 0, 0);
        root.links = 1;
        Tree {
            nodes: HashMap::from([(ROOT, root)]),
            nameless: Vec::new(),
        }
    }

    pub fn find(&self, parent: Ino, name: &std::ffi::OsStr) -> Option<Ino> {
        self.nodes.get(&parent)?.entries()?.get(name).copied()
    }

    /// Execute a change that is valid in this tree.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Make { ino, at, node } => {
                self.nodes.insert(*ino, node.clone());
                self.put(at, *ino);
            }
            Change::Link { ino, at } => self.put(at, *ino),
            Change::Remove { at } => {
                self.take(at);
            }
            Change::Rename { from, to } => {
                // The target keeps its link until the name has another one, as in one transaction.
                if let Some(ino) = self.find(from.0, &from.1) {
                    self.put(to, ino);
                    self.take(from);
                }
            }
            Change::Exchange { one, other } => {
                let pair = (self.find(one.0, &one.1), self.find(other.0, &other.1));
                if let (Some(a), Some(b)) = pair {
                    self.put(other, a);
                    self.put(one, b);
                }
            }
            Change::Attributes {
                ino,
                mode,
                uid,
                gid,
            } => {
                if let Some(node) = self.nodes.get_mut(ino) {
                    node.mode = mode.map_or(node.mode, |mode| mode & 0o7777);
                    node.uid = uid.unwrap_or(node.uid);
                    node.gid = gid.unwrap_or(node.gid);
                }
            }
            Change::Resize { ino, size } => {
                if let Some(content) = self.nodes.get_mut(ino).and_then(Node::content_mut) {
                    content.resize(*size);
                }
            }
        }
    }

    /// Drop the nodes that have no name, except those that `held` selects, and return the others.
    pub fn sweep(&mut self, held: impl Fn(Ino) -> bool) -> Vec<(Ino, Node)> {
        let mut dropped = Vec::new();
        for ino in std::mem::take(&mut self.nameless) {
            if self.nodes.get(&ino).is_none_or(|node| node.links > 0) {
                continue;
            }
            if held(ino) {
                self.nameless.push(ino);
            } else if let Some(node) = self.nodes.remove(&ino) {
                dropped.push((ino, node));
            }
        }
        dropped
    }

    fn put(&mut self, at: &Place, ino: Ino) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.links += 1;
        }
        let Some(Kind::Directory(entries)) = self.nodes.get_mut(&at.0).map(|n| &mut n.kind) else {
            return;
        };
        let old = entries.insert(at.1.clone(), ino);
        self.touch(at.0);
        self.unlink(old);
    }

    fn take(&mut self, at: &Place) {
        let Some(Kind::Directory(entries)) = self.nodes.get_mut(&at.0).map(|n| &mut n.kind) else {
            return;
        };
        let old = entries.remove(&at.1);
        self.touch(at.0);
        self.unlink(old);
    }

    fn touch(&mut self, directory: Ino) {
        if let Some(node) = self.nodes.get_mut(&directory) {
            node.modified = SystemTime::now();
        }
    }

    fn unlink(&mut self, ino: Option<Ino>) {
        let Some(ino) = ino else { return };
        if let Some(node) = self.nodes.get_mut(&ino) {
            assert!(node.links > 0, "a name counts as a link");
            node.links -= 1;
            if node.links == 0 {
                self.nameless.push(ino);
            }
        }
    }
}
