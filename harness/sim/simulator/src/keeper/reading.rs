//! What clients read of a server's tree, and what was found.

use std::rc::Rc;

use crate::keeper::paths::Key;
use crate::keeper::tree::{number, Change, Names, Node, Path, Tree};
use crate::table::entries::{log_name, Data};

/// What to read of a path.
#[derive(Debug, Clone)]
pub enum Reading {
    /// Data and version.
    Get(Path),
    /// The version.
    Exists(Path),
    /// Data, version and the transactions that made and last changed it.
    Stat(Path),
    /// The names, ascending.
    Children(Path),
    /// Their number.
    Count(Path),
    /// How often they changed, and the names.
    Listed(Path),
    /// The data by name, ascending.
    Values(Path),
    /// The same of a log, from the entry on whose number another node holds.
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
            | Reading::Values(path) => path,
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

/// What a reading found.
#[derive(Debug, Clone)]
pub enum Found {
    /// There is no such node.
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

    /// The version.
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

    /// Empty where there is no such node.
    pub fn values(self) -> Values {
        match self {
            Found::Values(values) => values,
            _ => Values::new(),
        }
    }

    /// The same.
    pub fn as_values(&self) -> &[(Rc<str>, Data)] {
        match self {
            Found::Values(values) => values,
            _ => &[],
        }
    }
}

/// Several readings that are made again and again. A server keeps what they found until it may be
/// something else.
pub struct Readings {
    all: Vec<Reading>,
    /// Of the paths of the nodes that they are about.
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

    pub(super) fn found(&self, tree: &Tree) -> Rc<[Found]> {
        self.all.iter().map(|reading| reading.found(tree)).collect()
    }

    /// Whether they may find something else after a change: it is of one of their nodes, or below.
    pub(super) fn depend_on(&self, change: &Change) -> bool {
        let changed = [change.key().hash, change.above().hash];
        self.hashes.iter().any(|hash| changed.contains(hash))
    }
}

/// The data of those children.
fn values(tree: &Tree, path: &str, names: &[Rc<str>]) -> Values {
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
        (name.clone(), tree.node(&child).data.clone())
    };
    names.iter().map(value).collect()
}

/// Of a log's entries those from this number on: none, mostly.
fn ahead(names: &Names, first: i64) -> &[Rc<str>] {
    let last = names.last().and_then(|last| number(last));
    if last.is_some_and(|last| last < first) {
        return &[];
    }
    names.from(&log_name(first))
}
