//! Caches the blocks that selects returned, as long as the same parts would be read.

use std::rc::Rc;

use crate::block::Block;
use crate::errors::ServerError;
use crate::keeper::session::Found;
use crate::table::parts::Part;
use crate::table::selection::Selection;
use crate::table::snapshot::Snapshot;

/// The cached results, with the moment of ZooKeeper and of the disk to which they belong.
#[derive(Default)]
pub struct Answers {
    found: Option<Rc<[Found]>>,
    replaced: u64,
    /// Number of moments that differed from the one before in what is read.
    moment: u64,
    known: Vec<Known>,
}

struct Known {
    selection: Rc<Selection>,
    parts: Vec<Rc<Part>>,
    block: Rc<Block>,
    /// The last moment at which exactly these parts were read.
    moment: u64,
}

impl Known {
    fn is_of(&self, parts: &[&Rc<Part>]) -> bool {
        let mut pairs = self.parts.iter().zip(parts);
        self.parts.len() == parts.len() && pairs.all(|(one, other)| Rc::ptr_eq(one, other))
    }
}

impl Answers {
    const CAPACITY: usize = 64;

    /// Moves to the moment of this snapshot, at which all committed parts must be on the disk.
    /// Results of the previous moment stay valid if the snapshot lists and excludes the same parts.
    pub fn move_to(
        &mut self,
        replaced: u64,
        found: &Rc<[Found]>,
        check: impl FnOnce(&Snapshot) -> Result<(), ServerError>,
    ) -> Result<(), ServerError> {
        let before = self.found.as_ref().filter(|_| self.replaced == replaced);
        if before.is_some_and(|before| Rc::ptr_eq(before, found)) {
            return Ok(());
        }
        let now = Snapshot::of(found)?;
        check(&now)?;
        let is_same =
            |before: &Rc<[Found]>| Snapshot::of(before).is_ok_and(|before| before.reads_as(&now));
        if !before.is_some_and(is_same) {
            self.moment += 1;
        }
        (self.found, self.replaced) = (Some(found.clone()), replaced);
        Ok(())
    }

    pub fn of(&self, selection: &Rc<Selection>) -> Option<Rc<Block>> {
        let known = &self.known[self.place(selection)?];
        (known.moment == self.moment).then(|| known.block.clone())
    }

    /// Searches the latest results first, because they are requested most.
    fn place(&self, selection: &Rc<Selection>) -> Option<usize> {
        let mut known = self.known.iter();
        known.rposition(|known| Rc::ptr_eq(&known.selection, selection))
    }

    /// Returns the block of the parts that are to be read now, cached as long as these stay the
    /// same.
    pub fn of_parts(
        &mut self,
        selection: &Rc<Selection>,
        parts: &[&Rc<Part>],
    ) -> Result<Rc<Block>, ServerError> {
        let at = self.place(selection);
        if let Some(known) = at.map(|at| &mut self.known[at]) {
            if known.is_of(parts) {
                known.moment = self.moment;
                return Ok(known.block.clone());
            }
        }
        let block = Rc::new(selection.of(parts)?);
        let known = Known {
            selection: selection.clone(),
            parts: parts.iter().copied().cloned().collect(),
            block: block.clone(),
            moment: self.moment,
        };
        match at {
            Some(at) => self.known[at] = known,
            None => {
                if self.known.len() == Answers::CAPACITY {
                    self.known.clear();
                }
                self.known.push(known);
            }
        }
        assert!(
            self.known.len() <= Answers::CAPACITY,
            "old answers are dropped"
        );
        Ok(block)
    }
}
