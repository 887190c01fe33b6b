//! How many calls there were.

use std::rc::Rc;

use crate::interpreter::Kind;

/// What has been counted since it was last asked.
#[derive(Default)]
pub struct Counts {
    /// Clients' calls that ended: few kinds of them.
    pub ended: Vec<(Rc<str>, Kind, u64)>,
    pub begun: u64,
}

impl Counts {
    pub fn end(&mut self, f: &Rc<str>, kind: Kind) {
        let same = |one: &Rc<str>| Rc::ptr_eq(one, f) || one == f;
        let mut ended = self.ended.iter_mut();
        match ended.find(|(one, of, _)| *of == kind && same(one)) {
            Some((.., count)) => *count += 1,
            None => self.ended.push((f.clone(), kind, 1)),
        }
    }
}
