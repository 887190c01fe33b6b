//! Columns of a table, and the few expressions over them that a simulated server understands.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::LazyLock;

use regex::Regex;

use crate::errors::ServerError;
use crate::table::parts::{Row, Rows, Value};

static AND: LazyLock<Regex> = LazyLock::new(|| expression(r"\bAND\b"));
static CONDITION: LazyLock<Regex> =
    LazyLock::new(|| expression(r"(?s)^\s*(\w+)\s*(=|!=|<=|>=|<|>|IN)\s*(.+?)\s*$"));
static CHANGE: LazyLock<Regex> =
    LazyLock::new(|| expression(r"(?s)^(?:UPDATE\s+(?P<what>.+?)|DELETE)\s+WHERE\s+(?P<where>.+)"));
static ASSIGNMENT: LazyLock<Regex> =
    LazyLock::new(|| expression(r"^(\w+)\s*=\s*(?:(\w+)\s*\+\s*)?(?:toUInt64\()?(-?\d+)\)?\s*$"));

fn expression(text: &str) -> Regex {
    Regex::new(text).expect("it is well formed")
}

/// Of one table.
#[derive(Debug, Clone)]
pub struct Schema {
    pub columns: Vec<Rc<str>>,
    /// A column; None: one partition.
    pub partition_by: Option<Rc<str>>,
    pub order_by: Vec<Rc<str>>,
}

impl Schema {
    /// Whose part a row belongs to.
    pub fn partition(&self, row: &[Value]) -> Result<Rc<str>, ServerError> {
        let Some(column) = &self.partition_by else {
            return Ok("all".into());
        };
        Ok(match &row[self.at(column)?] {
            Value::Int(number) => number.to_string().into(),
            Value::Text(text) => text.clone(),
        })
    }

    /// By the sorting key; rows of one key stay as they were.
    pub fn sort(&self, rows: &mut [Row]) -> Result<(), ServerError> {
        let places = self.order_by.iter().map(|column| self.at(column));
        let places: Vec<usize> = places.collect::<Result<_, _>>()?;
        rows.sort_by(|left, right| {
            let mut orders = places.iter().map(|at| left[*at].cmp(&right[*at]));
            orders
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        });
        Ok(())
    }

    /// A column's place, else error 47.
    pub fn at(&self, column: &str) -> Result<usize, ServerError> {
        let at = self.columns.iter().position(|known| **known == *column);
        at.ok_or_else(|| ServerError::new(47, format!("Unknown identifier: {column}")))
    }

    /// The rows for which every condition, with AND between them, holds.
    pub fn matching(
        &self,
        where_: Option<&str>,
        mut rows: Vec<Row>,
    ) -> Result<Vec<Row>, ServerError> {
        let conditions = self.conditions(where_.unwrap_or_default())?;
        rows.retain(|row| all_hold(&conditions, row));
        Ok(rows)
    }

    /// What UPDATE … WHERE … or DELETE WHERE … makes of rows.
    pub fn apply(&self, change: &str, rows: &Rows) -> Result<Rows, ServerError> {
        let found = CHANGE.captures(change).ok_or_else(|| unknown(change))?;
        let struck = self.conditions(&found["where"])?;
        let Some(what) = found.name("what") else {
            let kept = rows.iter().filter(|row| !all_hold(&struck, row));
            return Ok(kept.cloned().collect());
        };
        let (at, source, by) = self.assignment(what.as_str())?;
        let changed = |row: &Row| -> Row {
            let mut values = row.to_vec();
            let before = source.map_or(0, |source| match &row[source] {
                Value::Int(number) => *number,
                Value::Text(text) => panic!("{text} is no number"),
            });
            values[at] = Value::Int(by + before);
            values.into()
        };
        let rows = rows.iter().map(|row| {
            if all_hold(&struck, row) {
                changed(row)
            } else {
                row.clone()
            }
        });
        Ok(rows.collect())
    }

    /// Of an UPDATE: the column, the one whose value is added to, and the number.
    fn assignment(&self, text: &str) -> Result<(usize, Option<usize>, i64), ServerError> {
        let found = ASSIGNMENT
            .captures(text.trim())
            .ok_or_else(|| unknown(text))?;
        let by = found[3].parse().map_err(|_| unknown(text))?;
        let at = self.at(&found[1])?;
        let source = found.get(2).map(|column| self.at(column.as_str()));
        Ok((at, source.transpose()?, by))
    }

    fn conditions(&self, text: &str) -> Result<Vec<Condition>, ServerError> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let texts = AND.split(text).filter(|text| text.trim() != "1");
        texts.map(|text| self.condition(text)).collect()
    }

    fn condition(&self, text: &str) -> Result<Condition, ServerError> {
        let found = CONDITION.captures(text).ok_or_else(|| unknown(text))?;
        let at = self.at(&found[1])?;
        let mut values = values(&found[3]).ok_or_else(|| unknown(text))?;
        let holds: fn(Ordering) -> bool = match &found[2] {
            "=" => Ordering::is_eq,
            "!=" => Ordering::is_ne,
            "<" => Ordering::is_lt,
            ">" => Ordering::is_gt,
            "<=" => Ordering::is_le,
            ">=" => Ordering::is_ge,
            _ => {
                let test = Test::In(values);
                return Ok(Condition { at, test });
            }
        };
        let test = Test::Than(holds, values.swap_remove(0));
        Ok(Condition { at, test })
    }
}

fn unknown(text: &str) -> ServerError {
    ServerError::new(62, format!("Syntax error: '{text}' is not simulated"))
}

