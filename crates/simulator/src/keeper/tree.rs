//! Implements ZooKeeper's data: nodes, versions, ephemeral owners, sequential names, and changes to
//! them.
//!
//! The leader turns a request into changes once, and every server applies the changes. So no two
//! servers can interpret a request differently.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::errors::{KeeperError, BAD_VERSION, NODE_EXISTS, NOT_EMPTY, NO_NODE};
use crate::keeper::paths::{above, number, numbered, split, Key, PathMap};
use crate::world::Ns;

pub use crate::keeper::data::Data;
pub use crate::keeper::names::Names;
pub use crate::keeper::operation::{Done, Operation};
pub use crate::keeper::paths::{child, Path};

/// A change of one node.
#[derive(Debug, Clone)]
pub struct Change {
    pub path: Path,
    /// Hashes of the path and of the parent's path.
    hashes: [u64; 2],
    /// Index of the last slash in the path.
    slash: usize,
    pub effect: Effect,
}

#[derive(Debug, Clone)]
pub enum Effect {
    Created(Created),
    Put(Data),
    Removed,
}

/// A created node.
#[derive(Debug, Clone)]
pub struct Created {
    /// The last component of the path.
    name: Rc<str>,
    /// The number at the end of a sequential name.
    number: Option<i64>,
    data: Data,
    /// The session that owns an ephemeral node.
    owner: Option<u64>,
}

impl Created {
    pub fn data(&self) -> &Data {
        &self.data
    }

    pub fn is_ephemeral(&self) -> bool {
        self.owner.is_some()
    }
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
            Effect::Created(Created {
                name: name.into(),
                number: number(name),
                data,
                owner,
            })
        })
    }

    /// Creates the removal of a node.
    pub fn removal(path: Path) -> Change {
        Change::new(path, |_| Effect::Removed)
    }

    /// Returns the node's new data, unless the node is removed.
    pub fn data(&self) -> Option<&Data> {
        match &self.effect {
            Effect::Created(Created { data, .. }) | Effect::Put(data) => Some(data),
            Effect::Removed => None,
        }
    }

    pub fn key(&self) -> Key<'_> {
        let (path, hash) = (&*self.path, self.hashes[0]);
        Key { path, hash }
    }

    /// Returns the parent's path.
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
    /// The transaction that created the node.
    pub czxid: i64,
    /// The last transaction that changed its data.
    pub mzxid: i64,
    /// Its time of creation, by the leader's clock.
    pub ctime_ns: Ns,
    /// Number of children that were ever created; the version of the list of children.
    pub made: i64,
    /// The number of the next sequential child.
    next: i64,
    pub children: Names,
}

impl Node {
    fn new(data: Data, owner: Option<u64>, zxid: i64, ctime_ns: Ns) -> Node {
        Node {
            data,
            owner,
            version: 0,
            czxid: zxid,
            mzxid: zxid,
            ctime_ns,
            made: 0,
            next: 0,
            children: Names::default(),
        }
    }
}

/// What undoes a change.
enum Before {
    /// The node did not exist; the parent's next number.
    Nothing(i64),
    /// The previous data and its transaction.
    Data(Data, i64),
    Node(Node),
}

/// The nodes of one server.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The transaction whose changes are applied next.
    pub zxid: i64,
    /// The time of that transaction.
    pub now_ns: Ns,
    nodes: PathMap<Node>,
    /// Ephemeral nodes by session, in order of creation.
    owned: FxHashMap<u64, Vec<Path>>,
}

