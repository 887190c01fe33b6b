//! Finds the versions of one register.

use rustc_hash::FxHashMap;

use super::Registers;
use crate::rows::BadRow;
use crate::transactions::findings::Findings;
use crate::transactions::history::{Outcome, NONE};
use crate::transactions::levels::Anomaly;

/// One register while it is being read.
pub struct Key<'a, 'b> {
    registers: &'a mut Registers<'b>,
    findings: &'a mut Findings,
    key: usize,
    ops: &'b [u32],
    /// By value: its version.
    values: FxHashMap<i64, u32>,
    /// By version: a transaction that read it and wrote the key.
    updated: FxHashMap<u32, u32>,
}

impl<'a, 'b> Key<'a, 'b> {
    pub fn new(registers: &'a mut Registers<'b>, key: usize, findings: &'a mut Findings) -> Self {
        let ops = &registers.history.keys[key];
        Self {
            registers,
            findings,
            key,
            ops,
            values: FxHashMap::default(),
            updated: FxHashMap::default(),
        }
    }

    /// Reads all operations on the key.
    pub fn read(&mut self) -> Result<(), BadRow> {
        self.number_writes()?;
        self.match_reads();
        let history = self.registers.history;
        for ops in history.runs(self.ops) {
            if history.outcome_of(ops[0]) == Outcome::Committed {
                self.check_run(ops);
            }
        }
        self.forget_aborted();
        Ok(())
    }

    fn push_version(&mut self, writer: u32) -> u32 {
        self.registers.writers.push(writer);
        self.registers.intermediate.push(false);
        self.registers.writers.len() as u32 - 1
    }

    fn number_writes(&mut self) -> Result<(), BadRow> {
        let history = self.registers.history;
        self.push_version(NONE);
        let mut last = NONE;
        for &op in self.ops.iter().filter(|&&op| !history.is_read[op as usize]) {
            let value = history.contents.value(op as usize);
            let version = self.push_version(op);
            self.registers.version[op as usize] = version;
            if let Some(before) = self.values.insert(value, version) {
                let text = format!(
                    "it writes {} to key {}, expected another value: row {} writes the same, and \
                     who wrote what a read found must be known",
                    history.contents.value_text(value),
                    history.contents.key_text(self.key),
                    self.registers
                        .transaction(self.registers.writers[before as usize]),
                );
                let row = self.registers.transaction(op) as usize;
                return Err(BadRow { row, text });
            }
            if last != NONE && self.registers.transaction(last) == self.registers.transaction(op) {
                self.registers.intermediate[version as usize - 1] = true;
            }
            last = op;
        }
        Ok(())
    }

    /// Finds the version that each read found.
    fn match_reads(&mut self) {
        let history = self.registers.history;
        let initial = self.registers.starts[self.key];
        let mut there_before = None;
        let reads = || {
            self.ops
                .iter()
                .copied()
                .filter(|&op| history.is_committed_read(op))
        };
        let finds_nothing = reads().any(|op| history.contents.read(op as usize).is_empty());
        for op in reads() {
            let Some(&value) = history.contents.read(op as usize).first() else {
                self.registers.version[op as usize] = initial;
                continue;
            };
            if let Some(&version) = self.values.get(&value) {
                self.registers.version[op as usize] = version;
                continue;
            }
            // One value may have been there before the test.
            if !finds_nothing && *there_before.get_or_insert(value) == value {
                self.registers.version[op as usize] = initial;
                continue;
            }
            let reader = self.registers.transaction(op);
            let key = self.key;
            self.findings.add(Anomaly::Garbage, || {
                let text = format!(
                    "T{reader} read {} in key {}, which nobody wrote, and another read found \
                     another value that nobody wrote",
                    history.contents.value_text(value),
                    history.contents.key_text(key),
                );
                (vec![reader], text)
            });
        }
        for op in reads() {
            self.check_writer(op);
        }
    }

