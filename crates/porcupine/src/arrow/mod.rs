//! Reads the rows of a history from Arrow columns, in place.

mod block;
mod column;
mod table;
pub mod transactions;

use std::ops::Range;

use arrow_interface::ArrowArrayStream;

use crate::clock::Clock;
use crate::datum::{Datum, NULL};
use crate::models::numbers::Numbers;
use crate::order::{Timing, NEVER};
use crate::partition::Partition;
use crate::process::Names;
use crate::rows::{blocks, BadRow, Field, Rows, Times, BLOCK};
use column::Column;
use table::{Batch, FieldName, Table};

/// The columns by name, and whether each is required.
const FIELDS: [FieldName; 8] = [
    ("process", true),
    ("f", true),
    ("call", true),
    ("ret", true),
    ("key", false),
    ("value", false),
    ("output", false),
    ("expected", false),
];
const PROCESS: usize = 0;
const F: usize = 1;
const CALL: usize = 2;
const RET: usize = 3;
const KEY: usize = 4;
const VALUE: usize = 5;
const OUTPUT: usize = 6;
const EXPECTED: usize = 7;

/// A history in Arrow columns.
pub struct ArrowRows {
    table: Table<{ FIELDS.len() }>,
    /// By row: the number of its process; empty if processes are numbers in their column.
    named: Vec<i64>,
    clock: Clock,
    /// By row: call and ret, if they are floats.
    ranks: Vec<(i64, i64)>,
}

/// A key as its column has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key<'a> {
    None,
    Int(i64),
    Text(&'a str),
}

impl ArrowRows {
    /// Reads all batches of a stream. The error names the column.
    pub fn new(stream: ArrowArrayStream) -> Result<Self, String> {
        let mut rows = Self {
            table: Table::new(stream, &FIELDS)?,
            named: Vec::new(),
            clock: Clock::Ints,
            ranks: Vec::new(),
        };
        rows.clock = rows.table.clock([CALL, RET]);
        rows.check()?;
        rows.number_names();
        rows.rank_times();
        Ok(rows)
    }

    /// Numbers the processes if they are texts.
    fn number_names(&mut self) {
        let texts = |batch: &Batch<{ FIELDS.len() }>| {
            process_of(batch).is_text() && !process_of(batch).is_int()
        };
        if !self.table.batches.iter().any(texts) {
            return;
        }
        let mut names = Names::default();
        let mut numbers = Vec::with_capacity(self.len());
        for batch in &self.table.batches {
            let column = process_of(batch);
            let rows = 0..batch.len();
            numbers.extend(rows.map(|at| names.number(column.str(at).expect("checked"))));
        }
        self.named = numbers;
    }

    /// Ranks the times if they are floats.
    fn rank_times(&mut self) {
        if self.clock == Clock::Floats {
            let rank = |batch: &Batch<{ FIELDS.len() }>, at: usize| {
                let time = |field| batch.required(field).time(at, Clock::Floats);
                (time(CALL).expect("checked"), time(RET).unwrap_or(NEVER))
            };
            let batches = self.table.batches.iter();
            let ranks = batches.flat_map(|batch| (0..batch.len()).map(move |at| rank(batch, at)));
            self.ranks = ranks.collect();
        }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.batches.is_empty()
    }

    /// Returns the keys in order of first appearance, and the rows of each.
    pub fn by_key(&self) -> Result<(Vec<Key<'_>>, Partition), BadRow> {
        let keyed = |batch: &Batch<{ FIELDS.len() }>| {
            batch.columns[KEY].as_ref().is_some_and(Column::has_values)
        };
        if !self.table.batches.iter().any(keyed) && !self.is_empty() {
            return Ok((vec![Key::None], Partition::whole(self.len())));
        }
        let mut numbers = Numbers::default();
        let mut keys = Vec::new();
        let mut of = Vec::with_capacity(self.len());
        let mut keys_of_block = [NULL; BLOCK];
        for block in blocks(self.len()) {
            let short = self
                .table
                .keys_of_block(block.clone(), KEY, &mut keys_of_block);
            for (at, row) in block.enumerate() {
                let number = match short {
                    true => numbers.by_key(keys_of_block[at]),
                    false => numbers.number(self.table.cell(row, KEY)),
                };
                if number as usize == keys.len() {
                    keys.push(self.key(row)?);
                }
                of.push(number);
            }
        }
        let objects = Partition::new(of, keys.len());
        Ok((keys, objects))
    }

