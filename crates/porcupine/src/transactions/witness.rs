//! Finds a smallest part of a history that shows the same anomaly.
//!
//! A part has some micro-operations of some transactions. Its reads are without the elements whose
//! appends it leaves out, and a read of a register is left out with the write that it found. An
//! execution that explains the whole history explains each part once what is left out is taken out
//! of it, so a part that violates a level proves that the history does. Causal consistency alone
//! needs more: who reads a version depends on its writer, and not on who wrote the versions before,
//! so a part for it leaves out a list with the version that was found.

use rustc_hash::FxHashMap;

use super::columns::{Columns, Owned};
use super::findings::Finding;
use super::history::History;
use super::levels::{Anomaly, Cycle, Level};
use super::{check, Answer, Model};
use crate::budget::Limits;
use crate::shrink;

/// What a part has of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub transaction: u32,
    /// Positions among all micro-operations of the history.
    pub ops: Vec<u32>,
}

/// Returns a part that shows the worst anomaly that the level forbids, and from which nothing can
/// be dropped; empty if there is no such anomaly, or if time runs out before one is found.
pub fn smallest(
    history: &History,
    model: Model,
    level: Level,
    answer: &Answer,
    limits: Limits,
) -> Vec<Piece> {
    let mut findings = answer.findings.iter();
    let Some(finding) = findings.find(|found| level.forbids(found.anomaly)) else {
        return Vec::new();
    };
    let parts = Parts::new(history, model, level, finding.anomaly, finding, limits);
    let ops = parts.smallest(finding);
    let runs = history.runs(&ops);
    runs.map(|ops| Piece {
        transaction: history.transaction[ops[0] as usize],
        ops: ops.to_vec(),
    })
    .collect()
}

/// The parts of a history that consist of operations on some keys.
struct Parts<'a> {
    history: &'a History<'a>,
    model: Model,
    level: Level,
    anomaly: Anomaly,
    limits: Limits<'a>,
    /// The keys, ascending.
    keys: Vec<u32>,
    writers: Writers,
}

/// By key and value: the operation that appends or writes it.
type Writers = FxHashMap<(u32, i64), u32>;

impl<'a> Parts<'a> {
    /// The keys are those of the transactions of a finding.
    fn new(
        history: &'a History<'a>,
        model: Model,
        level: Level,
        anomaly: Anomaly,
        finding: &Finding,
        limits: Limits<'a>,
    ) -> Self {
        let ops = finding.transactions.iter().flat_map(|&t| history.ops(t));
        let mut keys: Vec<u32> = ops.map(|op| history.keys.of(op) as u32).collect();
        keys.sort_unstable();
        keys.dedup();
        Self {
            history,
            model,
            level,
            anomaly,
            limits,
            writers: writers(history, &keys),
            keys,
        }
    }

    /// Shrinks the transactions of a finding, with those that show the order of versions, or else
    /// all that used the same keys.
    fn smallest(&self, finding: &Finding) -> Vec<u32> {
        let core = self.core(finding);
        let mut kept = self.ops_of(&core);
        if !self.shows(&kept) {
            if self.limits.out_of_memory(self.bytes()).is_some() {
                return Vec::new();
            }
            kept = self.ops_of(&self.all());
            if !self.shows(&kept) {
                return Vec::new();
            }
        }
        loop {
            let before = kept.len();
            kept = self.drop_transactions(kept);
            kept = shrink::smallest(&kept, self.limits, |_| (), |ops| self.shows(ops)).0;
            if kept.len() == before || self.limits.out_of_time().is_some() {
                return kept;
            }
        }
    }

    fn drop_transactions(&self, kept: Vec<u32>) -> Vec<u32> {
        let runs: Vec<&[u32]> = self.history.runs(&kept).collect();
        let shows = |runs: &[&[u32]]| self.shows(&runs.concat());
        shrink::smallest(&runs, self.limits, |_| (), shows)
            .0
            .concat()
    }

    /// Returns the transactions of the finding, and those with the longest reads of the keys.
    fn core(&self, finding: &Finding) -> Vec<u32> {
        let history = self.history;
        let mut core = finding.transactions.clone();
        for &key in &self.keys {
            let reads = history.keys[key as usize].iter().copied();
            let reads = reads.filter(|&op| history.is_committed_read(op));
            // Of those of equal length the first.
            let longest = reads.rev().max_by_key(|&op| self.found(op).len());
            core.extend(longest.map(|op| history.transaction[op as usize]));
        }
        core.sort_unstable();
        core.dedup();
        core
    }

