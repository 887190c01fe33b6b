//! What events may have to pass when their time has come.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::world::{Act, Ns, Process};

const NEVER_NS: Ns = Ns::MAX;

/// What is to be done, and in whose life.
pub type Held = (Option<Rc<Process>>, Act);

/// Open from some time on.
pub struct Gate {
    /// Among the world's.
    pub(super) number: u32,
    opens_ns: Cell<Ns>,
    /// What came while it was shut.
    held: RefCell<Vec<Held>>,
}

impl Gate {
    pub(super) fn new(number: u32) -> Gate {
        Gate {
            number,
            opens_ns: Cell::new(0),
            held: RefCell::default(),
        }
    }

    /// No event before this.
    pub(super) fn opens_ns(&self) -> Ns {
        self.opens_ns.get()
    }

    /// What comes now.
    pub(super) fn holds(&self, now_ns: Ns) -> bool {
        now_ns < self.opens_ns.get()
    }

    pub fn is_shut(&self) -> bool {
        self.opens_ns.get() == NEVER_NS
    }

    /// Until it is opened.
    pub fn shut(&self) {
        self.opens_ns.set(NEVER_NS);
    }

    pub(super) fn hold(&self, of: Option<Rc<Process>>, act: Act) {
        assert!(self.is_shut(), "an open gate holds nothing");
        self.held.borrow_mut().push((of, act));
    }

    /// From then on; what it has held is the caller's.
    pub fn open(&self, ns: Ns) -> Vec<Held> {
        self.opens_ns.set(ns);
        self.held.take()
    }
}