    fn key(&self, row: usize) -> Result<Key<'_>, BadRow> {
        match self.table.cell(row, KEY) {
            Datum::Null => Ok(Key::None),
            Datum::Int(number) => Ok(Key::Int(number)),
            Datum::Text(text) => Ok(Key::Text(text)),
            found => {
                let expected = "an int of 64 bits, a text or null";
                Err(BadRow::field(row, "key", &found, expected))
            }
        }
    }

    /// Checks that the fields of every operation have values of their types.
    fn check(&self) -> Result<(), String> {
        for (batch, &start) in self.table.batches.iter().zip(&self.table.starts) {
            let rows = batch.len();
            for field in [PROCESS, CALL, F, RET] {
                let name = FIELDS[field].0;
                let column = batch.required(field);
                let (fits, kind) = match field {
                    F => (column.is_text(), "text"),
                    PROCESS => (column.is_int() || column.is_text(), "ints or texts"),
                    _ => (column.is_int() || column.is_float(), "ints or floats"),
                };
                if !fits {
                    return Err(format!("the column {name:?} does not hold {kind}"));
                }
                let time = |at: usize| column.time(at, self.clock);
                if column.is_filled() && self.clock == Clock::Ints {
                    continue;
                }
                let there = |at: &usize| match field {
                    F => column.str(*at).is_some(),
                    PROCESS if !column.is_int() => column.str(*at).is_some(),
                    PROCESS => column.int(*at).is_some(),
                    RET => column.is_null(*at) || time(*at).is_some(),
                    _ => time(*at).is_some(),
                };
                if let Some(at) = (0..rows).find(|at| !there(at)) {
                    let row = start + at;
                    let odd = if column.is_float() {
                        ", not finite"
                    } else {
                        ""
                    };
                    return Err(format!(
                        "row {row}: {name} is null{odd} or too large, expected {kind}"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Rows for ArrowRows {
    fn timing(&self, row: usize) -> Timing {
        let (batch, at) = self.table.batch(row);
        let int = |field: usize| batch.columns[field].as_ref().and_then(|c| c.int(at));
        let (call, ret) = match self.ranks.get(row) {
            Some(&ranks) => ranks,
            None => (int(CALL).expect("checked"), int(RET).unwrap_or(NEVER)),
        };
        Timing {
            row,
            process: match self.named.get(row) {
                Some(&number) => number,
                None => int(PROCESS).expect("checked"),
            },
            call,
            ret,
        }
    }

    fn f(&self, row: usize) -> &str {
        let (column, at) = self.table.column(row, F).expect("a required column");
        column.str(at).expect("checked")
    }

    fn datum(&self, row: usize, field: Field) -> Datum<'_> {
        self.table.cell(row, column_index(field))
    }

    fn process_name(&self, row: usize) -> Option<&str> {
        let (batch, at) = self.table.batch(row);
        (!self.named.is_empty()).then(|| process_of(batch).str(at).expect("checked"))
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn times(&self, rows: Range<usize>, out: &mut Times) {
        if self.clock == Clock::Floats {
            for (at, row) in rows.enumerate() {
                out.put(at, self.timing(row));
            }
            return;
        }
        let named = self.named.get(rows.clone());
        if let Some(numbers) = named {
            out.process[..rows.len()].copy_from_slice(numbers);
        }
        for (batch, from, column_indices) in self.table.parts(rows) {
            if named.is_none() {
                let out = &mut out.process[column_indices.clone()];
                process_of(batch).ints(from, 0, out);
            }
            let fields = [(CALL, 0, &mut out.call), (RET, NEVER, &mut out.ret)];
            for (field, null, out) in fields {
                let column = batch.required(field);
                column.ints(from, null, &mut out[column_indices.clone()]);
            }
        }
    }

    fn keys(&self, rows: Range<usize>, field: Option<Field>, out: &mut [u128; BLOCK]) -> bool {
        self.table
            .keys_of_block(rows, field.map_or(F, column_index), out)
    }

    fn small_ints(&self, rows: Range<usize>, field: Field, out: &mut [u8; BLOCK]) -> bool {
        let field = column_index(field);
        self.table.parts(rows).all(|(batch, from, column_indices)| {
            let out = &mut out[column_indices];
            match &batch.columns[field] {
                Some(column) => column.small_ints(from, out),
                None => {
                    out.fill(0);
                    true
                }
            }
        })
    }

    fn prefetch(&self, row: usize) {
        let (batch, at) = self.table.batch(row);
        for field in [PROCESS, F, CALL, RET, VALUE, OUTPUT] {
            if let Some(column) = &batch.columns[field] {
                column.prefetch(at);
            }
        }
    }

    fn prefetch_texts(&self, row: usize) {
        let (batch, at) = self.table.batch(row);
        for field in [F, VALUE, OUTPUT] {
            if let Some(column) = &batch.columns[field] {
                column.prefetch_text(at);
            }
        }
    }
}

fn process_of(batch: &Batch<{ FIELDS.len() }>) -> &Column {
    batch.required(PROCESS)
}

/// Returns the index of a field's column in a batch.
fn column_index(field: Field) -> usize {
    match field {
        Field::Value => VALUE,
        Field::Output => OUTPUT,
        Field::Expected => EXPECTED,
    }
}
