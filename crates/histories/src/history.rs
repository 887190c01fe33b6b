//! Keeps a history in columns, one row per operation, and enforces the rules of every history.

use std::fmt;

use rustc_hash::FxHashMap;

use crate::lines::{Kind, Line, LineError, Lines, Value, NEMESIS};
use crate::words::{Word, Words};

/// Stands for a missing row.
pub const NO_ROW: u32 = u32::MAX;

/// Size of a short line, by which the number of rows is estimated.
const LINE_BYTES: usize = 100;

/// A client's call: its invocation and its end.
#[derive(Clone, Copy)]
pub struct Pair {
    pub invoke: u32,
    /// `NO_ROW` if the call never ended.
    pub end: u32,
    /// Ok, Fail or Info; Info if the call never ended.
    pub kind: Kind,
}

/// The operations of a history in order, as columns.
#[derive(Default)]
pub struct History {
    /// The index of each operation of a part of a history. In a whole one it is the row.
    index: Option<Vec<i64>>,
    pub time_ns: Vec<i64>,
    pub process: Vec<i64>,
    pub kind: Vec<Kind>,
    pub f: Vec<Word>,
    pub value: Vec<Value>,
    pub key: Vec<Option<i64>>,
    pub node: Vec<Word>,
    /// The error of each operation that has one, as raw JSON.
    pub error: Vec<Word>,
    /// The elements of all values that are arrays.
    pub numbers: Vec<i64>,
    /// The text of all values that are not parsed.
    pub raw: Vec<u8>,
    pub fs: Words,
    pub nodes: Words,
    pub errors: Words,
    /// The clients' calls in order of invocation.
    pub pairs: Vec<Pair>,
}

/// The state of a process.
#[derive(Clone, Copy)]
enum ProcessState {
    Idle,
    Call {
        row: u32,
        /// The index of a client's call in `pairs`.
        pair: usize,
    },
    /// Its last call ended as info.
    Retired,
}

/// Why a history was refused.
#[derive(Debug)]
pub enum Refused {
    /// A line, counted from 0, does not have the form that the journal writes. It may still be a
    /// valid operation.
    Form(usize),
    /// An operation breaks a rule; the sentence says which.
    Rule(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Form(line) => write!(out, "line {} is not in the journal's format", line + 1),
            Refused::Rule(text) => out.write_str(text),
        }
    }
}

impl History {
    /// Reads a history from lines that each end with a newline.
    pub fn read(text: &[u8]) -> Result<History, Refused> {
        let mut history = History::with_capacity(text.len() / LINE_BYTES);
        let mut lines = Lines::new(text);
        while !lines.is_over() {
            let row = history.len();
            let line = lines.line().map_err(|why| match why {
                LineError::Form => Refused::Form(row),
                LineError::TooLarge(field) => {
                    Refused::Rule(format!("op at row {row}: {field} takes more than 64 bits"))
                }
            })?;
            history.push(line)?;
        }
        history.numbers = lines.numbers;
        history.raw = lines.raw;
        history.fs = lines.fs;
        history.nodes = lines.nodes;
        history.errors = lines.errors;
        history.match_ends()?;
        Ok(history)
    }

    /// Creates a part of a history, whose operations keep their indices.
    pub fn part(rows: usize) -> History {
        History {
            index: Some(Vec::with_capacity(rows)),
            ..History::with_capacity(rows)
        }
    }

    /// Creates a history without rows that has the capacity for `rows`.
    pub fn with_capacity(rows: usize) -> History {
        History {
            time_ns: Vec::with_capacity(rows),
            process: Vec::with_capacity(rows),
            kind: Vec::with_capacity(rows),
            f: Vec::with_capacity(rows),
            value: Vec::with_capacity(rows),
            key: Vec::with_capacity(rows),
            node: Vec::with_capacity(rows),
            error: Vec::with_capacity(rows),
            pairs: Vec::with_capacity(rows / 2),
            ..History::default()
        }
    }

    pub fn len(&self) -> usize {
        self.time_ns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.time_ns.is_empty()
    }

    /// The memory that the operations take, in bytes.
    pub fn bytes(&self) -> usize {
        const ROW: usize = size_of::<Value>()
            + size_of::<Option<i64>>()
            + 2 * size_of::<i64>()
            + 3 * size_of::<Word>()
            + size_of::<Kind>()
            + size_of::<Pair>() / 2;
        self.len() * ROW + self.raw.len() + size_of_val(self.numbers.as_slice())
    }

