//! Handles paths of nodes, and maps by path. Whoever looks up a path first computes its hash, once.

use std::hash::Hasher;
use std::rc::Rc;

use hashbrown::HashTable;
use histories::digits::Digits;
use rustc_hash::FxHasher;

pub type Path = Rc<str>;

/// Returns the path of a child.
pub fn child(above: &str, name: &str) -> Path {
    let mut out = String::with_capacity(above.len() + 1 + name.len());
    out.push_str(above);
    out.push('/');
    out.push_str(name);
    out.into()
}

/// Splits "/a/b" into "/a" and "b".
pub fn split(path: &str) -> (&str, &str) {
    let slash = path.bytes().rposition(|byte| byte == b'/');
    let slash = slash.expect("a path begins with /");
    (above(path, slash), &path[slash + 1..])
}

/// Returns the parent's path, given the index of the last slash.
pub(super) fn above(path: &str, slash: usize) -> &str {
    &path[..slash.max(1)]
}

/// A path with its hash.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    pub path: &'a str,
    pub(super) hash: u64,
}

impl Key<'_> {
    #[inline(never)]
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

/// A path that is looked up often, with its hash.
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
    #[inline(never)]
    pub fn get(&self, key: Key) -> Option<&T> {
        let found = self.0.find(key.hash, |item| key.is(&item.path));
        found.map(|item| &item.value)
    }

    #[inline(never)]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let found = self.0.find_mut(key.hash, |item| key.is(&item.path));
        found.map(|item| &mut item.value)
    }

    /// Inserts a path that the map does not have; `hash` is the path's.
    pub fn insert(&mut self, hash: u64, path: Path, value: T) {
        let known = self.0.find(hash, |item| item.path == path);
        assert!(known.is_none(), "a path is inserted once");
        let item = Item { hash, path, value };
        self.0.insert_unique(hash, item, |item| item.hash);
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        let found = self.0.find_entry(key.hash, |item| key.is(&item.path));
        let (item, _) = found.ok()?.remove();
        Some(item.value)
    }

    pub fn len(&self) -> usize {
        self.0.len()
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

/// As many zeros as a sequential node has digits.
const ZEROS: &str = "0000000000";

/// Returns the name with a suffix of ten digits.
pub fn numbered(name: &str, number: i64) -> String {
    let digits = Digits::of(number);
    let mut out = String::with_capacity(name.len() + 10);
    out.push_str(name);
    let digits = digits.as_str();
    out.push_str(ZEROS.get(digits.len()..).unwrap_or_default());
    out.push_str(digits);
    out
}

/// Returns the number of a name that ends with ten digits.
pub fn number(name: &str) -> Option<i64> {
    let (_, end) = name.as_bytes().split_last_chunk::<10>()?;
    let add = |sum: i64, digit: &u8| {
        let digit = digit.is_ascii_digit().then_some(i64::from(digit - b'0'))?;
        Some(sum * 10 + digit)
    };
    end.iter().try_fold(0, add)
}

/// Return the number of a sequential node; panic if the node is not sequential.
pub fn number_of(name: &str) -> i64 {
    number(name).expect("a sequential node ends with its number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_digits_are_a_number() {
        assert_eq!(number("log-0000000041"), Some(41));
        assert_eq!(number("0000000041"), Some(41));
        assert_eq!(number("log-000000004x"), None);
        assert_eq!(number("41"), None);
    }
}
