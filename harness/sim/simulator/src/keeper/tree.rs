//! ZooKeeper's data: nodes, versions, ephemeral owners, sequential names, and changes to them.
//!
//! The leader turns a request into changes, once; every server applies the changes. So no two
//! servers can disagree on what a request meant.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::digits::Digits;
use crate::errors::{KeeperError, BAD_VERSION, NODE_EXISTS, NO_NODE};
use crate::keeper::paths::{above, split, Key, PathMap};
use crate::table::entries::Data;

pub use crate::keeper::names::Names;
pub use crate::keeper::operation::{Done, Operation};
pub use crate::keeper::paths::{child, Path};

/// What happens to one node.
#[derive(Debug, Clone)]
pub struct Change {
    pub path: Path,
    /// Of the path, and of that of the node above.
    hashes: [u64; 2],
    /// Where the path's last slash is.
    slash: usize,
    pub effect: Effect,
}

#[derive(Debug, Clone)]
pub enum Effect {
    Made(Made),
    Put(Data),
    Removed,
}

/// A node that is made.
#[derive(Debug, Clone)]
pub struct Made {
    /// The end of the path.
    name: Rc<str>,
    /// The one at the end of its name.
    number: Option<i64>,
    data: Data,
    /// The session that owns an ephemeral node.
    owner: Option<u64>,
}

impl Change {
    fn new(path: Path, effect: impl FnOnce(&str) -> Effect) -> Change {
        let (above, name) = split(&path);
        Change {
            hashes: [Key::of(&path).hash, Key::of(above).hash],
            slash: path.len() - name.len() - 1,
            effect: effect(name),
            path,
        }
    }

    fn made(path: Path, data: Data, owner: Option<u64>) -> Change {
        Change::new(path, |name| {
            Effect::Made(Made {
                name: name.into(),
                number: number(name),
                data,
                owner,
            })
        })
    }

    /// The node is removed.
    pub fn gone(path: Path) -> Change {
        Change::new(path, |_| Effect::Removed)
    }

    /// What the node holds from now on, unless it is removed.
    pub fn data(&self) -> Option<&Data> {
        match &self.effect {
            Effect::Made(Made { data, .. }) | Effect::Put(data) => Some(data),
            Effect::Removed => None,
        }
    }

    pub fn key(&self) -> Key<'_> {
        let (path, hash) = (&*self.path, self.hashes[0]);
        Key { path, hash }
    }

    /// Of the node above.
    pub fn above(&self) -> Key<'_> {
        let (path, hash) = (above(&self.path, self.slash), self.hashes[1]);
        Key { path, hash }
    }

    fn name(&self) -> &str {
        &self.path[self.slash + 1..]
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

/// What a change took away.
enum Before {
    /// There was no such node; the parent's next number.
    Nothing(i64),
    /// What it held, and since when.
    Data(Data, i64),
    Node(Node),
}

/// One server's nodes.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Of the transaction whose changes come next.
    pub zxid: i64,
    nodes: PathMap<Node>,
    /// Ephemeral nodes by session, in the order in which they came.
    owned: FxHashMap<u64, Vec<Path>>,
}

impl Default for Tree {
    fn default() -> Tree {
        let mut nodes = PathMap::default();
        let root = Node::new(Data::default(), None, 0);
        nodes.insert(Key::of("/").hash, "/".into(), root);
        Tree {
            zxid: 0,
            nodes,
            owned: FxHashMap::default(),
        }
    }
}

