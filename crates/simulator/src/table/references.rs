//! Defines what a replica's disk knows of the object store.

use std::cell::RefCell;
use std::rc::Rc;

use crate::table::parts::Ordered;

/// Where a table's data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Storage {
    /// Whether it may be in the object store.
    pub on_store: bool,
    /// Whether new parts are on the local disk nevertheless, until they are moved.
    pub hybrid: bool,
    /// Whether replicas share it.
    pub zero_copy: bool,
}

/// A part's name, and the copy of its objects to which it refers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub part: Rc<str>,
    pub blob: Rc<str>,
}

/// What a replica's disk knows of the object store. It survives a restart.
#[derive(Default)]
pub struct References {
    /// The copy of each part on the disk.
    pub parts: RefCell<Ordered<Rc<str>, Rc<str>>>,
    /// References of parts that are being written or fetched.
    pub pending: RefCell<Vec<Reference>>,
    /// References to be released.
    pub garbage: RefCell<Vec<Reference>>,
    /// Parts with the lock of a fetch.
    pub fetches: RefCell<Ordered<Rc<str>, ()>>,
}

impl References {
    /// Releases later what a part of this name, which is gone or replaced, refers to.
    pub fn release(&self, part: &str) {
        if let Some(blob) = self.parts.borrow_mut().shift_remove(part) {
            let part = part.into();
            self.garbage.borrow_mut().push(Reference { part, blob });
        }
        assert!(!self.parts.borrow().contains_key(part), "it was released");
    }

    /// Lets another file of the disk refer to a part's copy too, as a hard link does.
    pub fn link(&self, name: &str, blob: &Rc<str>) {
        let before = self.parts.borrow_mut().insert(name.into(), blob.clone());
        assert!(before.is_none_or(|before| before == *blob), "a link stays");
    }

    /// Removes such a link. The copy stays as long as another file refers to it.
    pub fn unlink(&self, name: &str) {
        let blob = self.parts.borrow_mut().shift_remove(name);
        let kept = blob.is_none_or(|blob| self.refers_to(&blob));
        assert!(kept, "a copy is unlinked once a part refers to it");
    }

    /// Whether some file refers to a copy.
    pub fn refers_to(&self, blob: &Rc<str>) -> bool {
        self.parts.borrow().values().any(|other| other == blob)
    }

    /// Gives up what a former life was doing, and what belongs to no part on the disk.
    pub fn reopen(&self, is_here: impl Fn(&str) -> bool) {
        let pending = self.pending.take();
        self.garbage.borrow_mut().extend(pending);
        let names: Vec<_> = self.parts.borrow().keys().cloned().collect();
        for name in names.iter().filter(|name| !is_here(name)) {
            self.release(name);
        }
        assert!(
            self.pending.borrow().is_empty(),
            "a new life has begun nothing"
        );
    }

    /// Ends the writing or a fetch of a copy, which then belongs to a part or is released.
    pub fn settle(&self, reference: Reference, belongs: bool) {
        let mut pending = self.pending.borrow_mut();
        let at = pending.iter().position(|other| *other == reference);
        pending.remove(at.expect("a copy is settled once"));
        drop(pending);
        let known = self.parts.borrow().get(&reference.part) == Some(&reference.blob);
        if !belongs {
            self.garbage.borrow_mut().push(reference);
        } else if !known {
            self.release(&reference.part);
            let mut parts = self.parts.borrow_mut();
            parts.insert(reference.part, reference.blob);
        }
    }
}

/// Returns the objects of a copy: the file of each, and its key.
pub fn objects(blob: &str) -> [(&'static str, Rc<str>); 2] {
    let key = |file| (file, format!("{blob}/{file}").into());
    [key("checksums.txt"), key("data.bin")]
}

/// Returns the keys of a copy's objects.
pub fn keys(blob: &str) -> Vec<Rc<str>> {
    objects(blob).map(|(_, key)| key).into()
}
