//! Represents the values in rows, and keys that distinguish most of them.

use std::borrow::Cow;

/// Keys of 0, None and False.
pub const INT: u128 = 255 << 120;
pub const NULL: u128 = 254 << 120;
const BOOL: u128 = 253 << 120;

/// A value in a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Datum<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Text(&'a str),
    Ints(&'a [i64]),
    List(Box<[Datum<'a>]>),
}

impl Datum<'_> {
    /// Returns the elements of a list of integers; `None` for another value.
    pub fn ints(&self) -> Option<Cow<'_, [i64]>> {
        match self {
            Datum::Ints(ints) => Some(Cow::Borrowed(ints)),
            Datum::List(items) => {
                let int = |item: &Datum| match item {
                    Datum::Int(value) => Some(*value),
                    _ => None,
                };
                items
                    .iter()
                    .map(int)
                    .collect::<Option<Vec<i64>>>()
                    .map(Cow::Owned)
            }
            _ => None,
        }
    }

    /// Returns the value in Python's notation.
    pub fn text(&self) -> String {
        match self {
            Datum::Null => "None".to_owned(),
            Datum::Bool(true) => "True".to_owned(),
            Datum::Bool(false) => "False".to_owned(),
            Datum::Int(i) => i.to_string(),
            Datum::Text(text) => format!("{text:?}"),
            Datum::Ints(ints) => format!("{ints:?}"),
            Datum::List(items) => {
                let items: Vec<String> = items.iter().map(Datum::text).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }
}

/// Returns a key that differs for different values, if the value has one. The highest byte of the
/// key is the length of a text or one of the constants above.
#[inline]
pub fn key(value: &Datum) -> Option<u128> {
    match value {
        Datum::Int(value) => Some(u128::from(*value as u64) | INT),
        Datum::Null => Some(NULL),
        Datum::Bool(bool) => Some(u128::from(*bool) | BOOL),
        Datum::Text(text) if text.len() <= 15 => {
            Some(packed(text.as_bytes()) | (text.len() as u128) << 120)
        }
        _ => None,
    }
}

/// Returns up to 15 bytes as a number. The loads overlap, because a copy of unknown length would be
/// a function call.
#[inline]
fn packed(bytes: &[u8]) -> u128 {
    let n = bytes.len();
    let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
    match n {
        8.. => u128::from(eight(0)) | u128::from(eight(n - 8)) << (8 * (n - 8)),
        4.. => u128::from(four(0)) | u128::from(four(n - 4)) << (8 * (n - 4)),
        1.. => [0, n / 2, n - 1]
            .into_iter()
            .fold(0, |sum, i| sum | u128::from(bytes[i]) << (8 * i)),
        0 => 0,
    }
}
