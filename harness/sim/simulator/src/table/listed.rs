//! What ZooKeeper lists of a replica's parts.

use std::cell::{Cell, RefMut};
use std::rc::Rc;

use crate::keeper::tree::Names;
use crate::table::parts::{Cover, Info};
use crate::table::replica::Table;

/// A list, and the active set of it.
pub struct Listed {
    made: i64,
    names: Names,
    /// The names that no other covers.
    pub cover: Cover<Rc<str>>,
    /// How many parts were forgotten when all of these were on the disk.
    all_here: Cell<Option<u64>>,
}

impl Table {
    /// The active set of what ZooKeeper lists, kept as long as the list is the same.
    pub fn listed(&self, made: i64, names: &Names) -> RefMut<'_, Listed> {
        let mut listed = self.listed.borrow_mut();
        if listed.as_ref().is_none_or(|same| same.made != made) {
            let before = listed.take();
            let larger = before.and_then(|before| self.larger(before, names));
            let cover = larger.unwrap_or_else(|| cover_of(names, |name| self.info(name)));
            *listed = Some(Listed {
                made,
                names: names.clone(),
                cover,
                all_here: Cell::new(None),
            });
        }
        RefMut::map(listed, |listed| listed.as_mut().expect("it is there"))
    }

    /// None: something was taken off the list.
    fn larger(&self, before: Listed, names: &Names) -> Option<Cover<Rc<str>>> {
        let count = names.len().checked_sub(before.names.len())?;
        let mut same = before.names.iter().peekable();
        let is_fresh = |name: &&Rc<str>| same.next_if(|one| Rc::ptr_eq(one, name)).is_none();
        let mut fresh: Vec<&Rc<str>> = names.iter().filter(is_fresh).collect();
        if fresh.len() != count {
            // The same names may come from another server.
            fresh = names.difference(&before.names).collect();
        }
        if fresh.len() != count {
            return None;
        }
        let mut cover = before.cover;
        for name in fresh {
            cover.add(&self.info(name), name.clone());
        }
        Some(cover)
    }

    /// What a part's name says.
    fn info(&self, name: &str) -> Info {
        let parts = self.disk.parts.borrow();
        let part = parts.get(name);
        part.map_or_else(|| Info::named(name), |part| part.info.clone())
    }

    /// Whether every part of that active set is on the disk.
    pub fn has_all(&self, listed: &Listed) -> bool {
        let now = Some(self.forgotten.get());
        if listed.all_here.get() != now {
            let parts = self.disk.parts.borrow();
            if !listed.cover.things().all(|name| parts.contains_key(name)) {
                return false;
            }
            listed.all_here.set(now);
        }
        true
    }
}

/// Of a list of parts, the names that no other covers.
pub fn cover_of(names: &Names, info: impl Fn(&str) -> Info) -> Cover<Rc<str>> {
    let parts = names.iter().map(|name| (info(name), name));
    let mut parts: Vec<(Info, &Rc<str>)> = parts.collect();
    parts.sort_by(|(one, _), (other, _)| {
        let latest = (other.level, other.mutation).cmp(&(one.level, one.mutation));
        latest.then_with(|| one.cmp(other))
    });
    let mut cover = Cover::default();
    for (info, name) in parts {
        cover.add(&info, name.clone());
    }
    cover
}
