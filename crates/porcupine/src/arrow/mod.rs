//! Reads the rows of a history from Arrow columns, in place.

mod block;
mod column;

use std::ops::Range;

use arrow_interface::{text, ArrowArray, ArrowArrayStream, ArrowSchema};

use crate::datum::{Datum, NULL};
use crate::models::numbers::Numbers;
use crate::order::{Timing, NEVER};
use crate::partition::Partition;
use crate::process::Names;
use crate::rows::{blocks, BadRow, Field, Rows, Times, BLOCK};
use column::Column;

/// The columns by name, and whether each is required.
const FIELDS: [(&str, bool); 8] = [
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

struct Batch {
    columns: [Option<Column>; FIELDS.len()],
    /// Owns the memory into which the columns point.
    _array: ArrowArray,
}

// SAFETY: what a batch points to is immutable, and Arrow allows release on any thread.
unsafe impl Send for Batch {}
// SAFETY: as above.
unsafe impl Sync for Batch {}

/// A history in Arrow columns.
pub struct ArrowRows {
    batches: Vec<Batch>,
    /// The first row of each batch, and then the number of rows.
    starts: Vec<usize>,
    /// By row: the number of its process; empty if processes are numbers in their column.
    named: Vec<i64>,
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
    pub fn new(mut stream: ArrowArrayStream) -> Result<Self, String> {
        let schema = stream.schema()?;
        let column_indices = column_indices(&schema)?;
        let mut rows = Self {
            batches: Vec::new(),
            starts: vec![0],
            named: Vec::new(),
        };
        while let Some(array) = stream.batch()? {
            let length = array.length as usize;
            if length > 0 {
                rows.batches.push(batch(&schema, array, &column_indices)?);
                rows.starts.push(rows.len() + length);
            }
        }
        if rows.len() >= u32::MAX as usize {
            return Err(format!(
                "the history has {} rows, at most 4294967294 are possible",
                rows.len()
            ));
        }
        rows.check()?;
        rows.number_names();
        Ok(rows)
    }

    /// Numbers the processes if they are texts.
    fn number_names(&mut self) {
        let texts = |batch: &Batch| process_of(batch).is_text() && !process_of(batch).is_int();
        if !self.batches.iter().any(texts) {
            return;
        }
        let mut names = Names::default();
        let mut numbers = Vec::with_capacity(self.len());
        for batch in &self.batches {
            let column = process_of(batch);
            let rows = 0..batch._array.length as usize;
            numbers.extend(rows.map(|at| names.number(column.str(at).expect("checked"))));
        }
        self.named = numbers;
    }

    pub fn len(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns the keys in order of first appearance, and the rows of each.
    pub fn by_key(&self) -> Result<(Vec<Key<'_>>, Partition), BadRow> {
        let keyed = |batch: &Batch| batch.columns[KEY].as_ref().is_some_and(Column::has_values);
        if !self.batches.iter().any(keyed) && !self.is_empty() {
            return Ok((vec![Key::None], Partition::whole(self.len())));
        }
        let mut numbers = Numbers::default();
        let mut keys = Vec::new();
        let mut of = Vec::with_capacity(self.len());
        let mut keys_of_block = [NULL; BLOCK];
        for block in blocks(self.len()) {
            let short = self.keys_of_block(block.clone(), KEY, &mut keys_of_block);
            for (at, row) in block.enumerate() {
                let number = match short {
                    true => numbers.by_key(keys_of_block[at]),
                    false => numbers.number(self.cell(row, KEY)),
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
        match self.cell(row, KEY) {
            Datum::Null => Ok(Key::None),
            Datum::Int(number) => Ok(Key::Int(number)),
            Datum::Text(text) => Ok(Key::Text(text)),
            found => {
                let expected = "an int of 64 bits, a text or null";
                Err(BadRow::field(row, "key", &found, expected))
            }
        }
    }

    /// Splits a block by batch: the batch, the first row in it, and the range within the block.
    fn parts(&self, rows: Range<usize>) -> impl Iterator<Item = (&Batch, usize, Range<usize>)> {
        let first = self.starts.partition_point(|&start| start <= rows.start) - 1;
        let batches = self.batches.iter().zip(self.starts.windows(2)).skip(first);
        batches.map_while(move |(batch, bounds)| {
            let from = bounds[0].max(rows.start);
            let to = bounds[1].min(rows.end);
            let column_indices = from - rows.start..to.max(from) - rows.start;
            (from < to).then_some((batch, from - bounds[0], column_indices))
        })
    }

    /// Reads the keys of a block's values; returns false if one has no key.
    fn keys_of_block(&self, rows: Range<usize>, field: usize, out: &mut [u128; BLOCK]) -> bool {
        self.parts(rows).all(|(batch, from, column_indices)| {
            let out = &mut out[column_indices];
            match &batch.columns[field] {
                Some(column) => column.keys(from, out),
                None => {
                    out.fill(NULL);
                    true
                }
            }
        })
    }

    /// Returns the row's batch and the row's index in it.
    #[inline(always)]
    fn batch(&self, row: usize) -> (&Batch, usize) {
        let batch = match self.batches.len() {
            1 => 0,
            _ => self.starts.partition_point(|&start| start <= row) - 1,
        };
        (&self.batches[batch], row - self.starts[batch])
    }

    /// Returns the column of the row's batch and the row's index in it.
    #[inline(always)]
    fn column(&self, row: usize, field: usize) -> Option<(&Column, usize)> {
        let (batch, at) = self.batch(row);
        Some((batch.columns[field].as_ref()?, at))
    }

    #[inline(always)]
    fn cell(&self, row: usize, field: usize) -> Datum<'_> {
        match self.column(row, field) {
            Some((column, at)) => column.datum(at),
            None => Datum::Null,
        }
    }

    /// Checks that the fields of every operation have values of their types.
    fn check(&self) -> Result<(), String> {
        for (batch, &start) in self.batches.iter().zip(&self.starts) {
            let rows = batch._array.length as usize;
            for field in [PROCESS, CALL, F, RET] {
                let name = FIELDS[field].0;
                let column = batch.columns[field].as_ref().expect("a required column");
                let (fits, kind) = match field {
                    F => (column.is_text(), "text"),
                    PROCESS => (column.is_int() || column.is_text(), "ints or texts"),
                    _ => (column.is_int(), "ints"),
                };
                if !fits {
                    return Err(format!("the column {name:?} does not hold {kind}"));
                }
                if column.is_filled() {
                    continue;
                }
                let there = |at: &usize| match field {
                    F => column.str(*at).is_some(),
                    PROCESS if !column.is_int() => column.str(*at).is_some(),
                    RET => column.is_null(*at) || column.int(*at).is_some(),
                    _ => column.int(*at).is_some(),
                };
                if let Some(at) = (0..rows).find(|at| !there(at)) {
                    let row = start + at;
                    return Err(format!(
                        "row {row}: {name} is null or too large, expected {kind}"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Rows for ArrowRows {
    fn timing(&self, row: usize) -> Timing {
        let (batch, at) = self.batch(row);
        let int = |field: usize| batch.columns[field].as_ref().and_then(|c| c.int(at));
        Timing {
            row,
            process: match self.named.get(row) {
                Some(&number) => number,
                None => int(PROCESS).expect("checked"),
            },
            call: int(CALL).expect("checked"),
            ret: int(RET).unwrap_or(NEVER),
        }
    }

    fn f(&self, row: usize) -> &str {
        let (column, at) = self.column(row, F).expect("a required column");
        column.str(at).expect("checked")
    }

    fn datum(&self, row: usize, field: Field) -> Datum<'_> {
        self.cell(row, column_index(field))
    }

    fn process_name(&self, row: usize) -> Option<&str> {
        let (batch, at) = self.batch(row);
        (!self.named.is_empty()).then(|| process_of(batch).str(at).expect("checked"))
    }

    fn times(&self, rows: Range<usize>, out: &mut Times) {
        let named = self.named.get(rows.clone());
        if let Some(numbers) = named {
            out.process[..rows.len()].copy_from_slice(numbers);
        }
        for (batch, from, column_indices) in self.parts(rows) {
            if named.is_none() {
                let out = &mut out.process[column_indices.clone()];
                process_of(batch).ints(from, 0, out);
            }
            let fields = [(CALL, 0, &mut out.call), (RET, NEVER, &mut out.ret)];
            for (field, null, out) in fields {
                let column = batch.columns[field].as_ref().expect("a required column");
                column.ints(from, null, &mut out[column_indices.clone()]);
            }
        }
    }

    fn keys(&self, rows: Range<usize>, field: Option<Field>, out: &mut [u128; BLOCK]) -> bool {
        self.keys_of_block(rows, field.map_or(F, column_index), out)
    }

    fn small_ints(&self, rows: Range<usize>, field: Field, out: &mut [u8; BLOCK]) -> bool {
        let field = column_index(field);
        self.parts(rows).all(|(batch, from, column_indices)| {
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
        let (batch, at) = self.batch(row);
        for field in [PROCESS, F, CALL, RET, VALUE, OUTPUT] {
            if let Some(column) = &batch.columns[field] {
                column.prefetch(at);
            }
        }
    }

    fn prefetch_texts(&self, row: usize) {
        let (batch, at) = self.batch(row);
        for field in [F, VALUE, OUTPUT] {
            if let Some(column) = &batch.columns[field] {
                column.prefetch_text(at);
            }
        }
    }
}

fn process_of(batch: &Batch) -> &Column {
    batch.columns[PROCESS].as_ref().expect("a required column")
}

/// Returns the index of a field's column in a batch.
fn column_index(field: Field) -> usize {
    match field {
        Field::Value => VALUE,
        Field::Output => OUTPUT,
        Field::Expected => EXPECTED,
    }
}

/// Returns the index of each field's column in the stream.
fn column_indices(schema: &ArrowSchema) -> Result<[Option<usize>; FIELDS.len()], String> {
    // SAFETY: the schema is valid.
    let format = unsafe { text(schema.format) };
    if format != "+s" {
        return Err(format!(
            "the Arrow stream holds {format:?}, expected a table"
        ));
    }
    let children = match schema.n_children {
        0 => &[],
        // SAFETY: the schema has this number of children.
        n => unsafe { std::slice::from_raw_parts(schema.children, n as usize) },
    };
    // SAFETY: children are valid schemas.
    let names: Vec<String> = children
        .iter()
        .map(|c| unsafe { text((**c).name) })
        .collect();
    let mut column_indices = [None; FIELDS.len()];
    for (column_index, (field, required)) in column_indices.iter_mut().zip(FIELDS) {
        *column_index = names.iter().position(|name| name == field);
        if required && column_index.is_none() {
            return Err(format!("there is no column {field:?} among {names:?}"));
        }
    }
    Ok(column_indices)
}

fn batch(
    schema: &ArrowSchema,
    array: ArrowArray,
    column_indices: &[Option<usize>; FIELDS.len()],
) -> Result<Batch, String> {
    let mut columns = [const { None }; FIELDS.len()];
    for ((column, column_index), (field, _)) in columns.iter_mut().zip(column_indices).zip(FIELDS) {
        let Some(column_index) = *column_index else {
            continue;
        };
        if array.offset != 0 || column_index >= array.n_children as usize {
            return Err("the Arrow batches are not those of the stream's schema".to_owned());
        }
        // SAFETY: the stream's batches have the children of its schema, and the array is stored
        // beside the columns.
        let made = unsafe {
            Column::new(
                &**schema.children.add(column_index),
                &**array.children.add(column_index),
            )
        };
        *column = Some(made.map_err(|text| format!("the column {field:?} {text}"))?);
    }
    Ok(Batch {
        columns,
        _array: array,
    })
}
