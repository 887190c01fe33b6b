//! Groups the rows of results, and hashes those of parts.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::block::Block;
use crate::table::parts::{rows_repr, Part, Value};
use crate::table::replica::Table;

/// Returns for each value of a column the number of rows with it, and another column of one of
/// them.
pub fn groups(rows: &Block) -> Rc<Block> {
    let mut groups: BTreeMap<Value, (i64, Value)> = BTreeMap::new();
    for row in rows.rows() {
        let group = groups.entry(row[0].clone()).or_insert((0, row[1].clone()));
        *group = (group.0 + 1, row[1].clone());
    }
    let groups = groups.into_iter();
    let row = |(value, (count, some))| [value, Value::Int(count), some];
    Rc::new(groups.map(row).collect())
}

/// Returns each row with the number of equal ones, in ascending order.
pub fn counted(rows: &Block) -> Rc<Block> {
    let mut counts: BTreeMap<&[Value], i64> = BTreeMap::new();
    for row in rows.rows() {
        *counts.entry(row).or_default() += 1;
    }
    let mut out = Block::new(rows.width().max(1) + 1);
    for (row, count) in counts {
        out.push(row.iter().cloned().chain([Value::Int(count)]));
    }
    out.into()
}

/// Returns the name, the number of rows and a hash of the rows of each visible part.
pub fn hashes(table: &Table) -> Block {
    let hashed = |part: &Rc<Part>| {
        let mut rows = part.rows.to_vec();
        rows.sort();
        let hash = crc32fast::hash(rows_repr(&rows, '[', ']').as_bytes());
        let (count, hash) = (Value::Int(rows.len() as i64), Value::Int(i64::from(hash)));
        [Value::Text(part.name.clone()), count, hash]
    };
    table.active.borrow().values().map(hashed).collect()
}
