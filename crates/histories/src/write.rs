//! Writes the operations of a history as lines, as the journal has them.

use crate::history::History;
use crate::journal::{self, Called, Error, Index, Process};
use crate::lines::{Value, NEMESIS};

/// The parts that many lines share, formatted.
pub struct LineParts {
    called: Vec<Called>,
    nodes: Vec<Vec<u8>>,
    nobody: Vec<u8>,
}

impl LineParts {
    pub fn of(history: &History) -> LineParts {
        let (fs, nodes) = (history.fs.all(), history.nodes.all());
        LineParts {
            called: fs.iter().map(|f| Called::new(f)).collect(),
            nodes: nodes.iter().map(|name| journal::node(Some(name))).collect(),
            nobody: journal::node(None),
        }
    }

    /// Returns the lines of some rows of the history, in their order.
    pub fn lines(&self, history: &History, rows: impl Iterator<Item = usize>) -> Vec<u8> {
        let (mut out, mut index) = (Vec::new(), Index::before(0));
        for row in rows {
            index.set(history.index(row) as u64);
            self.line(history, row, &index, &mut out);
        }
        out
    }

    fn line(&self, history: &History, row: usize, index: &Index, out: &mut Vec<u8>) {
        let mut numbers = Vec::new();
        let value = match &history.value[row] {
            Value::None => journal::Value::Null,
            Value::Int(number) => journal::Value::Int(*number),
            Value::Ints(range) => {
                journal::list(&mut numbers, history.numbers[range.clone()].iter().copied());
                journal::Value::Json(&numbers)
            }
            Value::Object(range) | Value::Big(range) => {
                journal::Value::Json(&history.raw[range.clone()])
            }
        };
        let op = journal::Line {
            index,
            process: match history.process[row] {
                NEMESIS => Process::Nemesis,
                process => Process::Client(process),
            },
            kind: history.kind[row],
            called: &self.called[history.f[row] as usize],
            time_ns: history.time_ns[row],
            value,
            key: history.key[row],
            node: self
                .nodes
                .get(history.node[row] as usize)
                .unwrap_or(&self.nobody),
            error: history
                .errors
                .raw(history.error[row])
                .map_or(Error::None, Error::Json),
        };
        journal::line(out, &op);
    }
}
