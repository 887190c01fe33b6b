//! ZooKeeper's data: nodes, versions, ephemeral owners, sequential names, and changes to them.
//!
//! The leader turns a request into changes, once; every server applies the changes. So no two
//! servers can disagree on what a request meant.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::errors::{KeeperError, BAD_VERSION, NODE_EXISTS, NO_NODE};
use crate::table::entries::Data;

pub type Path = Rc<str>;

/// The names of a node's children, ascending; shared with whoever read them.
pub type Names = Rc<BTreeSet<Rc<str>>>;

/// One operation of a multi.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Makes a node; a sequential one gets the parent's next number, ten digits, as its end.
    Create {
        path: Path,
        data: Data,
        ephemeral: bool,
        sequential: bool,
    },
    /// Removes a node; `version` None is any.
    Remove { path: Path, version: Option<i64> },
    /// Replaces a node's data; `version` None is any.
    Put {
        path: Path,
        data: Data,
        version: Option<i64>,
    },
    /// The node must exist, and have this version unless it is None.
    Check { path: Path, version: Option<i64> },
    /// The node must not exist: a create and a remove of it, in a server's multi.
    Absent { path: Path },
}

impl Operation {
    /// A lasting node of that name.
    pub fn create(path: impl Into<Path>, data: Data) -> Operation {
        Operation::Create {
            path: path.into(),
            data,
            ephemeral: false,
            sequential: false,
        }
    }

    /// A lasting node with a number.
    pub fn numbered(path: impl Into<Path>, data: Data) -> Operation {
        Operation::Create {
            path: path.into(),
            data,
            ephemeral: false,
            sequential: true,
        }
    }

    pub fn remove(path: impl Into<Path>) -> Operation {
        Operation::Remove {
            path: path.into(),
            version: None,
        }
    }

    pub fn put(path: impl Into<Path>, data: Data) -> Operation {
        Operation::Put {
            path: path.into(),
            data,
            version: None,
        }
    }

    /// With any version if it is None.
    pub fn check(path: impl Into<Path>, version: Option<i64>) -> Operation {
        Operation::Check {
            path: path.into(),
            version,
        }
    }

    pub fn absent(path: impl Into<Path>) -> Operation {
        Operation::Absent { path: path.into() }
    }

    /// Of the node that it is about; a sequential one's without the number.
    fn path(&self) -> &Path {
        match self {
            Operation::Create { path, .. }
            | Operation::Remove { path, .. }
            | Operation::Put { path, .. }
            | Operation::Check { path, .. }
            | Operation::Absent { path } => path,
        }
    }
}

/// What a server says that an operation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The path of what was created.
    Created(Path),
    /// The version after it.
    Put(i64),
    Other,
}

impl Done {
    /// Of what was created.
    pub fn path(&self) -> &Path {
        match self {
            Done::Created(path) => path,
            _ => panic!("{self:?} is no path"),
        }
    }
}

/// What happens to one node.
#[derive(Debug, Clone)]
pub struct Change {
    pub path: Path,
    /// None: it is removed.
    pub data: Option<Data>,
    /// The session that owns an ephemeral node.
    pub owner: Option<u64>,
}

impl Change {
    /// The node is removed.
    pub fn gone(path: Path) -> Change {
        Change {
            path,
            data: None,
            owner: None,
        }
    }
}

/// One znode.
#[derive(Debug, Clone)]
pub struct Node {
    pub data: Data,
    pub owner: Option<u64>,
    pub version: i64,
    /// The transaction that made it.
    pub czxid: i64,
    /// The last one that changed its data.
    pub mzxid: i64,
    /// How many children it has had: their list's version.
    pub made: i64,
    /// Of the next sequential child.
    next: i64,
    pub children: Names,
}

impl Node {
    fn new(data: Data, owner: Option<u64>, zxid: i64) -> Node {
        Node {
            data,
            owner,
            version: 0,
            czxid: zxid,
            mzxid: zxid,
            made: 0,
            next: 0,
            children: Names::default(),
        }
    }
}

/// Of "/a/b" it is "/a", and the name "b".
fn split(path: &str) -> (&str, &str) {
    let (above, name) = path.rsplit_once('/').expect("a path begins with /");
    (if above.is_empty() { "/" } else { above }, name)
}

/// Of "/a/b" it is "/a".
pub fn parent(path: &str) -> &str {
    split(path).0
}

/// What undoes a change: the path, the node before it, the parent's next number.
type Undo = (Path, Option<Node>, i64);

/// One server's nodes.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Of the transaction whose changes come next.
    pub zxid: i64,
    pub nodes: FxHashMap<Path, Node>,
    /// Ephemeral nodes by session, in the order in which they came.
    owned: FxHashMap<u64, Vec<Path>>,
}

