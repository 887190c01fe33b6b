//! Holds back events that are due.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::world::{Action, Ns, Process};

const NEVER_NS: Ns = Ns::MAX;

/// A held action and the life in which it happens.
pub type Held = (Option<Rc<Process>>, Action);

/// A gate that is open from some time on.
pub struct Gate {
    /// The index among the world's gates.
    pub(super) number: u32,
    opens_ns: Cell<Ns>,
    /// The events that came while the gate was shut.
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

    /// Returns the time before which no event passes.
    pub(super) fn opens_ns(&self) -> Ns {
        self.opens_ns.get()
    }

    /// Whether an event that is due now is held.
    pub(super) fn holds(&self, now_ns: Ns) -> bool {
        now_ns < self.opens_ns.get()
    }

    pub fn is_shut(&self) -> bool {
        self.opens_ns.get() == NEVER_NS
    }

    /// Shuts the gate until it is opened.
    pub fn shut(&self) {
        assert!(self.held.borrow().is_empty(), "an open gate holds nothing");
        self.opens_ns.set(NEVER_NS);
    }

    pub(super) fn hold(&self, of: Option<Rc<Process>>, act: Action) {
        assert!(self.is_shut(), "an open gate holds nothing");
        self.held.borrow_mut().push((of, act));
    }

    /// Opens the gate from `ns` on and returns the held events.
    pub fn open(&self, ns: Ns) -> Vec<Held> {
        assert!(ns < NEVER_NS, "an open gate lets events pass");
        self.opens_ns.set(ns);
        self.held.take()
    }
}
