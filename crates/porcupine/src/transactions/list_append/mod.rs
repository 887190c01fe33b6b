//! Lists to which transactions append, and which they read as a whole.
//!
//! A list shows the order of its versions: each read is the beginning of every longer one. So the
//! longest list that a committed transaction read of a key is the order in which its elements were
//! appended, and the length of a read is the version that it found. An element that nobody read was
//! appended after all that were read.

mod edges;
mod explain;
mod key;
mod run;

use super::findings::Findings;
use super::history::{History, Outcome};
use crate::rows::BadRow;
use key::{Key, Scratch};

/// An append that nobody read.
const UNSEEN: u32 = 0;
/// A read that is not the beginning of the longest one, or an append that only such reads show.
const ODD: u32 = u32::MAX;

/// The versions of all lists.
pub struct Lists<'a> {
    history: &'a History<'a>,
    /// By operation. A read: the version that it found, counted from 0, which is the initial list,
    /// or [`ODD`]. An append: the version that it made, [`UNSEEN`] or [`ODD`].
    version: Vec<u32>,
    /// By key: the first of its versions in `writers`; then the number of all.
    starts: Vec<u32>,
    /// By version from 1: the append that made it; [`super::history::NONE`] if that failed, or if
    /// the version was there before.
    writers: Vec<u32>,
    /// Each odd read that is not empty, with the append of its last element.
    odd: Vec<(u32, u32)>,
    /// By transaction: whether it happened, as it committed or somebody read what it appended.
    happened: Vec<bool>,
}

impl<'a> Lists<'a> {
    /// Finds the versions of all keys, and the anomalies that show without a cycle.
    pub fn new(history: &'a History<'a>, findings: &mut Findings) -> Result<Self, BadRow> {
        let outcomes = history.outcome.iter();
        let mut lists = Self {
            history,
            version: vec![UNSEEN; history.is_read.len()],
            starts: Vec::with_capacity(history.keys.len() + 1),
            writers: Vec::new(),
            odd: Vec::new(),
            happened: outcomes.map(|&o| o == Outcome::Committed).collect(),
        };
        lists.starts.push(0);
        let mut scratch = Scratch::default();
        for key in 0..history.keys.len() {
            read_key(&mut Key::new(&mut lists, key, findings, &mut scratch))?;
            lists.starts.push(lists.writers.len() as u32);
        }
        Ok(lists)
    }

    /// Returns the appends that made the versions of a key, from version 1 on.
    fn writers_of(&self, key: usize) -> &[u32] {
        &self.writers[self.starts[key] as usize..self.starts[key + 1] as usize]
    }

    fn transaction(&self, op: u32) -> u32 {
        self.history.transaction[op as usize]
    }
}

/// Reads all operations on a key.
fn read_key(key: &mut Key) -> Result<(), BadRow> {
    key.find_versions()?;
    let history = key.lists.history;
    for ops in history.runs(&history.keys[key.key]) {
        if history.outcome_of(ops[0]) == Outcome::Committed {
            run::read(key, ops);
        }
    }
    key.check();
    Ok(())
}
