//! Reads columns by name from an Arrow stream, in place.

use std::ops::Range;

use arrow_interface::{text, ArrowArray, ArrowArrayStream, ArrowSchema};

use super::column::Column;
use crate::clock::Clock;
use crate::datum::{Datum, NULL};
use crate::rows::BLOCK;

/// The name of a column, and whether it is required.
pub type FieldName = (&'static str, bool);

/// Columns that may hold floats.
const TIMES: [&str; 2] = ["call", "ret"];

pub struct Batch<const N: usize> {
    pub columns: [Option<Column>; N],
    /// Owns the memory into which the columns point.
    array: ArrowArray,
}

// SAFETY: what a batch points to is immutable, and Arrow allows release on any thread.
unsafe impl<const N: usize> Send for Batch<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Batch<N> {}

impl<const N: usize> Batch<N> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.array.length as usize
    }

    /// Returns a column that every table has.
    pub fn required(&self, field: usize) -> &Column {
        self.columns[field].as_ref().expect("a required column")
    }
}

/// A table of N columns, some of which may be missing.
pub struct Table<const N: usize> {
    pub batches: Vec<Batch<N>>,
    /// The first row of each batch, and then the number of rows.
    pub starts: Vec<usize>,
}

impl<const N: usize> Table<N> {
    /// Reads all batches of a stream. The error names the column.
    pub fn new(mut stream: ArrowArrayStream, fields: &[FieldName; N]) -> Result<Self, String> {
        let schema = stream.schema()?;
        let column_indices = column_indices(&schema, fields)?;
        let mut table = Self {
            batches: Vec::new(),
            starts: vec![0],
        };
        while let Some(array) = stream.batch()? {
            let length = array.length as usize;
            if length > 0 {
                table
                    .batches
                    .push(batch(&schema, array, &column_indices, fields)?);
                table.starts.push(table.len() + length);
            }
        }
        if table.len() >= u32::MAX as usize {
            return Err(format!(
                "the history has {} rows, at most 4294967294 are possible",
                table.len()
            ));
        }
        Ok(table)
    }

    pub fn len(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Returns the clock of columns of times: that of floats if one of them has floats.
    pub fn clock(&self, fields: [usize; 2]) -> Clock {
        let is_float = |field: usize| {
            let mut batches = self.batches.iter();
            batches.any(|batch| batch.columns[field].as_ref().is_some_and(Column::is_float))
        };
        match fields.into_iter().any(is_float) {
            true => Clock::Floats,
            false => Clock::Ints,
        }
    }

    /// Splits a block by batch: the batch, the first row in it, and the range within the block.
    pub fn parts(
        &self,
        rows: Range<usize>,
    ) -> impl Iterator<Item = (&Batch<N>, usize, Range<usize>)> {
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
    pub fn keys_of_block(&self, rows: Range<usize>, field: usize, out: &mut [u128; BLOCK]) -> bool {
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
    pub fn batch(&self, row: usize) -> (&Batch<N>, usize) {
        let batch = match self.batches.len() {
            1 => 0,
            _ => self.starts.partition_point(|&start| start <= row) - 1,
        };
        (&self.batches[batch], row - self.starts[batch])
    }

    /// Returns the column of the row's batch and the row's index in it.
    #[inline(always)]
    pub fn column(&self, row: usize, field: usize) -> Option<(&Column, usize)> {
        let (batch, at) = self.batch(row);
        Some((batch.columns[field].as_ref()?, at))
    }

    #[inline(always)]
    pub fn cell(&self, row: usize, field: usize) -> Datum<'_> {
        match self.column(row, field) {
            Some((column, at)) => column.datum(at),
            None => Datum::Null,
        }
    }
}

/// Returns the index of each field's column in the stream.
fn column_indices<const N: usize>(
    schema: &ArrowSchema,
    fields: &[FieldName; N],
) -> Result<[Option<usize>; N], String> {
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
    let mut column_indices = [None; N];
    for (column_index, (field, required)) in column_indices.iter_mut().zip(fields) {
        *column_index = names.iter().position(|name| name == field);
        if *required && column_index.is_none() {
            return Err(format!("there is no column {field:?} among {names:?}"));
        }
    }
    Ok(column_indices)
}

fn batch<const N: usize>(
    schema: &ArrowSchema,
    array: ArrowArray,
    column_indices: &[Option<usize>; N],
    fields: &[FieldName; N],
) -> Result<Batch<N>, String> {
    let mut columns = [const { None }; N];
    for ((column, column_index), (field, _)) in columns.iter_mut().zip(column_indices).zip(fields) {
        let Some(column_index) = *column_index else {
            continue;
        };
        if array.offset != 0 || column_index >= array.n_children as usize {
            return Err("the Arrow batches are not those of the stream's schema".to_owned());
        }
        // SAFETY: the stream's batches have the children of its schema, and the array is stored
        // beside the columns.
        let made = unsafe {
            let schema = &**schema.children.add(column_index);
            let array = &**array.children.add(column_index);
            match TIMES.contains(field) {
                true => Column::of_times(schema, array),
                false => Column::new(schema, array),
            }
        };
        *column = Some(made.map_err(|text| format!("the column {field:?} {text}"))?);
    }
    Ok(Batch { columns, array })
}
