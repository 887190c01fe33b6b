//! Defines what clients read of a server's tree, and the results.

use std::rc::Rc;

use crate::keeper::paths::Key;
use crate::keeper::paths::{number, Path};
use crate::keeper::tree::{Change, Data, Names, Node, Tree};
use crate::world::MS;

/// A reading of one path.
#[derive(Debug, Clone)]
pub enum Reading {
    /// Data and version.
    Get(Path),
    /// The version.
    Exists(Path),
    /// Data, version and the transactions that created and last changed the node.
    Stat(Path),
    /// The children's names, ascending.
    Children(Path),
    /// The number of children.
    Count(Path),
    /// The version of the list of children, and their names.
    Listed(Path),
    /// The children's data by name, ascending.
    Values(Path),
    /// The children's times of creation, in milliseconds, by name.
    Dated(Path),
    /// The data of sequential children, from the number on that another node holds.
    Ahead { log: Path, pointer: Path },
}

impl Reading {
    pub fn get(path: impl Into<Path>) -> Reading {
        Reading::Get(path.into())
    }

    pub fn exists(path: impl Into<Path>) -> Reading {
        Reading::Exists(path.into())
    }

    pub fn children(path: impl Into<Path>) -> Reading {
        Reading::Children(path.into())
    }

    pub fn count(path: impl Into<Path>) -> Reading {
        Reading::Count(path.into())
    }

    pub fn listed(path: impl Into<Path>) -> Reading {
        Reading::Listed(path.into())
    }

    pub fn values(path: impl Into<Path>) -> Reading {
        Reading::Values(path.into())
    }

    pub fn ahead(log: impl Into<Path>, pointer: impl Into<Path>) -> Reading {
        let (log, pointer) = (log.into(), pointer.into());
        Reading::Ahead { log, pointer }
    }

    pub fn path(&self) -> &Path {
        match self {
            Reading::Ahead { log, .. } => log,
            Reading::Get(path)
            | Reading::Exists(path)
            | Reading::Stat(path)
            | Reading::Children(path)
            | Reading::Count(path)
            | Reading::Listed(path)
            | Reading::Values(path)
            | Reading::Dated(path) => path,
        }
    }

    pub(super) fn found(&self, tree: &Tree) -> Found {
        let path = self.path();
        match tree.get(path) {
            Some(node) => self.found_of(tree, path, node),
            None => Found::Nothing,
        }
    }

    fn found_of(&self, tree: &Tree, path: &str, node: &Node) -> Found {
        match self {
            Reading::Get(_) => Found::Get(node.data.clone(), node.version),
            Reading::Exists(_) => Found::Exists(node.version),
            Reading::Stat(_) => Found::Stat {
                data: node.data.clone(),
                version: node.version,
                czxid: node.czxid,
                mzxid: node.mzxid,
            },
            Reading::Children(_) => Found::Children(node.children.clone()),
            Reading::Count(_) => Found::Count(node.children.len()),
            Reading::Listed(_) => Found::Listed(node.made, node.children.clone()),
            Reading::Values(_) => Found::Values(values(tree, path, &node.children)),
            Reading::Dated(_) => {
                let date = |node: &Node| Data::Number(node.ctime_ns / MS);
                Found::Values(of_children(tree, path, &node.children, date))
            }
            Reading::Ahead { pointer, .. } => match tree.get(pointer) {
                Some(pointer) => {
                    let names = ahead(&node.children, pointer.data.as_number());
                    Found::Values(values(tree, path, names))
                }
                None => Found::Nothing,
            },
        }
    }
}

/// Children's data by name.
pub type Values = Vec<(Rc<str>, Data)>;

/// The result of a reading.
#[derive(Debug, Clone)]
pub enum Found {
    /// The node does not exist.
    Nothing,
    Get(Data, i64),
    Exists(i64),
    Stat {
        data: Data,
        version: i64,
        czxid: i64,
        mzxid: i64,
    },
    Children(Names),
    Count(usize),
    Listed(i64, Names),
    Values(Values),
}

impl Found {
    pub fn is_nothing(&self) -> bool {
        matches!(self, Found::Nothing)
    }

    pub fn get(self) -> Option<(Data, i64)> {
        match self {
            Found::Get(data, version) => Some((data, version)),
            _ => None,
        }
    }

    /// Returns the version, if the node exists.
    pub fn exists(self) -> Option<i64> {
        match self {
            Found::Exists(version) => Some(version),
            _ => None,
        }
    }

    pub fn children(self) -> Option<Names> {
        match self {
            Found::Children(names) => Some(names),
            _ => None,
        }
    }

    pub fn count(self) -> Option<usize> {
        match self {
            Found::Count(count) => Some(count),
            _ => None,
        }
    }

    pub fn listed(self) -> Option<(i64, Names)> {
        match self {
            Found::Listed(made, names) => Some((made, names)),
            _ => None,
        }
    }

    /// Returns the children's data; empty if the node does not exist.
    pub fn values(self) -> Values {
        match self {
            Found::Values(values) => values,
            _ => Values::new(),
        }
    }

    /// Returns the children's data by reference.
    pub fn as_values(&self) -> &[(Rc<str>, Data)] {
        match self {
            Found::Values(values) => values,
            _ => &[],
        }
    }
}

/// Several readings that are repeated. A server caches the results until a change may alter them.
pub struct Readings {
    all: Vec<Reading>,
    /// Hashes of the paths of the nodes that are read.
    hashes: Vec<u64>,
}

impl Readings {
    pub fn new(all: impl Into<Vec<Reading>>) -> Rc<Readings> {
        let all = all.into();
        let paths = all.iter().flat_map(|reading| match reading {
            Reading::Ahead { log, pointer } => vec![log, pointer],
            one => vec![one.path()],
        });
        let hashes = paths.map(|path| Key::of(path).hash).collect();
        Rc::new(Readings { all, hashes })
    }

    /// Returns the readings.
    pub fn all(&self) -> &[Reading] {
        &self.all
    }

    pub(super) fn found(&self, tree: &Tree) -> Rc<[Found]> {
        self.all.iter().map(|reading| reading.found(tree)).collect()
    }

    /// Whether a change may alter the results: it changes one of the nodes or a child.
    pub(super) fn depend_on(&self, change: &Change) -> bool {
        let changed = [change.key().hash, change.above().hash];
        self.hashes.iter().any(|hash| changed.contains(hash))
    }
}

/// Returns the data of these children.
fn values(tree: &Tree, path: &str, names: &[Rc<str>]) -> Values {
    of_children(tree, path, names, |node| node.data.clone())
}

fn of_children(tree: &Tree, path: &str, names: &[Rc<str>], what: impl Fn(&Node) -> Data) -> Values {
    let Some(longest) = names.iter().map(|name| name.len()).max() else {
        return Values::new();
    };
    let mut child = String::with_capacity(path.len() + 1 + longest);
    child.push_str(path);
    if path != "/" {
        child.push('/');
    }
    let above = child.len();
    let value = |name: &Rc<str>| {
        child.truncate(above);
        child.push_str(name);
        (name.clone(), what(tree.node(&child)))
    };
    names.iter().map(value).collect()
}

/// Return the sequential nodes of a log from this number on, mostly none.
fn ahead(names: &Names, first: i64) -> &[Rc<str>] {
    let is_before = |name: &Rc<str>| number(name).is_some_and(|number| number < first);
    match names.last() {
        Some(last) if !is_before(last) => &names[names.partition_point(is_before)..],
        _ => &[],
    }
}