impl Default for Tree {
    fn default() -> Tree {
        let root = ("/".into(), Node::new(Data::default(), None, 0));
        Tree {
            zxid: 0,
            nodes: FxHashMap::from_iter([root]),
            owned: FxHashMap::default(),
        }
    }
}

impl Tree {
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    pub fn has(&self, path: &str) -> bool {
        self.nodes.contains_key(path)
    }

    /// The ephemeral nodes of a session.
    pub fn owned(&self, session: u64) -> &[Path] {
        self.owned.get(&session).map_or(&[], Vec::as_slice)
    }

    fn above(&mut self, path: &str) -> &mut Node {
        let above = self.nodes.get_mut(parent(path));
        above.expect("what is changed has a parent")
    }

    /// Makes a change; whether it changes the parent's list of children.
    pub fn change(&mut self, change: &Change) -> bool {
        let zxid = self.zxid;
        let Some(data) = &change.data else {
            self.remove(&change.path);
            return true;
        };
        if let Some(node) = self.nodes.get_mut(&change.path) {
            node.data = data.clone();
            node.version += 1;
            node.mzxid = zxid;
            return false;
        }
        let (above, name) = split(&change.path);
        let holder = self.nodes.get_mut(above);
        let holder = holder.expect("what is made has a parent");
        holder.made += 1;
        Rc::make_mut(&mut holder.children).insert(name.into());
        if let Some(number) = number(name) {
            holder.next = holder.next.max(number + 1);
        }
        let node = Node::new(data.clone(), change.owner, zxid);
        self.nodes.insert(change.path.clone(), node);
        if let Some(owner) = change.owner {
            let owned = self.owned.entry(owner).or_default();
            owned.push(change.path.clone());
        }
        true
    }

    fn remove(&mut self, path: &Path) {
        let (above, name) = split(path);
        let holder = self.nodes.get_mut(above);
        let holder = holder.expect("what is removed has a parent");
        holder.made += 1;
        Rc::make_mut(&mut holder.children).remove(name);
        let node = self.nodes.remove(path).expect("what is removed is there");
        if let Some(owned) = node.owner.and_then(|owner| self.owned.get_mut(&owner)) {
            owned.retain(|other| other != path);
        }
    }

    /// The changes that a multi comes to, and what each operation answers. Makes them as it goes;
    /// where it fails, this tree is as it was before.
    pub fn planned(
        &mut self,
        operations: &[Operation],
        session: u64,
    ) -> Result<(Vec<Change>, Vec<Done>), KeeperError> {
        let mut changes = Vec::with_capacity(operations.len());
        let mut answers = Vec::with_capacity(operations.len());
        let mut undo: Vec<Undo> = Vec::new();
        for (at, operation) in operations.iter().enumerate() {
            let (change, answer) = match self.plan(operation, session) {
                Ok(planned) => planned,
                Err(error) => {
                    self.undo(undo);
                    return Err(KeeperError { at, ..error });
                }
            };
            if let Some(change) = change {
                if at + 1 < operations.len() {
                    let next = self.above(&change.path).next;
                    let before = self.nodes.get(&change.path).cloned();
                    undo.push((change.path.clone(), before, next));
                }
                self.change(&change);
                changes.push(change);
            }
            answers.push(answer);
        }
        Ok((changes, answers))
    }

    fn plan(
        &self,
        operation: &Operation,
        session: u64,
    ) -> Result<(Option<Change>, Done), KeeperError> {
        let path = operation.path();
        let node = self.nodes.get(path);
        let found = |wanted: Option<i64>| {
            let node = node.ok_or_else(|| KeeperError::of(NO_NODE, path))?;
            if wanted.is_some_and(|wanted| wanted != node.version) {
                return Err(KeeperError::of(BAD_VERSION, path));
            }
            Ok(node)
        };
        match operation {
            Operation::Absent { .. } => match node {
                Some(_) => Err(KeeperError::of(NODE_EXISTS, path)),
                None => Ok((None, Done::Other)),
            },
            Operation::Create {
                data,
                ephemeral,
                sequential,
                ..
            } => {
                let holder = self.nodes.get(parent(path));
                let holder = holder.ok_or_else(|| KeeperError::of(NO_NODE, path))?;
                let made: Path = if *sequential {
                    format!("{path}{:010}", holder.next).into()
                } else if node.is_some() {
                    return Err(KeeperError::of(NODE_EXISTS, path));
                } else {
                    path.clone()
                };
                let change = Change {
                    path: made.clone(),
                    data: Some(data.clone()),
                    owner: ephemeral.then_some(session),
                };
                Ok((Some(change), Done::Created(made)))
            }
            Operation::Remove { version, .. } => {
                found(*version)?;
                Ok((Some(Change::gone(path.clone())), Done::Other))
            }
            Operation::Put { data, version, .. } => {
                let node = found(*version)?;
                let change = Change {
                    path: path.clone(),
                    data: Some(data.clone()),
                    owner: None,
                };
                Ok((Some(change), Done::Put(node.version + 1)))
            }
            Operation::Check { version, .. } => {
                found(*version)?;
                Ok((None, Done::Other))
            }
        }
    }