impl Tree {
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.find(Key::of(path))
    }

    pub fn find(&self, key: Key) -> Option<&Node> {
        self.nodes.get(key)
    }

    /// One that there is.
    pub fn node(&self, path: &str) -> &Node {
        self.get(path).expect("there is such a node")
    }

    pub fn has(&self, path: &str) -> bool {
        self.get(path).is_some()
    }

    /// The ephemeral nodes of a session.
    pub fn owned(&self, session: u64) -> &[Path] {
        self.owned.get(&session).map_or(&[], Vec::as_slice)
    }

    /// Makes a change; whether it changes the parent's list of children.
    pub fn change(&mut self, change: &Change) -> bool {
        match &change.effect {
            Effect::Made(made) => _ = self.make(change, made),
            Effect::Put(data) => _ = self.put(change, data),
            Effect::Removed => _ = self.remove(change),
        }
        !matches!(change.effect, Effect::Put(_))
    }

    /// The same; what was there before.
    fn exchange(&mut self, change: &Change) -> Before {
        match &change.effect {
            Effect::Made(made) => Before::Nothing(self.make(change, made)),
            Effect::Put(data) => {
                let (data, since) = self.put(change, data);
                Before::Data(data, since)
            }
            Effect::Removed => Before::Node(self.remove(change)),
        }
    }

    fn above(&mut self, change: &Change) -> &mut Node {
        let above = self.nodes.get_mut(change.above());
        above.expect("what is changed has a parent")
    }

    /// What the parent's next number was.
    fn make(&mut self, change: &Change, made: &Made) -> i64 {
        let node = Node::new(made.data.clone(), made.owner, self.zxid);
        self.insert(change, made.name.clone(), made.number, node)
    }

    /// What the node held, and since when.
    fn put(&mut self, change: &Change, data: &Data) -> (Data, i64) {
        let node = self.nodes.get_mut(change.key());
        let node = node.expect("what is changed is there");
        node.version += 1;
        let since = std::mem::replace(&mut node.mzxid, self.zxid);
        (std::mem::replace(&mut node.data, data.clone()), since)
    }

    /// A node, below its parent; what the parent's next number was.
    fn insert(&mut self, change: &Change, name: Rc<str>, number: Option<i64>, node: Node) -> i64 {
        let above = self.above(change);
        above.made += 1;
        above.children.insert(name);
        let next = above.next;
        above.next = number.map_or(next, |number| next.max(number + 1));
        if let Some(owner) = node.owner {
            let owned = self.owned.entry(owner).or_default();
            owned.push(change.path.clone());
        }
        self.nodes
            .insert(change.key().hash, change.path.clone(), node);
        next
    }

    fn remove(&mut self, change: &Change) -> Node {
        let above = self.above(change);
        above.made += 1;
        above.children.remove(change.name());
        let node = self.nodes.remove(change.key());
        let node = node.expect("what is removed is there");
        assert!(node.children.is_empty(), "what has children stays");
        if let Some(owned) = node.owner.and_then(|owner| self.owned.get_mut(&owner)) {
            owned.retain(|other| *other != change.path);
        }
        node
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
        let mut undo = Vec::with_capacity(operations.len().saturating_sub(1));
        for (at, operation) in operations.iter().enumerate() {
            let (change, answer) = match self.plan(operation, session) {
                Ok(planned) => planned,
                Err(error) => {
                    self.undo(&changes, undo);
                    return Err(KeeperError { at, ..error });
                }
            };
            if let Some(change) = change {
                let before = self.exchange(&change);
                if at + 1 < operations.len() {
                    undo.push(before);
                }
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
        let found = |key: Key, wanted: Option<i64>| {
            let node = self.nodes.get(key);
            let node = node.ok_or_else(|| KeeperError::of(NO_NODE, path))?;
            if wanted.is_some_and(|wanted| wanted != node.version) {
                return Err(KeeperError::of(BAD_VERSION, path));
            }
            Ok(node)
        };
        match operation {
            Operation::Absent { .. } => {
                if self.has(path) {
                    return Err(KeeperError::of(NODE_EXISTS, path));
                }
                Ok((None, Done::Other))
            }
            Operation::Create {
                data,
                ephemeral,
                sequential,
                ..
            } => {
                let owner = ephemeral.then_some(session);
                let change = if *sequential {
                    let above = found(Key::of(split(path).0), None)?;
                    let path = numbered(path, above.next).into();
                    Change::made(path, data.clone(), owner)
                } else {
                    let change = Change::made(path.clone(), data.clone(), owner);
                    found(change.above(), None)?;
                    if self.nodes.get(change.key()).is_some() {
                        return Err(KeeperError::of(NODE_EXISTS, path));
                    }
                    change
                };
                let made = Done::Created(change.path.clone());
                Ok((Some(change), made))
            }
            Operation::Remove { version, .. } => {
                let change = Change::gone(path.clone());
                found(change.key(), *version)?;
                Ok((Some(change), Done::Other))
            }
            Operation::Put { data, version, .. } => {
                let change = Change::new(path.clone(), |_| Effect::Put(data.clone()));
                let node = found(change.key(), *version)?;
                Ok((Some(change), Done::Put(node.version + 1)))
            }
            Operation::Check { version, .. } => {
                found(Key::of(path), *version)?;
                Ok((None, Done::Other))
            }
        }
    }

    /// Sequential numbers that were taken are free again, as in ZooKeeper.
    #[cold]
    fn undo(&mut self, changes: &[Change], undo: Vec<Before>) {
        for (change, before) in changes.iter().zip(undo).rev() {
            match before {
                Before::Nothing(next) => {
                    self.remove(change);
                    self.above(change).next = next;
                }
                Before::Data(data, since) => {
                    let node = self.nodes.get_mut(change.key());
                    let node = node.expect("it has been changed");
                    node.data = data;
                    node.version -= 1;
                    node.mzxid = since;
                }
                Before::Node(node) => {
                    self.insert(change, change.name().into(), None, node);
                }
            }
        }
    }
}

/// As many as a sequential node has digits.
const ZEROS: &str = "0000000000";

/// With ten digits at its end.
pub fn numbered(name: &str, number: i64) -> String {
    let digits = Digits::of(number);
    let mut out = String::with_capacity(name.len() + 10);
    out.push_str(name);
    let digits = digits.as_str();
    out.push_str(ZEROS.get(digits.len()..).unwrap_or_default());
    out.push_str(digits);
    out
}

/// Of a name that ends with ten digits.
pub(super) fn number(name: &str) -> Option<i64> {
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
            Operation::remove("/a/b"),
            Operation::check("/no", None),
        ];
        let error = applied(&mut tree, &refused).expect_err("/no is not there");
        assert_eq!((error.code, error.at, &*error.path), (NO_NODE, 3, "/no"));
        assert_eq!(all(&tree), before);
        let answers = applied(&mut tree, &[Operation::numbered("/a/n-", Data::default())]);
        let path = Done::Created("/a/n-0000000000".into());
        assert_eq!(answers, Ok(vec![path]));
        let names: Vec<_> = tree
            .node("/a")
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
