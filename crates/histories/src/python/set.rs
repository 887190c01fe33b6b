//! What was asked of one key, as a set.

use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustc_hash::FxHashMap;

use super::row_of;
use crate::findings::{examine, Findings};
use crate::history::History;
use crate::lines::Kind;
use crate::sessions::bounds;
use crate::sets;
use crate::tally::Ends;
use crate::words::{Word, NONE};

/// Everything that was asked of one key: the calls "insert", and the answered calls "read" and
/// "final-read". An insert is identified by its bit; inserted values have the first bits, in order
/// of their first attempt. A read is identified by its index in order of invocation.
#[pyclass(frozen, module = "harness.native.histories")]
pub struct Set {
    pub(super) history: Arc<History>,
    pub(super) set: sets::Set,
    /// The place of each value's insert.
    pub(super) places: OnceLock<FxHashMap<i64, usize>>,
}

/// (value, bit, kind, invoke, ack, attempts).
type Insert = (i64, u32, &'static str, u32, Option<u32>, u32);
/// (invoke, end, duplicated).
type Read = (u32, u32, bool);
/// (read, missing, write).
type Violation = (usize, u32, Option<u32>);

#[pymethods]
impl Set {
    #[getter]
    fn key(&self) -> Option<i64> {
        self.set.key
    }

    /// Return the value of each bit. Values that were only read have a bit too.
    fn values(&self) -> Vec<i64> {
        self.set.values.clone()
    }

    /// Return of the insert at a place, in order of the first attempt: value, bit, kind ("ok" if
    /// acknowledged, "fail" if every attempt was refused, otherwise "info"), the row of the first
    /// attempt that was not refused (of the first attempt if every one was), the row of the first
    /// acknowledgement, and the number of attempts.
    fn insert(&self, place: usize) -> Insert {
        let one = &self.set.inserts[place];
        let kind = one.kind.name();
        (
            one.value,
            one.bit,
            kind,
            one.invoke,
            row_of(one.ack),
            one.attempts,
        )
    }

    /// Return the place of the value's insert, None if nobody tried to insert it.
    fn place(&self, value: i64) -> Option<usize> {
        let places = self.places.get_or_init(|| {
            let inserts = self.set.inserts.iter().enumerate();
            inserts.map(|(place, one)| (one.value, place)).collect()
        });
        places.get(&value).copied()
    }

    /// Return the numbers of inserts that are ok, fail and info.
    fn ends(&self) -> Ends {
        let count = |kind| {
            self.set
                .inserts
                .iter()
                .filter(|one| one.kind == kind)
                .count()
        };
        [count(Kind::Ok), count(Kind::Fail), count(Kind::Info)]
    }

    /// Return the inserts that were tried more than once.
    fn repeated(&self) -> Vec<u32> {
        let repeated = self.set.inserts.iter().filter(|one| one.attempts > 1);
        repeated.map(|one| one.bit).collect()
    }

    /// Return the rows of invocation and end, and whether some value came more than once.
    fn read(&self, read: usize) -> Read {
        let one = &self.set.reads[read];
        (one.invoke, one.end, one.duplicated)
    }

    /// Return the number of reads.
    fn reads_count(&self) -> usize {
        self.set.reads.len()
    }

    /// Return the reads called "final-read".
    fn finals(&self) -> Vec<usize> {
        let places = 0..self.set.reads.len();
        places
            .filter(|&place| self.set.reads[place].is_final)
            .collect()
    }

    /// Return the last "final-read" of each node, nodes in order of their first one.
    fn last_finals(&self) -> Vec<(String, usize)> {
        let mut last: Vec<(Word, usize)> = Vec::new();
        for read in self.finals() {
            let node = self.history.node[self.set.reads[read].invoke as usize];
            match last.iter_mut().find(|(of, _)| *of == node) {
                Some((_, place)) => *place = read,
                None => last.push((node, read)),
            }
        }
        let named = last.into_iter();
        named
            .filter_map(|(node, read)| Some((self.history.nodes.text(node)?, read)))
            .collect()
    }

    /// Whether the reads returned the same values, each value once.
    fn same(&self, reads: Vec<usize>) -> bool {
        let mut reads = reads.into_iter().map(|read| &self.set.reads[read]);
        let Some(first) = reads.next() else {
            return true;
        };
        let mask = self.set.mask(first);
        !first.duplicated && reads.all(|read| !read.duplicated && self.set.mask(read).equals(mask))
    }

    /// Return the bits of the values that a read returned, little-endian.
    fn mask<'py>(&self, py: Python<'py>, read: usize) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.set.mask(&self.set.reads[read]).bytes())
    }

    /// Examine every value. `replicas` are the nodes from which a final read is expected.
    fn examined(&self, replicas: Vec<String>) -> Findings {
        // A node that no operation names answered no read.
        let word = |name: &String| self.history.nodes.find(name).unwrap_or(NONE - 1);
        let replicas: Vec<Word> = replicas.iter().map(word).collect();
        examine(&self.history, &self.set, &replicas)
    }

    /// Check monotonic reads, read your writes, monotonic writes and writes follow reads.
    /// Return for each: the number of reads of which something is demanded, the number that lack a
    /// demanded value, and the `max_violations` of these that ended first, each with the read, the
    /// first missing bit, and the first insert that demands it (for the latter two guarantees).
    /// Every value must have been tried only once.
    fn bounds(&self, max_violations: usize) -> Vec<(usize, usize, Vec<Violation>)> {
        let found = bounds(&self.history, &self.set, max_violations)
            .into_iter()
            .map(|result| {
                let first = result.violations.iter();
                let first = first.map(|one| (one.read, one.missing, row_of(one.write)));
                (result.reads, result.broken, first.collect())
            });
        found.collect()
    }
}
