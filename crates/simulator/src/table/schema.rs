//! Defines the columns of a table, and the few expressions over them that a simulated server
//! understands.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::LazyLock;

use histories::digits::Digits;
use regex::Regex;

use crate::errors::ServerError;
use crate::table::parts::{Row, Rows, Value};
use crate::table::ttl::Ttl;

static AND: LazyLock<Regex> = LazyLock::new(|| expression(r"\bAND\b"));
static CHANGE: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"(?s)^(?:UPDATE\s+(?P<what>.+?)|DELETE)(?:\s+IN\s+PARTITION\s+(?P<in>\w+))?\s+WHERE\s+(?P<where>.+)",
    )
});
static ASSIGNMENT: LazyLock<Regex> =
    LazyLock::new(|| expression(r"^(\w+)\s*=\s*(?:(\w+)\s*\+\s*)?(?:toUInt64\()?(-?\d+)\)?\s*$"));

static CONCATENATION: LazyLock<Regex> =
    LazyLock::new(|| expression(r"^(\w+)\s*=\s*concat\((\w+),\s*'([^']*)'\)\s*$"));
static PUSH: LazyLock<Regex> =
    LazyLock::new(|| expression(r"^(\w+)\s*=\s*arrayPushBack\((\w+),\s*(\d+)\)\s*$"));

fn expression(text: &str) -> Regex {
    Regex::new(text).expect("the expression is well-formed")
}

/// The schema of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    pub columns: Vec<Rc<str>>,
    /// The partitioning column; `None` for a single partition.
    pub partition_by: Option<Rc<str>>,
    pub order_by: Vec<Rc<str>>,
    /// When rows expire; `None` for never.
    pub ttl: Option<Ttl>,
}

impl Schema {
    /// Returns the partition of a row.
    pub fn partition(&self, row: &[Value]) -> Result<Rc<str>, ServerError> {
        let Some(column) = &self.partition_by else {
            return Ok("all".into());
        };
        Ok(spelled(&row[self.at(column)?]))
    }

    /// Sorts by the sorting key; rows with equal keys keep their order.
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

    /// Returns the index of a column, or error 47.
    pub fn at(&self, column: &str) -> Result<usize, ServerError> {
        let at = self.columns.iter().position(|known| **known == *column);
        at.ok_or_else(|| ServerError::new(47, format!("Unknown identifier: {column}")))
    }

    /// Applies UPDATE … WHERE … or DELETE WHERE … to rows.
    pub fn apply(&self, change: &str, rows: &Rows) -> Result<Rows, ServerError> {
        let found = CHANGE.captures(change).ok_or_else(|| unknown(change))?;
        let struck = self.conditions(&found["where"])?;
        let Some(what) = found.name("what") else {
            let kept = rows.iter().filter(|row| !struck.hold(row));
            return Ok(kept.cloned().collect());
        };
        let what = what.as_str().trim();
        if let Some(found) = CONCATENATION.captures(what) {
            let (at, source) = (self.at(&found[1])?, self.at(&found[2])?);
            return Ok(set(rows, &struck, at, |row| match &row[source] {
                Value::Text(text) => Value::Text(format!("{text}{}", &found[3]).into()),
                other => panic!("{other:?} is not a text"),
            }));
        }
        if let Some(found) = PUSH.captures(what) {
            let (at, source) = (self.at(&found[1])?, self.at(&found[2])?);
            let pushed = found[3].parse().map_err(|_| unknown(what))?;
            return Ok(set(rows, &struck, at, |row| match &row[source] {
                Value::List(numbers) => Value::List([&**numbers, &[pushed]].concat().into()),
                other => panic!("{other:?} is not an array"),
            }));
        }
        let (at, source, by) = self.assignment(what)?;
        Ok(set(rows, &struck, at, |row| {
            let before = source.map_or(0, |source| match &row[source] {
                Value::Int(number) => *number,
                other => panic!("{other:?} is not a number"),
            });
            Value::Int(by + before)
        }))
    }

    /// Returns the only partition that a mutation names.
    pub fn named_partition(change: &str) -> Option<Rc<str>> {
        let found = CHANGE.captures(change)?;
        found.name("in").map(|name| name.as_str().into())
    }