    /// Returns all transactions that used the keys.
    fn all(&self) -> Vec<u32> {
        let ops = self
            .keys
            .iter()
            .flat_map(|&k| &self.history.keys[k as usize]);
        let mut all: Vec<u32> = ops
            .map(|&op| self.history.transaction[op as usize])
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the memory of all that the keys have.
    fn bytes(&self) -> usize {
        let ops = self
            .keys
            .iter()
            .flat_map(|&k| &self.history.keys[k as usize]);
        ops.map(|&op| 100 + 8 * self.found(op).len()).sum()
    }

    fn ops_of(&self, transactions: &[u32]) -> Vec<u32> {
        let ops = transactions.iter().flat_map(|&t| self.history.ops(t));
        let of_keys = |op: &usize| {
            let key = self.history.keys.of(*op) as u32;
            self.keys.binary_search(&key).is_ok()
        };
        ops.filter(of_keys).map(|op| op as u32).collect()
    }

    /// Returns what a read found; nothing of a write.
    fn found(&self, op: u32) -> &[i64] {
        match self.history.is_read[op as usize] {
            true => self.history.contents.read(op as usize),
            false => &[],
        }
    }

    fn shows(&self, ops: &[u32]) -> bool {
        let owned = build(
            self.history,
            self.model,
            self.anomaly,
            &self.keys,
            &self.writers,
            ops,
        );
        let answer = check(&owned.history(), self.model, self.level, &self.limits);
        answer.is_ok_and(|answer| {
            let mut findings = answer.findings.iter();
            findings.any(|found| found.anomaly == self.anomaly)
        })
    }
}

fn writers(history: &History, keys: &[u32]) -> Writers {
    let mut writers = Writers::default();
    for &key in keys {
        let ops = history.keys[key as usize].iter();
        for &op in ops.filter(|&&op| !history.is_read[op as usize]) {
            writers.insert((key, history.contents.value(op as usize)), op);
        }
    }
    writers
}

/// Returns a part as a history of its own. The pieces ascend.
pub fn part(history: &History, model: Model, anomaly: Anomaly, pieces: &[Piece]) -> Owned {
    let ops: Vec<u32> = pieces.iter().flat_map(|piece| piece.ops.clone()).collect();
    let mut keys: Vec<u32> = ops
        .iter()
        .map(|&op| history.keys.of(op as usize) as u32)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    build(
        history,
        model,
        anomaly,
        &keys,
        &writers(history, &keys),
        &ops,
    )
}

/// `ops` and `keys` ascend; the keys are numbered anew in this order.
fn build(
    history: &History,
    model: Model,
    anomaly: Anomaly,
    keys: &[u32],
    writers: &Writers,
    ops: &[u32],
) -> Owned {
    let is_causal = matches!(anomaly, Anomaly::Cycles(Cycle::GCausal, _));
    let contents = history.contents;
    let mut columns = Columns::default();
    let mut list = Vec::new();
    for run in history.runs(ops) {
        let at = history.transaction[run[0] as usize] as usize;
        let (process, call, ret) = (history.process[at], history.call[at], history.ret[at]);
        columns.push(process, call, ret, history.outcome[at]);
        for &op in run {
            let key = history.keys.of(op as usize) as u32;
            let place = keys.binary_search(&key).expect("a key of the part") as u32;
            if !history.is_read[op as usize] {
                columns.write(place, contents.value(op as usize));
                continue;
            }
            let found = contents.read(op as usize);
            let is_there = |value: &&i64| {
                let writer = writers.get(&(key, **value));
                writer.is_none_or(|writer| ops.binary_search(writer).is_ok())
            };
            list.clear();
            list.extend(found.iter().filter(is_there));
            let is_other = |value: &&i64| {
                let writer = writers.get(&(key, **value));
                writer.is_none_or(|&writer| history.transaction[writer as usize] as usize != at)
            };
            let version = found.iter().rfind(is_other);
            let keeps_version = !is_causal || version.as_ref().is_none_or(is_there);
            if list.len() == found.len() || (model == Model::ListAppend && keeps_version) {
                columns.read(place, &list);
            }
        }
    }
    columns.finish()
}
