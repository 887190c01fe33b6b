//! What ZooKeeper lists of a replica's parts.

use std::cell::Ref;
use std::cmp::Ordering;
use std::rc::Rc;

use crate::keeper::tree::Names;
use crate::table::cover::Cover;
use crate::table::parts::{Info, Part};
use crate::table::replica::Table;

/// A list, and the active set of it.
pub struct Listed {
    made: i64,
    names: Names,
    /// What no other covers; None: it is not on the disk.
    pub cover: Cover<Option<Rc<Part>>>,
    /// Of which state of the disk that is.
    replaced: u64,
    /// Whether all of it is on the disk.
    whole: bool,
}

impl Listed {
    fn new(table: &Table, made: i64, names: &Names, cover: Cover<Option<Rc<Part>>>) -> Listed {
        Listed {
            made,
            names: names.clone(),
            whole: cover.all(Option::is_some),
            cover,
            replaced: table.replaced.get(),
        }
    }

    /// The parts of the active set, of one partition; None: not all partitions' are on the disk.
    pub fn parts_of(&self, partition: &str) -> Option<impl Iterator<Item = &Rc<Part>>> {
        let parts = self.cover.of(partition);
        self.whole.then(|| parts.filter_map(Option::as_ref))
    }

    /// Whether the disk is as it was.
    fn is_true(&self, table: &Table) -> bool {
        self.whole && self.replaced == table.replaced.get()
    }

    /// The same list, as the disk is now.
    fn looked_up(self, table: &Table) -> Listed {
        if self.is_true(table) {
            return self;
        }
        let mut cover = self.cover;
        cover.replace(|info, part| match part {
            Some(part) => table.part(&part.name),
            None => table.part(&info.name()),
        });
        Listed::new(table, self.made, &self.names, cover)
    }
}

impl Table {
    /// The active set of what ZooKeeper lists, kept as long as the list is the same.
    pub fn listed(&self, made: i64, names: &Names) -> Ref<'_, Listed> {
        let is_same = |known: &Listed| known.made == made && known.is_true(self);
        if !self.listed.borrow().as_ref().is_some_and(is_same) {
            let known = self.listed.take().map(|known| known.looked_up(self));
            self.listed.replace(Some(match known {
                Some(same) if same.made == made => same,
                Some(before) => self.changed(before, made, names),
                None => Listed::new(self, made, names, self.cover_of(names)),
            }));
        }
        Ref::map(self.listed.borrow(), |listed| {
            listed.as_ref().expect("it is there")
        })
    }

    /// A list after another.
    fn changed(&self, before: Listed, made: i64, names: &Names) -> Listed {
        let (gone, fresh) = differences(&before.names, names);
        let mut cover = before.cover;
        for name in fresh {
            let (info, part) = self.known(name);
            cover.add(&info, part);
        }
        if gone
            .iter()
            .any(|name| cover.get(&Info::named(name)).is_some())
        {
            // What it covered is to be seen again.
            cover = self.cover_of(names);
        } else if !gone.is_empty() {
            cover.reorder(latest_first);
        }
        Listed::new(self, made, names, cover)
    }

    fn cover_of(&self, names: &Names) -> Cover<Option<Rc<Part>>> {
        cover_of(names.iter().map(|name| self.known(name)))
    }

    /// What a part's name says, and the part, if it is on the disk.
    fn known(&self, name: &str) -> (Info, Option<Rc<Part>>) {
        match self.part(name) {
            Some(part) => (part.info.clone(), Some(part)),
            None => (Info::named(name), None),
        }
    }
}

/// What only the one has, and what only the other.
fn differences<'a>(before: &'a Names, now: &'a Names) -> (Vec<&'a str>, Vec<&'a str>) {
    let (mut gone, mut fresh) = (Vec::new(), Vec::new());
    // The same names are usually shared, but those of another server are not.
    let is_shared = |(one, other): &(&Rc<str>, &Rc<str>)| Rc::ptr_eq(one, other);
    let first = before.iter().zip(now.iter()).take_while(is_shared).count();
    let (before, now) = (&before[first..], &now[first..]);
    let last = before.iter().rev().zip(now.iter().rev());
    let last = last.take_while(is_shared).count();
    let mut before = before[..before.len() - last].iter().peekable();
    for name in &now[..now.len() - last] {
        while let Some(one) = before.next_if(|one| *one < name) {
            gone.push(&**one);
        }
        if before.next_if(|one| *one == name).is_none() {
            fresh.push(&**name);
        }
    }
    gone.extend(before.map(|name| &**name));
    (gone, fresh)
}

/// What comes first when a list is read for the first time.
fn latest_first(one: &Info, other: &Info) -> Ordering {
    let latest = (other.level, other.mutation).cmp(&(one.level, one.mutation));
    latest.then_with(|| one.cmp(other))
}

/// Of a list of parts, what no other covers.
pub fn cover_of<T>(parts: impl Iterator<Item = (Info, T)>) -> Cover<T> {
    let mut parts: Vec<(Info, T)> = parts.collect();
    parts.sort_by(|(one, _), (other, _)| latest_first(one, other));
    let mut cover = Cover::default();
    for (info, thing) in parts {
        cover.add(&info, thing);
    }
    cover
}