    /// Parses the assignment of an UPDATE: the column, the column to whose value it adds, and the
    /// number.
    fn assignment(&self, text: &str) -> Result<(usize, Option<usize>, i64), ServerError> {
        let found = ASSIGNMENT
            .captures(text.trim())
            .ok_or_else(|| unknown(text))?;
        let by = found[3].parse().map_err(|_| unknown(text))?;
        let at = self.at(&found[1])?;
        let source = found.get(2).map(|column| self.at(column.as_str()));
        Ok((at, source.transpose()?, by))
    }

    /// Parses the conditions of a WHERE that are joined by AND.
    pub fn conditions(&self, text: &str) -> Result<Conditions, ServerError> {
        if text.is_empty() {
            return Ok(Conditions::default());
        }
        let mut texts: Vec<&str> = vec![text];
        if text.contains("AND") {
            texts = AND.split(text).collect();
        }
        let texts = texts.into_iter().filter(|text| text.trim() != "1");
        let all = texts.map(|text| self.condition(text));
        Ok(Conditions(all.collect::<Result<_, _>>()?))
    }

    fn condition(&self, text: &str) -> Result<Condition, ServerError> {
        let of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let rest = text.trim().trim_start_matches(of_word);
        let column = &text.trim()[..text.trim().len() - rest.len()];
        let rest = rest.trim_start();
        if let Some(rest) = rest.strip_prefix('%') {
            let numbers = rest.split_once('=').and_then(|(divisor, rest)| {
                Some((divisor.trim().parse().ok()?, rest.trim().parse().ok()?))
            });
            let (divisor, rest) = numbers.ok_or_else(|| unknown(text))?;
            let at = self.at(column)?;
            let test = Test::Rest(divisor, rest);
            return Ok(Condition { at, test });
        }
        let operator = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
        let (sign, holds) = operator.ok_or_else(|| unknown(text))?;
        if column.is_empty() {
            return Err(unknown(text));
        }
        let at = self.at(column)?;
        let mut values = values(&rest[sign.len()..]).ok_or_else(|| unknown(text))?;
        let test = match holds {
            Some(holds) => Test::Than(*holds, values.swap_remove(0)),
            None => {
                if *sign == "=" {
                    values.truncate(1);
                }
                match values.len() {
                    1 => Test::Is(values.swap_remove(0)),
                    _ => Test::In(values),
                }
            }
        };
        Ok(Condition { at, test })
    }

    /// Returns the only partition that may have rows which satisfy the conditions; `None` if any
    /// may.
    pub fn partition_of(&self, conditions: &Conditions) -> Option<Rc<str>> {
        let column = self.partition_by.as_deref()?;
        let column = self.columns.iter().position(|known| **known == *column)?;
        conditions.0.iter().find_map(|one| match &one.test {
            Test::Is(value) if one.at == column => Some(spelled(value)),
            _ => None,
        })
    }
}

fn unknown(text: &str) -> ServerError {
    ServerError::new(62, format!("Syntax error: '{text}' is not simulated"))
}

/// Parses "7", "(7, 8)" or "'word'": at least one value.
fn values(text: &str) -> Option<Vec<Value>> {
    let words = text.trim_matches(['(', ')', ' ', '\n']).split(',');
    let values = words.map(|word| match word.trim() {
        word if word.starts_with('\'') => Some(Value::text(word.trim_matches('\''))),
        word => word.parse().ok().map(Value::Int),
    });
    values.collect()
}

/// Returns the value as it appears in a partition's name.
fn spelled(value: &Value) -> Rc<str> {
    match value {
        Value::Int(number) => Digits::of(*number).as_str().into(),
        Value::Text(text) => text.clone(),
        Value::List(numbers) => format!("{numbers:?}").into(),
    }
}

