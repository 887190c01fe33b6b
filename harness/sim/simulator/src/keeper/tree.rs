//! ZooKeeper's data: nodes, versions, ephemeral owners, sequential names, and changes to them.
//!
//! The leader turns a request into changes, once; every server applies the changes. So no two
//! servers can disagree on what a request meant.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::digits::Digits;
use crate::errors::{KeeperError, BAD_VERSION, NODE_EXISTS, NO_NODE};
use crate::table::entries::Data;

pub use crate::keeper::operation::{Done, Operation};

pub type Path = Rc<str>;

/// Of the node of that name below another.
pub fn child(above: &str, name: &str) -> Path {
    let mut out = String::with_capacity(above.len() + 1 + name.len());
    out.push_str(above);
    out.push('/');
    out.push_str(name);
    out.into()
}

/// The names of a node's children, ascending; shared with whoever read them.
pub type Names = Rc<BTreeSet<Rc<str>>>;

/// What happens to one node.
#[derive(Debug, Clone)]
pub struct Change {
    pub path: Path,
    /// The end of the path.
    name: Rc<str>,
    /// None: it is removed.
    pub data: Option<Data>,
    /// The session that owns an ephemeral node.
    pub owner: Option<u64>,
}

impl Change {
    /// The node is made, or its data replaced.
    fn set(path: Path, data: Data, owner: Option<u64>) -> Change {
        Change {
            data: Some(data),
            owner,
            ..Change::gone(path)
        }
    }

    /// The node is removed.
    pub fn gone(path: Path) -> Change {
        Change {
            name: split(&path).1.into(),
            path,
            data: None,
            owner: None,
        }
    }

    /// The path of the node above.
    pub fn above(&self) -> &str {
        let end = self.path.len() - self.name.len() - 1;
        if end == 0 {
            "/"
        } else {
            &self.path[..end]
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
fn parent(path: &str) -> &str {
    split(path).0
}

/// What undoes a change: the node before it, the parent's next number.
type Undo = (Change, Option<Node>, i64);

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

    fn above(&mut self, change: &Change) -> &mut Node {
        let above = self.nodes.get_mut(change.above());
        above.expect("what is changed has a parent")
    }

    /// Makes a change; whether it changes the parent's list of children.
    pub fn change(&mut self, change: &Change) -> bool {
        let zxid = self.zxid;
        let Some(data) = &change.data else {
            self.remove(change);
            return true;
        };
        if let Some(node) = self.nodes.get_mut(&change.path) {
            node.data = data.clone();
            node.version += 1;
            node.mzxid = zxid;
            return false;
        }
        let above = self.above(change);
        above.made += 1;
        Rc::make_mut(&mut above.children).insert(change.name.clone());
        if let Some(number) = number(&change.name) {
            above.next = above.next.max(number + 1);
        }
        let node = Node::new(data.clone(), change.owner, zxid);
        self.nodes.insert(change.path.clone(), node);
        if let Some(owner) = change.owner {
            let owned = self.owned.entry(owner).or_default();
            owned.push(change.path.clone());
        }
        true
    }

    fn remove(&mut self, change: &Change) {
        let above = self.above(change);
        above.made += 1;
        Rc::make_mut(&mut above.children).remove(&change.name);
        let node = self.nodes.remove(&change.path);
        let node = node.expect("what is removed is there");
        if let Some(owned) = node.owner.and_then(|owner| self.owned.get_mut(&owner)) {
            owned.retain(|other| *other != change.path);
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
                    let next = self.above(&change).next;
                    let before = self.nodes.get(&change.path).cloned();
                    undo.push((change.clone(), before, next));
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
                    numbered(path, holder.next).into()
                } else if node.is_some() {
                    return Err(KeeperError::of(NODE_EXISTS, path));
                } else {
                    path.clone()
                };
                let owner = ephemeral.then_some(session);
                let change = Change::set(made.clone(), data.clone(), owner);
                Ok((Some(change), Done::Created(made)))
            }
            Operation::Remove { version, .. } => {
                found(*version)?;
                Ok((Some(Change::gone(path.clone())), Done::Other))
            }
            Operation::Put { data, version, .. } => {
                let node = found(*version)?;
                let change = Change::set(path.clone(), data.clone(), None);
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
        for (change, before, next) in undo.into_iter().rev() {
            self.above(&change).next = next;
            let Some(before) = before else {
                self.remove(&change);
                continue;
            };
            if !self.has(&change.path) {
                self.change(&Change {
                    data: Some(before.data.clone()),
                    owner: before.owner,
                    ..change.clone()
                });
            }
            self.nodes.insert(change.path, before);
        }
    }
}

/// With ten digits at its end.
pub fn numbered(name: &str, number: i64) -> String {
    let digits = Digits::of(number);
    let mut out = String::with_capacity(name.len() + 10);
    out.push_str(name);
    for _ in digits.as_str().len()..10 {
        out.push('0');
    }
    out.push_str(digits.as_str());
    out
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
