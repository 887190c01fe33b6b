//! Reads a history of transactions from two tables of Arrow columns, in place: one of the
//! transactions, and one of their micro-operations.

use arrow_interface::ArrowArrayStream;

use super::table::{FieldName, Table};
use crate::datum::{Datum, NULL};
use crate::models::numbers::Numbers;
use crate::order::NEVER;
use crate::partition::Partition;
use crate::process::Names;
use crate::rows::{blocks, BadRow, BLOCK};
use crate::transactions::columns::Texts;
use crate::transactions::history::{Contents, History, Outcome};
use crate::transactions::words;

const CALLS: [FieldName; 4] = [
    ("process", true),
    ("call", true),
    ("ret", true),
    ("outcome", false),
];
const PROCESS: usize = 0;
const CALL: usize = 1;
const RET: usize = 2;
const OUTCOME: usize = 3;

const MICRO_OPS: [FieldName; 5] = [
    ("txn", true),
    ("f", true),
    ("key", true),
    ("value", true),
    ("read", false),
];
const TXN: usize = 0;
const F: usize = 1;
const KEY: usize = 2;
const VALUE: usize = 3;
const READ: usize = 4;

/// The two tables.
pub struct ArrowTransactions {
    calls: Table<{ CALLS.len() }>,
    micro_ops: Table<{ MICRO_OPS.len() }>,
    /// Whether the keys hold lists, which the column `read` has.
    lists: bool,
    /// By key: the first micro-operation on it.
    first_of_key: Vec<u32>,
    /// The values, if they cannot be read in place.
    copied: Option<Copied>,
}

/// The values of micro-operations as numbers.
struct Copied {
    /// By micro-operation: where its values begin in `values`; then their number.
    starts: Vec<usize>,
    values: Vec<i64>,
    texts: Texts,
}

/// What is wrong with a table or a row of it.
pub enum Bad {
    /// Names the table and the column.
    Column(String),
    /// A row of the transactions.
    Row(BadRow),
    /// A row of the micro-operations.
    MicroOp(BadRow),
}

impl ArrowTransactions {
    /// Reads the batches of both tables. `lists`: whether keys hold lists, and not registers.
    pub fn new(
        calls: ArrowArrayStream,
        micro_ops: ArrowArrayStream,
        lists: bool,
    ) -> Result<Self, Bad> {
        let mut tables = Self {
            calls: Table::new(calls, &CALLS).map_err(Bad::Column)?,
            micro_ops: Table::new(micro_ops, &MICRO_OPS)
                .map_err(|text| Bad::Column(format!("micro_ops: {text}")))?,
            lists,
            first_of_key: Vec::new(),
            copied: None,
        };
        if !tables.is_in_place() {
            tables.copied = Some(tables.copy().map_err(Bad::MicroOp)?);
        }
        Ok(tables)
    }

    /// Whether all values are integers, and all lists lists of integers that are next to each
    /// other.
    fn is_in_place(&self) -> bool {
        self.micro_ops.batches.iter().all(|batch| {
            let values = batch.required(VALUE).is_int();
            let lists = batch.columns[READ].as_ref();
            values && self.lists && lists.is_none_or(|lists| lists.is_plain_list())
        })
    }

    fn copy(&self) -> Result<Copied, BadRow> {
        let mut copied = Copied {
            starts: Vec::with_capacity(self.micro_ops.len() + 1),
            values: Vec::new(),
            texts: Texts::default(),
        };
        for row in 0..self.micro_ops.len() {
            copied.starts.push(copied.values.len());
            let is_list = self.lists && self.is_read(row)?;
            let field = if is_list { READ } else { VALUE };
            let found = self.micro_ops.cell(row, field);
            let items = match found {
                Datum::Null => continue,
                Datum::Ints(items) if is_list => {
                    copied.values.extend(items);
                    continue;
                }
                Datum::List(items) if is_list => items,
                value => Box::new([value]),
            };
            for item in items {
                copied.values.push(match item {
                    Datum::Int(value) => value,
                    Datum::Text(text) => copied.texts.number(text),
                    other => {
                        let name = MICRO_OPS[field].0;
                        let expected = "an int of 64 bits or a text";
                        return Err(BadRow::field(row, name, &other, expected));
                    }
                });
            }
        }
        copied.starts.push(copied.values.len());
        Ok(copied)
    }

    fn is_read(&self, row: usize) -> Result<bool, BadRow> {
        let (column, at) = self.micro_ops.column(row, F).expect("a required column");
        let f = column.str(at).unwrap_or("");
        words::is_read(f, self.lists).ok_or_else(|| BadRow::f(row, f, words::expected(self.lists)))
    }