    /// Checks who wrote what a read found.
    fn check_writer(&mut self, op: u32) {
        let history = self.registers.history;
        let version = self.registers.version[op as usize];
        let writer = match version {
            NONE => NONE,
            version => self.registers.writers[version as usize],
        };
        if writer == NONE {
            return;
        }
        let (reader, by) = (
            self.registers.transaction(op),
            self.registers.transaction(writer),
        );
        let key = self.key;
        let read = || {
            let key = history.contents.key_text(key);
            format!("T{reader} read {} in key {key}", history.written(writer))
        };
        match history.outcome[by as usize] {
            Outcome::Aborted => self.findings.add(Anomaly::G1a, || {
                let text = format!("{}, which T{by} wrote, and T{by} failed", read());
                (vec![reader, by], text)
            }),
            _ => self.registers.happened[by as usize] = true,
        }
        if self.registers.intermediate[version as usize] && reader != by {
            self.findings.add(Anomaly::G1b, || {
                let text = format!("{}, which T{by} replaced after it had written it", read());
                (vec![reader, by], text)
            });
        }
    }

    /// Checks what a committed transaction did.
    fn check_run(&mut self, ops: &[u32]) {
        let history = self.registers.history;
        let transaction = self.registers.transaction(ops[0]);
        let mut before = NONE;
        for &op in ops {
            let version = self.registers.version[op as usize];
            if history.is_read[op as usize] && before != NONE && version != before {
                self.find_internal(transaction, op, before);
            }
            before = version;
        }
        let writes = ops.iter().filter(|&&op| !history.is_read[op as usize]);
        for &write in writes.clone() {
            let version = self.registers.version[write as usize];
            let found = |&&op: &&u32| self.registers.version[op as usize] == version;
            if ops
                .iter()
                .take_while(|&&op| op != write)
                .any(|op| found(&op))
            {
                let key = self.key;
                self.findings.add(Anomaly::FutureRead, || {
                    let (value, key) = (history.written(write), history.contents.key_text(key));
                    let text =
                        format!("T{transaction} read {value} in key {key} before it wrote it");
                    (vec![transaction], text)
                });
            }
        }
        let first = self.registers.version[ops[0] as usize];
        if history.is_read[ops[0] as usize] && first != NONE && writes.count() > 0 {
            self.check_update(first, transaction);
        }
    }

    fn find_internal(&mut self, transaction: u32, read: u32, before: u32) {
        let history = self.registers.history;
        let (initial, writer) = (
            self.registers.starts[self.key] == before,
            self.registers.writers[before as usize],
        );
        let key = self.key;
        self.findings.add(Anomaly::Internal, || {
            let found = match history.contents.read(read as usize).first() {
                Some(&value) => history.contents.value_text(value),
                None => "nothing".to_owned(),
            };
            let expected = match initial {
                true => "the initial value".to_owned(),
                false => history.written(writer),
            };
            let text = format!(
                "T{transaction} read {found} in key {}; by what it had read and written before, \
                 that had to be {expected}",
                history.contents.key_text(key),
            );
            (vec![transaction], text)
        });
    }

    fn check_update(&mut self, version: u32, transaction: u32) {
        let history = self.registers.history;
        let first = *self.updated.entry(version).or_insert(transaction);
        if first == transaction {
            return;
        }
        let writer = self.registers.writers[version as usize];
        let key = self.key;
        self.findings.add(Anomaly::LostUpdate, || {
            let found = match writer {
                NONE => "its initial value".to_owned(),
                writer => history.written(writer),
            };
            let text = format!(
                "T{first} and T{transaction} both read {found} in key {} and wrote it",
                history.contents.key_text(key),
            );
            (vec![first, transaction], text)
        });
    }

    fn forget_aborted(&mut self) {
        let history = self.registers.history;
        let from = self.registers.starts[self.key] as usize;
        for writer in &mut self.registers.writers[from..] {
            if *writer != NONE && history.outcome_of(*writer) == Outcome::Aborted {
                *writer = NONE;
            }
        }
    }
}