    /// Sequential numbers that were taken are free again, as in ZooKeeper.
    fn undo(&mut self, undo: Vec<Undo>) {
        for (path, before, next) in undo.into_iter().rev() {
            self.above(&path).next = next;
            let Some(before) = before else {
                self.remove(&path);
                continue;
            };
            if !self.has(&path) {
                self.change(&Change {
                    path: path.clone(),
                    data: Some(before.data.clone()),
                    owner: before.owner,
                });
            }
            self.nodes.insert(path, before);
        }
    }
}

/// Of a name that ends with ten digits.
fn number(name: &str) -> Option<i64> {
    let (_, end) = name.as_bytes().split_last_chunk::<10>()?;
    let add = |sum: i64, digit: &u8| {
        let digit = digit.is_ascii_digit().then_some(i64::from(digit - b'0'))?;
        Some(sum * 10 + digit)
    };
    end.iter().try_fold(0, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(tree: &mut Tree, operations: &[Operation]) -> Result<Vec<Done>, KeeperError> {
        tree.planned(operations, 1).map(|(_, done)| done)
    }

    fn all(tree: &Tree) -> Vec<(Path, Data, i64)> {
        let mut out: Vec<_> = tree
            .nodes
            .iter()
            .map(|(path, node)| (path.clone(), node.data.clone(), node.version))
            .collect();
        out.sort_by(|a, b| a.0.cmp(&b.0));
        out
    }

    #[test]
    fn a_multi_is_all_or_nothing() {
        let mut tree = Tree::default();
        let made = [
            Operation::create("/a", Data::default()),
            Operation::create("/a/b", Data::Number(1)),
        ];
        applied(&mut tree, &made).expect("nothing is there");
        let before = all(&tree);
        let refused = [
            Operation::put("/a/b", Data::Number(2)),
            Operation::numbered("/a/n-", Data::default()),
            Operation::remove("/a"),
            Operation::check("/no", None),
        ];
        let error = applied(&mut tree, &refused).expect_err("/no is not there");
        assert_eq!((error.code, error.at, &*error.path), (NO_NODE, 3, "/no"));
        assert_eq!(all(&tree), before);
        let answers = applied(&mut tree, &[Operation::numbered("/a/n-", Data::default())]);
        let path = Done::Created("/a/n-0000000000".into());
        assert_eq!(answers, Ok(vec![path]));
        let names: Vec<_> = tree.nodes["/a"]
            .children
            .iter()
            .map(|name| &**name)
            .collect();
        assert_eq!(names, ["b", "n-0000000000"]);
    }

    #[test]
    fn versions_count_and_are_checked() {
        let mut tree = Tree::default();
        applied(&mut tree, &[Operation::create("/a", Data::Number(1))]).expect("it is new");
        let put = |data| Operation::Put {
            path: "/a".into(),
            data: Data::Number(data),
            version: Some(0),
        };
        assert_eq!(applied(&mut tree, &[put(2)]), Ok(vec![Done::Put(1)]));
        let remove = Operation::Remove {
            path: "/a".into(),
            version: Some(0),
        };
        for operation in [put(3), remove, Operation::check("/a", Some(0))] {
            let error = applied(&mut tree, &[operation]).expect_err("the version is 1");
            assert_eq!(error.code, BAD_VERSION);
        }
        let error = applied(&mut tree, &[Operation::absent("/a")]).expect_err("it is there");
        assert_eq!(error.code, NODE_EXISTS);
    }

    #[test]
    fn an_ephemeral_node_is_owned_until_it_is_removed() {
        let mut tree = Tree::default();
        let ephemeral = Operation::Create {
            path: "/e".into(),
            data: Data::default(),
            ephemeral: true,
            sequential: false,
        };
        applied(&mut tree, &[ephemeral]).expect("it is new");
        assert_eq!(tree.owned(1), [Path::from("/e")]);
        let undone = [Operation::remove("/e"), Operation::check("/no", None)];
        applied(&mut tree, &undone).expect_err("/no is not there");
        assert_eq!(tree.owned(1), [Path::from("/e")]);
        applied(&mut tree, &[Operation::remove("/e")]).expect("it is there");
        assert!(tree.owned(1).is_empty());
    }

    #[test]
    fn ten_digits_are_a_number() {
        assert_eq!(number("log-0000000041"), Some(41));
        assert_eq!(number("0000000041"), Some(41));
        assert_eq!(number("log-000000004x"), None);
        assert_eq!(number("41"), None);
    }
}
