//! Orders transactions by time: of one process, and of all.

use super::graph::{Edges, Kinds, FREE, PROCESS, REALTIME};
use super::history::{History, Outcome, NONE};

/// A transaction is followed by the next of its process.
pub struct ProcessOrder<'a> {
    /// By transaction: the next of its process, or [`NONE`].
    pub next: &'a [u32],
}

impl Edges for ProcessOrder<'_> {
    fn each(&self, vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        for (at, &next) in (0u32..).zip(self.next) {
            if next != NONE {
                edge(at, next, PROCESS);
            }
        }
        vertices
    }
}

/// A transaction that returned is followed by all that were called afterwards.
///
/// Edges between transactions, even those of a transitive reduction, would be n × processes. A
/// chain of moments needs only 3 n: a transaction leads to the first moment after its return, each
/// moment to the next, and to the transactions that were called between the two.
pub struct RealTime<'a> {
    history: &'a History<'a>,
    by_call: &'a [u32],
    by_return: Vec<u32>,
}

impl<'a> RealTime<'a> {
    /// `by_call` are the transactions in the order of their calls.
    pub fn new(history: &'a History<'a>, by_call: &'a [u32]) -> Self {
        let mut by_return: Vec<u32> = (0..history.len() as u32)
            .filter(|&at| history.outcome[at as usize] == Outcome::Committed)
            .collect();
        by_return.sort_unstable_by_key(|&at| history.ret[at as usize]);
        Self {
            history,
            by_call,
            by_return,
        }
    }
}

impl Edges for RealTime<'_> {
    fn each(&self, mut vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        let mut returned = self.by_return.iter().peekable();
        let mut moment = NONE;
        for &called in self.by_call {
            let call = self.history.call[called as usize];
            if self.history.outcome[called as usize] == Outcome::Aborted {
                continue;
            }
            // Equal times are concurrent.
            let is_before = |at: &&u32| self.history.ret[**at as usize] < call;
            let mut is_new = false;
            while let Some(&before) = returned.next_if(is_before) {
                if !is_new {
                    is_new = true;
                    if moment != NONE {
                        edge(moment, vertices, FREE);
                    }
                    moment = vertices;
                    vertices += 1;
                }
                edge(before, moment, REALTIME);
            }
            if moment != NONE {
                edge(moment, called, FREE);
            }
        }
        vertices
    }
}
