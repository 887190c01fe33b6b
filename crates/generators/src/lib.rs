//! Generates the calls of a history: what each worker does next, and when.
//!
//! A [`generator::Generator`] is asked for a step and learns how calls end. Combinators wrap
//! generators; [`scheduler::Scheduler`] asks the outermost one, gives calls to workers and numbers
//! them. There are no threads, clocks or I/O here: the caller passes the time.
//!
//! The library is plain Rust. The feature `python` adds the Python module
//! `harness.native.generators`, through which generators may also be written in Python.

pub mod calls;
pub mod choose;
pub mod few_nodes;
pub mod generator;
pub mod order;
pub mod scheduler;
pub mod shares;
pub mod timing;
pub mod workers;

#[cfg(feature = "python")]
pub mod python;

use std::error::Error;

pub use histories::journal::Kind;

/// Nanoseconds of a run's time.
pub type Ns = i64;

/// An error of a generator or of a host.
pub type Failure = Box<dyn Error>;