    /// The elements of a value that is an array of integers; `None` for another value or a missing
    /// row.
    pub fn ints(&self, row: u32) -> Option<&[i64]> {
        match self.value.get(row as usize)? {
            Value::Ints(range) => Some(&self.numbers[range.clone()]),
            _ => None,
        }
    }

    /// The index of the operation at a row.
    pub fn index(&self, row: usize) -> i64 {
        self.index.as_ref().map_or(row as i64, |index| index[row])
    }

    /// Appends an operation. `match_ends` must follow the last one.
    pub fn push(&mut self, line: Line) -> Result<(), Refused> {
        self.push_index(line.index)?;
        let last_ns = self.time_ns.last().map_or(0, |&last_ns| last_ns);
        if line.time_ns < last_ns {
            let (index, time_ns) = (line.index, line.time_ns);
            let text =
                format!("op #{index}: time_ns {time_ns} is before its predecessor's {last_ns}");
            return Err(Refused::Rule(text));
        }
        self.time_ns.push(line.time_ns);
        self.process.push(line.process);
        self.kind.push(line.kind);
        self.f.push(line.f);
        self.value.push(line.value);
        self.key.push(line.key);
        self.node.push(line.node);
        self.error.push(line.error);
        Ok(())
    }

    fn push_index(&mut self, index: i64) -> Result<(), Refused> {
        let row = self.len();
        let Some(known) = &mut self.index else {
            if index == row as i64 {
                return Ok(());
            }
            let text = format!("op at row {row}: index is {index}, expected {row}");
            return Err(Refused::Rule(text));
        };
        if let Some(last) = known.last().filter(|&&last| last >= index) {
            return Err(Refused::Rule(format!(
                "op #{index}: comes after op #{last}"
            )));
        }
        known.push(index);
        Ok(())
    }

    /// Checks the calls and fills `pairs`, once all operations are there. A process has one call in flight, and none after an
    /// info. An end has the f, key and node of its invocation.
    pub fn match_ends(&mut self) -> Result<(), Refused> {
        let mut known: FxHashMap<i64, ProcessState> = FxHashMap::default();
        for row in 0..self.len() {
            let process = self.process[row];
            let state = known.entry(process).or_insert(ProcessState::Idle);
            if self.kind[row] != Kind::Invoke {
                let ProcessState::Call { row: call, pair } = *state else {
                    return Err(
                        self.rule_broken(row, |f| format!("ends {f} that it never invoked"))
                    );
                };
                *state = ProcessState::Idle;
                self.check_end(row, call as usize)?;
                if process != NEMESIS {
                    self.pairs[pair].end = row as u32;
                    self.pairs[pair].kind = self.kind[row];
                    if self.kind[row] == Kind::Info {
                        *state = ProcessState::Retired;
                    }
                }
                continue;
            }
            match *state {
                ProcessState::Idle => {}
                ProcessState::Call { row: call, .. } => {
                    let call = self.index(call as usize);
                    let text = |f: &str| format!("invokes {f} while its op #{call} is in flight");
                    return Err(self.rule_broken(row, text));
                }
                ProcessState::Retired => {
                    return Err(
                        self.rule_broken(row, |_| "invokes after an info retired it".to_owned())
                    );
                }
            }
            *state = ProcessState::Call {
                row: row as u32,
                pair: self.pairs.len(),
            };
            if process != NEMESIS {
                self.pairs.push(Pair {
                    invoke: row as u32,
                    end: NO_ROW,
                    kind: Kind::Info,
                });
            }
        }
        Ok(())
    }

    fn check_end(&self, row: usize, call: usize) -> Result<(), Refused> {
        let same = self.f[row] == self.f[call]
            && self.key[row] == self.key[call]
            && self.node[row] == self.node[call];
        if same {
            return Ok(());
        }
        let text = |row: usize| {
            let key = self.key[row].map_or("None".to_owned(), |key| key.to_string());
            let node = self.nodes.text(self.node[row]);
            let f = self.fs.text(self.f[row]).unwrap_or_default();
            format!("{f} key {key} on {}", node.as_deref().unwrap_or("None"))
        };
        Err(Refused::Rule(format!(
            "op #{}: ends {}, but its call #{} is {}",
            self.index(row),
            text(row),
            self.index(call),
            text(call)
        )))
    }

    fn rule_broken(&self, row: usize, what: impl FnOnce(&str) -> String) -> Refused {
        let process = match self.process[row] {
            NEMESIS => "nemesis".to_owned(),
            process => process.to_string(),
        };
        let f = self.fs.text(self.f[row]).unwrap_or_default();
        let index = self.index(row);
        Refused::Rule(format!("op #{index}: process {process} {}", what(&f)))
    }
}
