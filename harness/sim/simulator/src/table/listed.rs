//! What ZooKeeper lists of a replica's parts.

use std::cell::RefMut;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::keeper::tree::Names;
use crate::table::parts::{Cover, Info, Part};
use crate::table::replica::Table;

/// A list, and the active set of it.
pub struct Listed {
    made: i64,
    names: Names,
    /// The names that no other covers.
    pub cover: Cover<Rc<str>>,
    /// The parts of those names by partition, and of which state of the disk.
    here: Option<(u64, ByPartition)>,
}

type ByPartition = FxHashMap<Rc<str>, Vec<Rc<Part>>>;

impl Listed {
    /// The parts of the active set, of one partition; None: not all partitions' are on the disk.
    pub fn here(&mut self, table: &Table, partition: &str) -> Option<&[Rc<Part>]> {
        let now = table.replaced.get();
        if self.here.as_ref().is_none_or(|(then, _)| *then != now) {
            let parts = table.disk.parts.borrow();
            let mut here = ByPartition::default();
            for (info, name) in self.cover.pairs() {
                let of_partition = here.entry(info.partition.clone()).or_default();
                of_partition.push(parts.get(name)?.clone());
            }
            self.here = Some((now, here));
        }
        let (_, here) = self.here.as_ref()?;
        Some(here.get(partition).map_or(&[], Vec::as_slice))
    }
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
                here: None,
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
