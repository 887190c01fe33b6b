//! A history in columns, a row an op, and the rules that every history keeps.

use std::fmt;

use rustc_hash::FxHashMap;

use crate::lines::{Kind, Lines, Unread, Value, NEMESIS};
use crate::words::{Word, Words};

/// A row that is not there.
pub const NO_ROW: u32 = u32::MAX;

/// A line of few words.
const LINE_BYTES: usize = 100;

/// A client's call and its end.
#[derive(Clone, Copy)]
pub struct Pair {
    pub invoke: u32,
    /// `NO_ROW`: never ended.
    pub end: u32,
    /// Ok, Fail or Info.
    pub kind: Kind,
}

/// The ops in order, by columns.
#[derive(Default)]
pub struct History {
    /// Where each line begins, and where the last one ends.
    pub starts: Vec<usize>,
    pub time_ns: Vec<i64>,
    pub process: Vec<i64>,
    pub kind: Vec<Kind>,
    pub f: Vec<Word>,
    pub value: Vec<Value>,
    pub key: Vec<Option<i64>>,
    pub node: Vec<Word>,
    /// The error of each op that has one, a JSON string as it stands.
    pub error: Vec<Word>,
    /// Those of every value that is an array.
    pub numbers: Vec<i64>,
    pub fs: Words,
    pub nodes: Words,
    pub errors: Words,
    /// Clients' calls, in order of invocation.
    pub pairs: Vec<Pair>,
}

/// What a process does.
#[derive(Clone, Copy)]
enum Does {
    Nothing,
    Call {
        row: u32,
        /// Of a client, which pair it will be.
        pair: usize,
    },
    /// An info was its last end.
    NoMore,
}

/// Why there is no history.
#[derive(Debug)]
pub enum Refused {
    /// A line, from 0, is not as the journal writes it; it may be an op all the same.
    Form(usize),
    /// Some op breaks a rule: a sentence.
    Rule(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Form(line) => write!(out, "line {} is not as a journal has it", line + 1),
            Refused::Rule(said) => out.write_str(said),
        }
    }
}

impl History {
    /// Reads lines, each with its newline.
    pub fn read(text: &[u8]) -> Result<History, Refused> {
        let mut history = History::of(text.len() / LINE_BYTES);
        let mut lines = Lines::new(text);
        history.starts.push(0);
        while !lines.is_over() {
            history.line(&mut lines)?;
            history.starts.push(lines.place());
        }
        history.numbers = lines.numbers;
        history.fs = lines.fs;
        history.nodes = lines.nodes;
        history.errors = lines.errors;
        history.pair()?;
        Ok(history)
    }

    /// Of no rows, with room for so many.
    fn of(rows: usize) -> History {
        History {
            starts: Vec::with_capacity(rows + 1),
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

    /// The numbers of a value that is an array of them; None of a row that is not there, too.
    pub fn ints(&self, row: u32) -> Option<&[i64]> {
        match self.value.get(row as usize)? {
            Value::Ints(range) => Some(&self.numbers[range.clone()]),
            _ => None,
        }
    }

    fn line(&mut self, lines: &mut Lines<'_>) -> Result<(), Refused> {
        let row = self.time_ns.len();
        let line = lines.line().map_err(|why| match why {
            Unread::Form => Refused::Form(row),
            Unread::Beyond(field) => {
                Refused::Rule(format!("op at row {row}: {field} takes more than 64 bits"))
            }
        })?;
        if line.index != row as i64 {
            let said = format!("op at row {row}: index is {}, expected {row}", line.index);
            return Err(Refused::Rule(said));
        }
        let last_ns = self.time_ns.last().map_or(0, |&last_ns| last_ns);
        if line.time_ns < last_ns {
            let said = format!(
                "op #{row}: time_ns {} is before its predecessor's {last_ns}",
                line.time_ns
            );
            return Err(Refused::Rule(said));
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

    /// A process has one call in flight, and none after an info; an end has the f, key and node of
    /// its call.
    fn pair(&mut self) -> Result<(), Refused> {
        let mut known: FxHashMap<i64, Does> = FxHashMap::default();
        for row in 0..self.len() {
            let process = self.process[row];
            let does = known.entry(process).or_insert(Does::Nothing);
            if self.kind[row] != Kind::Invoke {
                let Does::Call { row: call, pair } = *does else {
                    return Err(self.broken(row, |f| format!("ends {f} that it never invoked")));
                };
                *does = Does::Nothing;
                self.ends(row, call as usize)?;
                if process != NEMESIS {
                    self.pairs[pair].end = row as u32;
                    self.pairs[pair].kind = self.kind[row];
                    if self.kind[row] == Kind::Info {
                        *does = Does::NoMore;
                    }
                }
                continue;
            }
            match *does {
                Does::Nothing => {}
                Does::Call { row: call, .. } => {
                    let said = |f: &str| format!("invokes {f} while its op #{call} is in flight");
                    return Err(self.broken(row, said));
                }
                Does::NoMore => {
                    return Err(self.broken(row, |_| "invokes after an info retired it".to_owned()));
                }
            }
            *does = Does::Call {
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

    fn ends(&self, row: usize, call: usize) -> Result<(), Refused> {
        let same = self.f[row] == self.f[call]
            && self.key[row] == self.key[call]
            && self.node[row] == self.node[call];
        if same {
            return Ok(());
        }
        let said = |row: usize| {
            let key = self.key[row].map_or("None".to_owned(), |key| key.to_string());
            let node = self.nodes.text(self.node[row]);
            let f = self.fs.text(self.f[row]).unwrap_or_default();
            format!("{f} key {key} on {}", node.as_deref().unwrap_or("None"))
        };
        Err(Refused::Rule(format!(
            "op #{row}: ends {}, but its call #{call} is {}",
            said(row),
            said(call)
        )))
    }

    fn broken(&self, row: usize, what: impl FnOnce(&str) -> String) -> Refused {
        let process = match self.process[row] {
            NEMESIS => "nemesis".to_owned(),
            process => process.to_string(),
        };
        let f = self.fs.text(self.f[row]).unwrap_or_default();
        Refused::Rule(format!("op #{row}: process {process} {}", what(&f)))
    }
}
