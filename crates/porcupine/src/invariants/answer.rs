//! Defines what is found out about an invariant.

use crate::datum::Datum;
use crate::models::numbers::Numbers;
use crate::verdict::Status;

/// What breaks an invariant, or what is worth knowing beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Such as "lost".
    pub name: &'static str,
    /// Whether the invariant forbids it.
    pub forbidden: bool,
    /// Number of instances.
    pub count: usize,
    /// The rows of the first few instances, in the order of the instances.
    pub rows: Vec<usize>,
    /// A clause that names the first few instances.
    pub text: String,
}

/// The answer about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    /// A clause for human readers.
    pub reason: String,
    /// Figures by name.
    pub counts: Vec<(&'static str, u64)>,
    pub findings: Vec<Finding>,
}

/// Maximum number of instances that a finding names.
pub const NAMED_MAX: usize = 8;

impl Answer {
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self {
            status: Status::Unknown,
            reason: reason.into(),
            counts: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Returns INVALID if something forbidden was found, otherwise UNKNOWN with the reason `open` if
    /// there is one, otherwise VALID with the reason `valid`. Findings without instances are left
    /// out.
    pub fn of(
        counts: Vec<(&'static str, u64)>,
        findings: Vec<Finding>,
        open: Option<String>,
        valid: String,
    ) -> Self {
        let findings: Vec<Finding> = findings.into_iter().filter(|f| f.count > 0).collect();
        let broken: Vec<&str> = findings
            .iter()
            .filter(|f| f.forbidden)
            .map(|f| f.text.as_str())
            .collect();
        let (status, reason) = match (broken.is_empty(), open) {
            (false, _) => (Status::Invalid, broken.join("; ")),
            (true, Some(open)) => (Status::Unknown, open),
            (true, None) => (Status::Valid, valid),
        };
        Self {
            status,
            reason,
            counts,
            findings,
        }
    }
}

/// Values with numbers, counted from 0 in the order of their first appearance.
#[derive(Default)]
pub struct Known<'a> {
    numbers: Numbers<'a>,
    values: Vec<Datum<'a>>,
}

impl<'a> Known<'a> {
    pub fn number(&mut self, value: Datum<'a>) -> usize {
        let number = self.numbers.number(value.clone()) as usize;
        if number == self.values.len() {
            self.values.push(value);
        }
        number
    }

    pub fn text(&self, number: usize) -> String {
        self.values[number].text()
    }

    /// Returns the values of a range if all are integers: the least and the greatest.
    pub fn range(&self) -> Option<(i64, i64)> {
        let int = |value: &Datum| match value {
            Datum::Int(int) => Some(*int),
            _ => None,
        };
        let ints: Option<Vec<i64>> = self.values.iter().map(int).collect();
        let ints = ints?;
        Some((*ints.iter().min()?, *ints.iter().max()?))
    }
}

/// Joins texts for a finding: "1, 2, 3 and 5 more".
pub fn listed(count: usize, texts: impl Iterator<Item = String>) -> String {
    let named: Vec<String> = texts.take(NAMED_MAX).collect();
    match count - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Returns "1 read" or "2 reads".
pub fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Returns the elements of a list; `None` for another value.
pub fn elements(value: Datum<'_>) -> Option<Vec<Datum<'_>>> {
    match value {
        Datum::Ints(ints) => Some(ints.iter().map(|&int| Datum::Int(int)).collect()),
        Datum::List(items) => Some(items.into_vec()),
        _ => None,
    }
}