impl Default for Tree {
    fn default() -> Tree {
        let mut nodes = PathMap::default();
        let root = Node::new(Data::default(), None, 0, 0);
        nodes.insert(Key::of("/").hash, "/".into(), root);
        Tree {
            zxid: 0,
            now_ns: 0,
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

    /// Returns a node that must exist.
    pub fn node(&self, path: &str) -> &Node {
        self.get(path).expect("the node exists")
    }

    pub fn has(&self, path: &str) -> bool {
        self.get(path).is_some()
    }

    /// Returns the ephemeral nodes of a session.
    pub fn owned(&self, session: u64) -> &[Path] {
        self.owned.get(&session).map_or(&[], Vec::as_slice)
    }

    /// Applies a change; returns whether it changes the parent's list of children.
    pub fn change(&mut self, change: &Change) -> bool {
        match &change.effect {
            Effect::Created(made) => _ = self.make(change, made),
            Effect::Put(data) => _ = self.put(change, data),
            Effect::Removed => _ = self.remove(change),
        }
        !matches!(change.effect, Effect::Put(_))
    }

    /// Applies a change; returns what undoes it.
    fn exchange(&mut self, change: &Change) -> Before {
        match &change.effect {
            Effect::Created(made) => Before::Nothing(self.make(change, made)),
            Effect::Put(data) => {
                let (data, since) = self.put(change, data);
                Before::Data(data, since)
            }
            Effect::Removed => Before::Node(self.remove(change)),
        }
    }

    fn above(&mut self, change: &Change) -> &mut Node {
        let above = self.nodes.get_mut(change.above());
        above.expect("a changed node has a parent")
    }

    /// Creates a node; returns the parent's previous next number.
    fn make(&mut self, change: &Change, made: &Created) -> i64 {
        let node = Node::new(made.data.clone(), made.owner, self.zxid, self.now_ns);
        self.insert(change, made.name.clone(), made.number, node)
    }

    /// Replaces the data; returns the previous data and its transaction.
    fn put(&mut self, change: &Change, data: &Data) -> (Data, i64) {
        let node = self.nodes.get_mut(change.key());
        let node = node.expect("a changed node exists");
        assert!(node.mzxid <= self.zxid, "zxids increase");
        node.version += 1;
        let since = std::mem::replace(&mut node.mzxid, self.zxid);
        (std::mem::replace(&mut node.data, data.clone()), since)
    }

    /// Inserts a node below its parent; returns the parent's previous next number.
    fn insert(&mut self, change: &Change, name: Rc<str>, number: Option<i64>, node: Node) -> i64 {
        let above = self.above(change);
        assert!(
            above.owner.is_none(),
            "an ephemeral node cannot have children"
        );
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
        assert!(above.made > 0, "the parent has had children");
        above.made += 1;
        above.children.remove(change.name());
        let node = self.nodes.remove(change.key());
        let node = node.expect("a removed node exists");
        assert!(node.children.is_empty(), "a removed node has no children");
        if let Some(owner) = node.owner {
            let owned = self.owned.get_mut(&owner);
            let owned = owned.expect("the owner lists its ephemeral nodes");
            let before = owned.len();
            owned.retain(|other| *other != change.path);
            assert_eq!(
                owned.len() + 1,
                before,
                "the owner lists an ephemeral node once"
            );
        }
        node
    }

    /// Applies a multi; returns its changes and each operation's result. If an operation fails, the
    /// tree is restored.
    pub fn planned(
        &mut self,
        operations: &[Operation],
        session: u64,
    ) -> Result<(Vec<Change>, Vec<Done>), KeeperError> {
        let before = self.nodes.len();
        let mut changes = Vec::with_capacity(operations.len());
        let mut answers = Vec::with_capacity(operations.len());
        let mut undo = Vec::with_capacity(operations.len().saturating_sub(1));
        for (at, operation) in operations.iter().enumerate() {
            let (change, answer) = match self.plan(operation, session) {
                Ok(planned) => planned,
                Err(error) => {
                    self.undo(&changes, undo);
                    assert_eq!(self.nodes.len(), before, "a failed multi changes nothing");
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
        assert_eq!(
            answers.len(),
            operations.len(),
            "every operation has a result"
        );
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
                let change = Change::removal(path.clone());
                let empty = found(change.key(), *version)?.children.is_empty();
                let done = empty.then_some((Some(change), Done::Other));
                done.ok_or_else(|| KeeperError::of(NOT_EMPTY, path))
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

    /// Undoes changes. As in ZooKeeper, sequential numbers that were taken are free again.
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
                    let node = node.expect("a node whose data changed exists");
                    assert!(node.version > 0, "a changed node has a version above 0");
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
        applied(&mut tree, &made).expect("the tree is empty");
        let before = all(&tree);
        let refused = [
            Operation::put("/a/b", Data::Number(2)),
            Operation::numbered("/a/n-", Data::default()),
            Operation::remove("/a/b"),
            Operation::check("/no", None),
        ];
        let error = applied(&mut tree, &refused).expect_err("/no does not exist");
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
        applied(&mut tree, &[Operation::create("/a", Data::Number(1))])
            .expect("the node does not exist");
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
        let error = applied(&mut tree, &[Operation::absent("/a")]).expect_err("the node exists");
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
        applied(&mut tree, &[ephemeral]).expect("the node does not exist");
        assert_eq!(tree.owned(1), [Path::from("/e")]);
        let undone = [Operation::remove("/e"), Operation::check("/no", None)];
        applied(&mut tree, &undone).expect_err("/no does not exist");
        assert_eq!(tree.owned(1), [Path::from("/e")]);
        applied(&mut tree, &[Operation::remove("/e")]).expect("the node exists");
        assert!(tree.owned(1).is_empty());
    }
}
