//! A call that has ended.

use std::any::Any;
use std::rc::Rc;

use crate::interpreter::generator::{Context, Event, Generator};
use crate::interpreter::workers::{Seat, Workers};
use crate::interpreter::{Failure, Kind};
use crate::world::Ns;

/// What is told of it.
pub struct Ended {
    pub seat: Seat,
    pub process: i64,
    pub kind: Kind,
    pub f: Rc<str>,
    pub node: Rc<str>,
    pub time_ns: Ns,
}

impl Ended {
    /// The generator hears of it; `op` gives the same as the host knows it.
    pub(super) fn tell(
        &self,
        generator: &mut dyn Generator,
        workers: &Workers,
        op: &dyn Fn() -> Result<Rc<dyn Any>, Failure>,
    ) -> Result<(), Failure> {
        let context = Context::of(self.time_ns, workers);
        let event = Event {
            seat: self.seat,
            process: self.process,
            kind: self.kind,
            f: &self.f,
            node: &self.node,
            time_ns: self.time_ns,
            op,
        };
        generator.update(&context, &event).map(|_| ())
    }
}
