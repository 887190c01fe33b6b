//! Writes lines of `history.jsonl` as harness/store/journal.py does.

use std::io::Write;

pub use crate::digits::append as number;
pub use crate::kind::Kind;

#[derive(Clone, Copy)]
pub enum Process {
    Nemesis,
    Client(i64),
}

#[derive(Clone, Copy)]
pub enum Value<'a> {
    Null,
    Int(i64),
    Json(&'a [u8]),
}

/// The text of an error.
#[derive(Clone, Copy)]
pub enum Error<'a> {
    None,
    Text(&'a str),
    /// As JSON has it, with quotes.
    Json(&'a [u8]),
}

impl Value<'_> {
    pub fn of(number: Option<i64>) -> Value<'static> {
        number.map_or(Value::Null, Value::Int)
    }
}

/// A counter for the indices of operations.
pub struct Index {
    number: u64,
    /// The beginning of a line with this index.
    written: Vec<u8>,
}

impl Index {
    pub fn new(number: u64) -> Index {
        let written = format!("{{\"index\":{number}").into();
        Index { number, written }
    }

    /// Creates the position before this index, at which there is no operation.
    pub fn before(number: u64) -> Index {
        Index {
            number: number.wrapping_sub(1),
            written: b"{\"index\":".to_vec(),
        }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Makes this the index of a number, which mostly is the next one.
    pub fn set(&mut self, number: u64) {
        match number == self.number.wrapping_add(1) {
            true => self.advance(),
            false => *self = Index::new(number),
        }
    }

    /// Advances to the next index, which changes few digits.
    pub fn advance(&mut self) {
        for digit in self.written.iter_mut().rev() {
            match digit {
                b'0'..=b'8' => {
                    *digit += 1;
                    self.number += 1;
                    return;
                }
                b'9' => *digit = b'0',
                _ => break,
            }
        }
        *self = Index::new(self.number.wrapping_add(1));
    }
}

/// The part of a line from kind to time, by kind.
pub struct Called([Vec<u8>; 4]);

impl Called {
    pub fn new(f: &str) -> Called {
        Called(Kind::ALL.map(|kind| {
            let mut out = format!(",\"kind\":\"{}\",\"f\":", kind.name()).into();
            text(&mut out, f);
            out.extend(b",\"time_ns\":");
            out
        }))
    }
}

/// Returns the part of a line from the node, if there is one, to the error.
pub fn node(name: Option<&str>) -> Vec<u8> {
    let mut out = b",\"node\":".to_vec();
    match name {
        None => out.extend(b"null"),
        Some(name) => text(&mut out, name),
    }
    out.extend(b",\"error\":");
    out
}

/// An operation, with its parts already formatted as far as most lines share them.
pub struct Line<'a> {
    pub index: &'a Index,
    pub process: Process,
    pub kind: Kind,
    pub called: &'a Called,
    pub time_ns: i64,
    pub value: Value<'a>,
    pub key: Option<i64>,
    pub node: &'a [u8],
    pub error: Error<'a>,
}

/// Writes an operation with its newline.
#[inline(always)]
pub fn line(out: &mut Vec<u8>, op: &Line<'_>) {
    out.extend_from_slice(&op.index.written);
    out.extend_from_slice(b",\"process\":");
    match op.process {
        Process::Client(process) => number(out, process),
        Process::Nemesis => out.extend_from_slice(b"\"nemesis\""),
    }
    out.extend_from_slice(&op.called.0[op.kind as usize]);
    number(out, op.time_ns);
    out.extend_from_slice(b",\"value\":");
    match &op.value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Int(value) => number(out, *value),
        Value::Json(json) => out.extend_from_slice(json),
    }
    out.extend_from_slice(b",\"key\":");
    match op.key {
        None => out.extend_from_slice(b"null"),
        Some(key) => number(out, key),
    }
    out.extend_from_slice(op.node);
    match op.error {
        Error::None => out.extend_from_slice(b"null"),
        Error::Text(error) => text(out, error),
        Error::Json(json) => out.extend_from_slice(json),
    }
    out.extend_from_slice(b"}\n");
}

/// Writes numbers as a JSON list.
pub fn list(out: &mut Vec<u8>, numbers: impl Iterator<Item = i64>) {
    out.push(b'[');
    for (at, one) in numbers.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        number(out, one);
    }
    out.push(b']');
}

/// Writes a JSON string; escapes only what must be escaped.
pub fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

fn escaped(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    let text = text.as_bytes();
    // Examine every byte, because the processor can do that for many at a time.
    if text.iter().fold(true, |plain, byte| plain & is_plain(byte)) {
        return out.extend_from_slice(text);
    }
    for run in text.chunk_by(|one, other| is_plain(one) && is_plain(other)) {
        match run[0] {
            byte @ (b'"' | b'\\') => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x08 => out.extend(b"\\b"),
            0x0c => out.extend(b"\\f"),
            byte @ 0..0x20 => write!(out, "\\u{byte:04x}").expect("writing to a Vec cannot fail"),
            _ => out.extend_from_slice(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_one_line() {
        let (mut out, mut numbers) = (Vec::new(), Vec::new());
        list(&mut numbers, [0, -10, i64::MIN].into_iter());
        line(
            &mut out,
            &Line {
                index: &Index::new(12),
                process: Process::Client(3),
                kind: Kind::Info,
                called: &Called::new("read"),
                time_ns: i64::MAX,
                value: Value::Json(&numbers),
                key: None,
                node: &node(Some("ch1")),
                error: Error::Text("3 X: \"\n\u{1}\\é"),
            },
        );
        let expected = "{\"index\":12,\"process\":3,\"kind\":\"info\",\"f\":\"read\",\
            \"time_ns\":9223372036854775807,\"value\":[0,-10,-9223372036854775808],\"key\":null,\
            \"node\":\"ch1\",\"error\":\"3 X: \\\"\\n\\u0001\\\\é\"}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn an_index_advances_by_one() {
        let mut index = Index::new(7);
        for number in 7..1200 {
            assert_eq!(index.number(), number);
            let written = format!("{{\"index\":{number}");
            assert_eq!(index.written, written.as_bytes());
            index.advance();
        }
    }
}
