//! Maps by the paths of nodes. A path's hash is computed once, by whoever asks first.

use std::hash::Hasher;
use std::rc::Rc;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

pub type Path = Rc<str>;

/// Of the node of that name below another.
pub fn child(above: &str, name: &str) -> Path {
    let mut out = String::with_capacity(above.len() + 1 + name.len());
    out.push_str(above);
    out.push('/');
    out.push_str(name);
    out.into()
}

/// Of "/a/b" it is "/a", and the name "b".
pub fn split(path: &str) -> (&str, &str) {
    let slash = path.bytes().rposition(|byte| byte == b'/');
    let slash = slash.expect("a path begins with /");
    (above(path, slash), &path[slash + 1..])
}

/// What is before the slash there, which is the last.
pub(super) fn above(path: &str, slash: usize) -> &str {
    &path[..slash.max(1)]
}

/// A path, and its hash.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    pub path: &'a str,
    pub(super) hash: u64,
}

impl Key<'_> {
    pub fn of(path: &str) -> Key<'_> {
        let mut hasher = FxHasher::default();
        hasher.write(path.as_bytes());
        let hash = hasher.finish();
        Key { path, hash }
    }

    fn is(&self, path: &str) -> bool {
        std::ptr::eq(self.path, path) || self.path == path
    }
}

/// A path that is looked up again and again.
pub struct Hashed {
    pub path: Path,
    hash: u64,
}

impl From<Path> for Hashed {
    fn from(path: Path) -> Hashed {
        let hash = Key::of(&path).hash;
        Hashed { path, hash }
    }
}

impl Hashed {
    pub fn key(&self) -> Key<'_> {
        let (path, hash) = (&*self.path, self.hash);
        Key { path, hash }
    }
}

#[derive(Debug, Clone)]
struct Item<T> {
    hash: u64,
    path: Path,
    value: T,
}

/// Values by path.
#[derive(Debug, Clone)]
pub struct PathMap<T>(HashTable<Item<T>>);

impl<T> Default for PathMap<T> {
    fn default() -> PathMap<T> {
        PathMap(HashTable::new())
    }
}

impl<T> PathMap<T> {
    pub fn get(&self, key: Key) -> Option<&T> {
        let found = self.0.find(key.hash, |item| key.is(&item.path));
        found.map(|item| &item.value)
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let found = self.0.find_mut(key.hash, |item| key.is(&item.path));
        found.map(|item| &mut item.value)
    }

    /// One that it has not; `hash` is the path's.
    pub fn insert(&mut self, hash: u64, path: Path, value: T) {
        let item = Item { hash, path, value };
        self.0.insert_unique(hash, item, |item| item.hash);
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        let found = self.0.find_entry(key.hash, |item| key.is(&item.path));
        let (item, _) = found.ok()?.remove();
        Some(item.value)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &T)> {
        self.0.iter().map(|item| (&item.path, &item.value))
    }
}
