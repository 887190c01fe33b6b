//! Who makes the calls that are not statements: the workload's own clients, and the nemesis.

use std::any::Any;
use std::rc::Rc;

use crate::interpreter::generator::Call;
use crate::interpreter::Failure;
use crate::world::Ns;

/// A call that a host is to make.
pub struct Begun<'a> {
    pub index: u64,
    pub time_ns: Ns,
    pub number: i64,
    pub process: i64,
    pub node: &'a str,
    pub call: &'a Call,
}

/// Who makes the calls that are not statements.
pub trait Host {
    /// Begins a call. Returns its line of the history.
    fn begin(&self, begun: &Begun<'_>) -> Result<Vec<u8>, Failure>;
    /// A worker's process is retired, and its client with it.
    fn retired(&self, number: i64) -> Result<(), Failure>;
    /// An op by its line.
    fn op(&self, line: &[u8]) -> Result<Rc<dyn Any>, Failure>;
}
