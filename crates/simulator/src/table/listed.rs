//! Caches what ZooKeeper lists as a replica's parts.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::keeper::tree::Names;
use crate::table::active_parts::ActivePartSet;
use crate::table::parts::{Info, Part};

/// The listed parts that no other covers, `None` for a part that is not on the disk.
type Cover = ActivePartSet<Option<Rc<Part>>>;

/// A list of parts and its active set.
pub struct Listed {
    made: i64,
    names: Names,
    pub cover: Cover,
    /// The state of the disk at which the parts were looked up.
    replaced: u64,
    /// Whether all of the active set is on the disk.
    whole: bool,
}

impl Listed {
    fn new(made: i64, names: &Names, cover: Cover, replaced: u64) -> Listed {
        Listed {
            made,
            names: names.clone(),
            whole: cover.all(Option::is_some),
            cover,
            replaced,
        }
    }

    /// Read a list for the first time. `part` returns the part of a name if it is on the disk.
    pub fn read(
        made: i64,
        names: &Names,
        replaced: u64,
        part: impl Fn(&str) -> Option<Rc<Part>>,
    ) -> Listed {
        let cover = cover_of(names.iter().map(|name| known(name, part(name))));
        Listed::new(made, names, cover, replaced)
    }

    /// Return the version of the list.
    pub fn made(&self) -> i64 {
        self.made
    }

    /// Return the active parts of one partition; `None` if some part is not on the disk.
    pub fn parts_of(&self, partition: &str) -> Option<impl Iterator<Item = &Rc<Part>>> {
        let parts = self.cover.of(partition);
        self.whole.then(|| parts.filter_map(Option::as_ref))
    }

    /// Return whether the disk has not changed since the parts were looked up.
    pub fn is_current(&self, replaced: u64) -> bool {
        self.whole && self.replaced == replaced
    }

    /// Return the same list with the parts that are on the disk now.
    pub fn looked_up(self, replaced: u64, part: impl Fn(&str) -> Option<Rc<Part>>) -> Listed {
        if self.is_current(replaced) {
            return self;
        }
        let mut cover = self.cover;
        cover.replace(|info, known| match known {
            Some(known) => part(&known.name),
            None => part(&info.name()),
        });
        Listed::new(self.made, &self.names, cover, replaced)
    }

    /// Return the list that replaces this one.
    pub fn changed(
        self,
        made: i64,
        names: &Names,
        replaced: u64,
        part: impl Fn(&str) -> Option<Rc<Part>>,
    ) -> Listed {
        let (gone, fresh) = differences(&self.names, names);
        let mut cover = self.cover;
        for name in fresh {
            let (info, part) = known(name, part(name));
            cover.add(&info, part);
        }
        let shown = |name: &&str| cover.get(&Info::named(name)).is_some();
        if gone.iter().any(shown) {
            // The parts that the removed one covered become active again.
            return Listed::read(made, names, replaced, part);
        }
        if !gone.is_empty() {
            cover.reorder(latest_first);
        }
        Listed::new(made, names, cover, replaced)
    }
}

/// Return the Info of a part's name, and the part.
fn known(name: &str, part: Option<Rc<Part>>) -> (Info, Option<Rc<Part>>) {
    let info = match &part {
        Some(part) => part.info.clone(),
        None => Info::named(name),
    };
    (info, part)
}

/// Return the names that are only in the first list, and those only in the second.
fn differences<'a>(before: &'a Names, now: &'a Names) -> (Vec<&'a str>, Vec<&'a str>) {
    let (mut gone, mut fresh) = (Vec::new(), Vec::new());
    // Equal names are usually the same object, but not those from another server.
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

/// The order in which a list is read for the first time.
fn latest_first(one: &Info, other: &Info) -> Ordering {
    let latest = (other.level, other.mutation).cmp(&(one.level, one.mutation));
    latest.then_with(|| one.cmp(other))
}

/// Return the active set of a list of parts.
pub fn cover_of<T>(parts: impl Iterator<Item = (Info, T)>) -> ActivePartSet<T> {
    let mut parts: Vec<(Info, T)> = parts.collect();
    parts.sort_by(|(one, _), (other, _)| latest_first(one, other));
    let mut cover = ActivePartSet::default();
    for (info, thing) in parts {
        cover.add(&info, thing);
    }
    cover
}
