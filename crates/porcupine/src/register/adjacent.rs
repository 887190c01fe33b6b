//! Parses adjacent rows as operations on a register, one block of each column at a time.

use std::ops::Range;

use super::{Action, Names, Parsed, RegisterOp, Value};
use crate::datum::{key, Datum, NULL};
use crate::models::numbers::Numbers;
use crate::order::NEVER;
use crate::rows::{blocks, Field, Rows, Times, BLOCK, SMALL};

/// Does the same as [`super::parse`]; returns `None` if the rows are not adjacent, a value does not
/// fit in 16 bytes, or a row is bad. O(n).
pub fn parse(rows: &dyn Rows, object: &[u32], names: Names, initial: &Datum) -> Option<Parsed> {
    let (first, last) = (*object.first()? as usize, *object.last()? as usize);
    if last - first + 1 != object.len() {
        return None;
    }
    if let Some(parsed) = parse_small_ints(rows, first..last + 1, names, initial) {
        return Some(parsed);
    }
    let mut numbers = Numbers::with_capacity(object.len() / 2);
    let initial = numbers.by_key(key(initial)?);
    let mut ops = Vec::with_capacity(object.len());
    let mut block = Block::new(names);
    for places in blocks(object.len()) {
        let adjacent = first + places.start..first + places.end;
        block.read(rows, adjacent.clone())?;
        for (at, row) in adjacent.enumerate() {
            let ret = block.times.ret[at];
            if ret != NEVER || block.f[at] != block.read {
                ops.push(RegisterOp {
                    row: row as u32,
                    action: block.action(at, &mut numbers)?,
                    call: block.times.call[at],
                    ret,
                });
            }
        }
    }
    Some(Parsed {
        ops,
        initial,
        values: numbers.len(),
    })
}

/// Does the same for values that are small integers and nulls: the number of an integer is the
/// integer plus one, that of null is 0.
fn parse_small_ints(
    rows: &dyn Rows,
    object: Range<usize>,
    names: Names,
    initial: &Datum,
) -> Option<Parsed> {
    let initial = match *initial {
        Datum::Null => 0,
        Datum::Int(int) if (0..SMALL as i64).contains(&int) => int as Value + 1,
        _ => return None,
    };
    let (read, write, cas) = keys(names);
    let mut f = [0; BLOCK];
    let [mut values, mut outputs, mut expected] = [[0; BLOCK]; 3];
    let mut times = Times::default();
    let mut ops = Vec::with_capacity(object.len());
    for places in blocks(object.len()) {
        let adjacent = object.start + places.start..object.start + places.end;
        let fits = rows.small_ints(adjacent.clone(), Field::Value, &mut values)
            && rows.small_ints(adjacent.clone(), Field::Output, &mut outputs)
            && rows.small_ints(adjacent.clone(), Field::Expected, &mut expected)
            && rows.keys(adjacent.clone(), None, &mut f);
        if !fits {
            return None;
        }
        rows.times(adjacent.clone(), &mut times);
        let mut good = true;
        // Do not branch on the kind of operation, which is as good as random.
        for (at, row) in adjacent.enumerate() {
            let (is_read, is_write) = (f[at] == read, f[at] == write);
            let ret = times.ret[at];
            let (value, output, expected) = (values[at], outputs[at], expected[at]);
            let is_cas = (Some(f[at]) == cas) & (expected != 0);
            let is_set = ret == NEVER || output == 2;
            good &= is_read | (value != 0) & (is_write | is_cas & (is_set | (output == 1)));
            let first = if is_write { value } else { expected };
            let first = Value::from(if is_read { output } else { first });
            let action = match (is_read, is_write, is_set) {
                (true, _, _) => Action::Read(first),
                (_, true, _) => Action::Write(first),
                (_, _, true) => Action::Cas(first, value.into()),
                _ => Action::CasFailed(first),
            };
            if ret != NEVER || !is_read {
                let call = times.call[at];
                let row = row as u32;
                ops.push(RegisterOp {
                    row,
                    action,
                    call,
                    ret,
                });
            }
        }
        if !good {
            return None;
        }
    }
    Some(Parsed {
        ops,
        initial,
        values: SMALL as usize + 1,
    })
}

/// The content of a block of rows by index: keys of operation names and values.
struct Block {
    /// The keys of the operations' names.
    read: u128,
    write: u128,
    cas: Option<u128>,
    times: Times,
    f: [u128; BLOCK],
    values: [u128; BLOCK],
    outputs: [u128; BLOCK],
    expected: [u128; BLOCK],
}