    /// Returns the history. Its contents stay in the tables.
    pub fn history(&mut self) -> Result<History<'_>, Bad> {
        let starts;
        let (transaction, is_read);
        (starts, transaction, is_read) = self.read_micro_ops().map_err(Bad::MicroOp)?;
        let keys = self.number_keys();
        let mut history = History {
            clock: self.calls.clock([CALL, RET]),
            process: Vec::with_capacity(self.calls.len()),
            call: Vec::with_capacity(self.calls.len()),
            ret: Vec::with_capacity(self.calls.len()),
            outcome: Vec::with_capacity(self.calls.len()),
            starts,
            transaction,
            is_read,
            keys,
            contents: &*self,
        };
        self.read_calls(&mut history).map_err(Bad::Row)?;
        Ok(history)
    }

    fn read_calls(&self, history: &mut History) -> Result<(), BadRow> {
        let mut names = Names::default();
        for row in 0..self.calls.len() {
            let bad = |field: usize, expected: &str| {
                BadRow::field(row, CALLS[field].0, &self.calls.cell(row, field), expected)
            };
            let time = |field: usize| {
                let found = self.calls.column(row, field);
                let Some((column, at)) = found.filter(|(column, at)| !column.is_null(*at)) else {
                    return Ok(None);
                };
                match column.time(at, history.clock) {
                    None => Err(bad(field, "an int of 64 bits or a finite float")),
                    time => Ok(time),
                }
            };
            let process = match self.calls.cell(row, PROCESS) {
                Datum::Int(number) => number,
                Datum::Text(name) => names.number(name),
                _ => return Err(bad(PROCESS, "an int of 64 bits or a text")),
            };
            let call = time(CALL)?.ok_or_else(|| bad(CALL, "an int of 64 bits or a float"))?;
            let ret = time(RET)?;
            let outcome = match (self.calls.cell(row, OUTCOME), ret) {
                (Datum::Null, None) => Outcome::Unknown,
                (Datum::Null, Some(_)) => Outcome::Committed,
                (Datum::Text(kind), ret) => match words::outcome(kind) {
                    Some(Outcome::Committed) if ret.is_none() => {
                        return Err(bad(RET, "a time, as outcome is \"ok\""));
                    }
                    Some(outcome) => outcome,
                    None => return Err(bad(OUTCOME, words::OUTCOMES)),
                },
                _ => return Err(bad(OUTCOME, words::OUTCOMES)),
            };
            history.process.push(process);
            history.call.push(call);
            history.ret.push(match outcome {
                Outcome::Unknown => NEVER,
                _ => ret.unwrap_or(call),
            });
            history.outcome.push(outcome);
        }
        Ok(())
    }

    /// Returns where the micro-operations of each transaction begin, and by micro-operation its
    /// transaction and whether it is a read.
    #[allow(clippy::type_complexity)]
    fn read_micro_ops(&self) -> Result<(Vec<u32>, Vec<u32>, Vec<bool>), BadRow> {
        let count = self.calls.len();
        let rows = self.micro_ops.len();
        let mut starts = Vec::with_capacity(count + 1);
        let (mut transaction, mut is_read) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for row in 0..rows {
            let (column, at) = self.micro_ops.column(row, TXN).expect("a required column");
            let before = transaction.last().copied().unwrap_or(0);
            let fits = |&txn: &i64| txn >= i64::from(before) && (txn as u64) < count as u64;
            let Some(txn) = column.int(at).filter(fits) else {
                let expected = format!(
                    "the row of a transaction, of which there are {count}, in ascending order: at \
                     least {before}"
                );
                let found = self.micro_ops.cell(row, TXN);
                return Err(BadRow::field(row, "txn", &found, &expected));
            };
            while starts.len() <= txn as usize {
                starts.push(row as u32);
            }
            transaction.push(txn as u32);
            let reads = self.is_read(row)?;
            is_read.push(reads);
            let (column, at) = self
                .micro_ops
                .column(row, VALUE)
                .expect("a required column");
            if !reads && column.is_null(at) {
                let expected = "what the transaction wrote";
                return Err(BadRow::field(row, "value", &Datum::Null, expected));
            }
        }
        starts.resize(count + 1, rows as u32);
        Ok((starts, transaction, is_read))
    }

    fn number_keys(&mut self) -> Partition {
        let mut numbers = Numbers::default();
        let mut of = Vec::with_capacity(self.micro_ops.len());
        let mut first = Vec::new();
        let mut keys_of_block = [NULL; BLOCK];
        for block in blocks(self.micro_ops.len()) {
            let short = self
                .micro_ops
                .keys_of_block(block.clone(), KEY, &mut keys_of_block);
            for (at, row) in block.enumerate() {
                let number = match short {
                    true => numbers.by_key(keys_of_block[at]),
                    false => numbers.number(self.micro_ops.cell(row, KEY)),
                };
                if number as usize == first.len() {
                    first.push(row as u32);
                }
                of.push(number);
            }
        }
        self.first_of_key = first;
        Partition::new(of, self.first_of_key.len())
    }
}

impl Contents for ArrowTransactions {
    fn value(&self, op: usize) -> i64 {
        if let Some(copied) = &self.copied {
            return copied.values[copied.starts[op]];
        }
        let (column, at) = self.micro_ops.column(op, VALUE).expect("a required column");
        column.int(at).unwrap_or_default()
    }

    fn read(&self, op: usize) -> &[i64] {
        if let Some(copied) = &self.copied {
            return &copied.values[copied.starts[op]..copied.starts[op + 1]];
        }
        match self.micro_ops.cell(op, READ) {
            Datum::Ints(items) => items,
            _ => &[],
        }
    }

    fn key_text(&self, key: usize) -> String {
        self.micro_ops
            .cell(self.first_of_key[key] as usize, KEY)
            .text()
    }

    fn value_text(&self, value: i64) -> String {
        match &self.copied {
            Some(copied) => copied.texts.text(value),
            None => value.to_string(),
        }
    }
}