/// Sets a column of the rows that satisfy the conditions.
fn set(rows: &Rows, struck: &Conditions, at: usize, value: impl Fn(&Row) -> Value) -> Rows {
    let changed = |row: &Row| -> Row {
        let mut values = row.to_vec();
        values[at] = value(row);
        values.into()
    };
    let rows = rows.iter().map(|row| match struck.hold(row) {
        true => changed(row),
        false => row.clone(),
    });
    rows.collect()
}

/// Whether a comparison has this result.
type Holds = fn(Ordering) -> bool;

/// `None` is IN. No operator begins with an earlier one.
const OPERATORS: [(&str, Option<Holds>); 7] = [
    ("=", None),
    ("!=", Some(Ordering::is_ne)),
    ("<=", Some(Ordering::is_le)),
    (">=", Some(Ordering::is_ge)),
    ("<", Some(Ordering::is_lt)),
    (">", Some(Ordering::is_gt)),
    ("IN", None),
];

/// The conditions of a WHERE.
#[derive(Default)]
pub struct Conditions(Box<[Condition]>);

/// A condition on a column's value.
struct Condition {
    at: usize,
    test: Test,
}

enum Test {
    Is(Value),
    /// The value is one of these.
    In(Vec<Value>),
    /// The value compares in this way to another one.
    Than(Holds, Value),
    /// The value divided by this leaves that.
    Rest(i64, i64),
}

impl Condition {
    #[inline]
    fn holds(&self, row: &[Value]) -> bool {
        match (&self.test, &row[self.at]) {
            (Test::Is(Value::Int(number)), Value::Int(found)) => number == found,
            (_, found) => self.holds_of(found),
        }
    }

    fn holds_of(&self, found: &Value) -> bool {
        match &self.test {
            Test::Is(value) => value == found,
            Test::In(values) => values.contains(found),
            Test::Than(holds, value) => holds(found.cmp(value)),
            Test::Rest(divisor, rest) => {
                matches!(found, Value::Int(number) if number % divisor == *rest)
            }
        }
    }
}

impl Conditions {
    /// Whether each holds for this row.
    #[inline]
    pub fn hold(&self, row: &[Value]) -> bool {
        self.0.iter().all(|condition| condition.holds(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        Schema {
            columns: vec!["k".into(), "v".into(), "s".into()],
            partition_by: Some("k".into()),
            order_by: vec!["k".into(), "v".into()],
            ttl: None,
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

    /// Returns column v of the matching rows.
    fn matched(text: &str) -> Result<Vec<i64>, ServerError> {
        let conditions = schema().conditions(text)?;
        let mut rows = rows();
        rows.retain(|row| conditions.hold(row));
        Ok(seconds(&rows))
    }

    fn seconds(rows: &[Row]) -> Vec<i64> {
        let seconds = rows.iter().map(|row| match row[1] {
            Value::Int(number) => number,
            _ => panic!("v is a number"),
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
        assert_eq!(matched("v % 4 = 1"), Ok(vec![5]));
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
    fn one_partition() {
        let of = |text: &str| schema().partition_of(&schema().conditions(text).unwrap());
        assert_eq!(of("k = 7").as_deref(), Some("7"));
        assert_eq!(of("v > 5 AND k IN (7)").as_deref(), Some("7"));
        for text in ["", "1", "v = 7", "k > 7", "k IN (7, 8)"] {
            assert_eq!(of(text), None);
        }
        let whole = Schema {
            partition_by: None,
            ..schema()
        };
        assert_eq!(
            whole.partition_of(&schema().conditions("k = 7").unwrap()),
            None
        );
    }

    #[test]
    fn unknown_columns_and_syntax() {
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
    fn arrays_grow() {
        let list = |numbers: &[i64]| Value::List(numbers.into());
        let rows = [(1, list(&[])), (2, list(&[7]))].map(|(k, v)| [Value::Int(k), v].into());
        let schema = Schema {
            columns: vec!["k".into(), "v".into()],
            ..schema()
        };
        let change = "UPDATE v = arrayPushBack(v, 9) WHERE k % 2 = 0";
        let changed = schema.apply(change, &rows.into()).unwrap();
        let values: Vec<_> = changed.iter().map(|row| row[1].clone()).collect();
        assert_eq!(values, [list(&[]), list(&[7, 9])]);
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