/// Returns the keys of the names of read, write and, if the model has it, compare-and-set.
fn keys(names: Names) -> (u128, u128, Option<u128>) {
    let short = |name| key(&Datum::Text(name)).expect("a short name");
    let [read, write] = names.read_and_write().map(short);
    let cas = (names == Names::CasRegister).then(|| short("cas"));
    (read, write, cas)
}

impl Block {
    fn new(names: Names) -> Self {
        let (read, write, cas) = keys(names);
        Self {
            read,
            write,
            cas,
            times: Times::default(),
            f: [0; BLOCK],
            values: [0; BLOCK],
            outputs: [0; BLOCK],
            expected: [0; BLOCK],
        }
    }

    /// Returns `None` if a value has no key.
    fn read(&mut self, rows: &dyn Rows, adjacent: Range<usize>) -> Option<()> {
        let fits = rows.keys(adjacent.clone(), None, &mut self.f)
            && rows.keys(adjacent.clone(), Some(Field::Value), &mut self.values)
            && rows.keys(adjacent.clone(), Some(Field::Output), &mut self.outputs)
            && rows.keys(adjacent.clone(), Some(Field::Expected), &mut self.expected);
        fits.then(|| rows.times(adjacent, &mut self.times))
    }

    /// Returns `None` if the row is bad.
    #[inline(always)]
    fn action(&self, at: usize, numbers: &mut Numbers) -> Option<Action> {
        let (f, value) = (self.f[at], self.values[at]);
        if f == self.read {
            return Some(Action::Read(numbers.by_key(self.outputs[at])));
        }
        if value == NULL {
            return None;
        }
        if f == self.write {
            return Some(Action::Write(numbers.by_key(value)));
        }
        if Some(f) != self.cas || self.expected[at] == NULL {
            return None;
        }
        let was_set = self.times.ret[at] == NEVER || was_set(self.outputs[at])?;
        let (from, to) = (numbers.by_key(self.expected[at]), numbers.by_key(value));
        Some(match was_set {
            true => Action::Cas(from, to),
            false => Action::CasFailed(from),
        })
    }
}

/// Returns whether a compare-and-set succeeded according to its output.
#[inline(always)]
fn was_set(output: u128) -> Option<bool> {
    let is = |datum| key(&datum) == Some(output);
    if is(Datum::Int(1)) || is(Datum::Bool(true)) {
        return Some(true);
    }
    (is(Datum::Int(0)) || is(Datum::Bool(false))).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Timing;

    /// Compare-and-sets, reads and writes in turn, each repeated in this number of rows.
    struct Turns(usize);

    impl Rows for Turns {
        fn timing(&self, row: usize) -> Timing {
            let at = (row / self.0) as i64;
            let ret = if at % 11 == 7 { NEVER } else { at + 5 };
            Timing {
                row,
                process: at,
                call: at,
                ret,
            }
        }
        fn f(&self, row: usize) -> &str {
            ["cas", "read", "write"][row / self.0 % 3]
        }
        fn datum(&self, row: usize, field: Field) -> Datum<'_> {
            let at = row / self.0;
            match field {
                Field::Value => Datum::Int((at % 7) as i64),
                Field::Expected if at % 3 == 0 => Datum::Int((at % 5) as i64),
                Field::Output if at % 3 == 0 => Datum::Bool(at % 2 == 0),
                Field::Output if at % 3 == 1 => Datum::Int((at % 4) as i64),
                Field::Output | Field::Expected => Datum::Null,
            }
        }
    }

    #[test]
    fn adjacent_rows_parse_as_scattered_ones_do() {
        let adjacent: Vec<u32> = (100..400).collect();
        let apart: Vec<u32> = adjacent.iter().map(|row| 2 * row).collect();
        let names = Names::CasRegister;
        let mut found = parse(&Turns(1), &adjacent, names, &Datum::Null).expect("good rows");
        assert!(parse(&Turns(2), &apart, names, &Datum::Null).is_none());
        for op in &mut found.ops {
            op.row *= 2;
        }
        let expected = super::super::parse(&Turns(2), &apart, names, &Datum::Null);
        assert_eq!(found, expected.expect("good rows"));
        assert!(found.ops.len() < adjacent.len() && found.values == 8);
    }
}