/// Of "7", "(7, 8)" or "'word'": one at least.
fn values(text: &str) -> Option<Vec<Value>> {
    let words = text.trim_matches(['(', ')', ' ', '\n']).split(',');
    let values = words.map(|word| match word.trim() {
        word if word.starts_with('\'') => Some(Value::text(word.trim_matches('\''))),
        word => word.parse().ok().map(Value::Int),
    });
    values.collect()
}

/// Of a column's value.
struct Condition {
    at: usize,
    test: Test,
}

enum Test {
    /// It is one of them.
    In(Vec<Value>),
    /// How it compares to this one.
    Than(fn(Ordering) -> bool, Value),
}

fn all_hold(conditions: &[Condition], row: &[Value]) -> bool {
    conditions.iter().all(|condition| {
        let found = &row[condition.at];
        match &condition.test {
            Test::In(values) => values.contains(found),
            Test::Than(holds, value) => holds(found.cmp(value)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        Schema {
            columns: vec!["k".into(), "v".into(), "s".into()],
            partition_by: Some("k".into()),
            order_by: vec!["k".into(), "v".into()],
        }
    }

    fn row(k: i64, v: i64, s: &str) -> Row {
        [Value::Int(k), Value::Int(v), Value::text(s)].into()
    }

    fn rows() -> Vec<Row> {
        vec![
            row(2, 20, "b"),
            row(1, 10, "a"),
            row(3, 30, "c"),
            row(1, 5, "d"),
        ]
    }

    /// The column v of those that match.
    fn matched(text: &str) -> Result<Vec<i64>, ServerError> {
        Ok(seconds(&schema().matching(Some(text), rows())?))
    }

    fn seconds(rows: &[Row]) -> Vec<i64> {
        let seconds = rows.iter().map(|row| match row[1] {
            Value::Int(number) => number,
            Value::Text(_) => panic!("v is a number"),
        });
        seconds.collect()
    }

    #[test]
    fn conditions() {
        assert_eq!(matched(""), Ok(vec![20, 10, 30, 5]));
        assert_eq!(matched("1"), Ok(vec![20, 10, 30, 5]));
        assert_eq!(matched("k = 1"), Ok(vec![10, 5]));
        assert_eq!(matched(" k!=1 "), Ok(vec![20, 30]));
        assert_eq!(matched("v < 20"), Ok(vec![10, 5]));
        assert_eq!(matched("v <= 20"), Ok(vec![20, 10, 5]));
        assert_eq!(matched("v > 20"), Ok(vec![30]));
        assert_eq!(matched("v >= 20"), Ok(vec![20, 30]));
        assert_eq!(matched("v > -1"), Ok(vec![20, 10, 30, 5]));
        assert_eq!(matched("s = 'c'\n"), Ok(vec![30]));
        assert_eq!(seconds(&schema().matching(None, rows()).unwrap()).len(), 4);
    }

    #[test]
    fn one_of_several() {
        assert_eq!(matched("k IN (1, 3)"), Ok(vec![10, 30, 5]));
        assert_eq!(matched("k IN (7)"), Ok(vec![]));
        assert_eq!(matched("s IN ('a', 'b')"), Ok(vec![20, 10]));
    }

    #[test]
    fn several_conditions() {
        assert_eq!(matched("k = 1 AND v = 5"), Ok(vec![5]));
        assert_eq!(matched("1 AND k IN (1,2) AND v>5"), Ok(vec![20, 10]));
    }

    #[test]
    fn what_is_not_known() {
        let refused = |text: &str| matched(text).unwrap_err();
        assert_eq!(
            refused("x = 1"),
            ServerError::new(47, "Unknown identifier: x")
        );
        let error = ServerError::new(62, "Syntax error: 'k LIKE 1' is not simulated");
        assert_eq!(refused("k LIKE 1"), error);
        assert_eq!(refused("k = one").code, 62);
        assert_eq!(refused("k IN ()").code, 62);
        let applied = |change: &str| schema().apply(change, &rows().into()).unwrap_err().code;
        assert_eq!(applied("DROP COLUMN k"), 62);
        assert_eq!(applied("UPDATE k = v WHERE 1"), 62);
        assert_eq!(applied("UPDATE x = 1 WHERE 1"), 47);
        assert_eq!(applied("UPDATE k = x + 1 WHERE 1"), 47);
        assert_eq!(applied("DELETE WHERE x = 1"), 47);
    }

    #[test]
    fn mutations() {
        let applied = |change: &str| seconds(&schema().apply(change, &rows().into()).unwrap());
        assert_eq!(applied("DELETE WHERE k = 1"), [20, 30]);
        assert_eq!(applied("DELETE WHERE k = 1 AND v = 5"), [20, 10, 30]);
        assert_eq!(applied("UPDATE v = 7 WHERE k = 1"), [20, 7, 30, 7]);
        assert_eq!(applied("UPDATE v = v + 1 WHERE 1"), [21, 11, 31, 6]);
        assert_eq!(
            applied("UPDATE v = k + toUInt64(40) WHERE v >= 20"),
            [42, 10, 43, 5]
        );
        assert_eq!(applied("UPDATE v = -3 WHERE s = 'b'"), [-3, 10, 30, 5]);
    }

    #[test]
    fn order_and_partitions() {
        let mut sorted = rows();
        schema().sort(&mut sorted).unwrap();
        assert_eq!(seconds(&sorted), [5, 10, 20, 30]);
        assert_eq!(&*schema().partition(&row(7, 0, "")).unwrap(), "7");
        let whole = Schema {
            partition_by: None,
            order_by: vec!["k".into()],
            ..schema()
        };
        whole.sort(&mut sorted).unwrap();
        assert_eq!(seconds(&sorted), [5, 10, 20, 30]);
        assert_eq!(&*whole.partition(&row(7, 0, "")).unwrap(), "all");
    }
}
