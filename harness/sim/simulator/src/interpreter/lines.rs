//! Lines of `history.jsonl`, as harness/run/journal.py writes them.

use std::io::Write;

use crate::block::Block;
pub use crate::digits::append as number;
use crate::interpreter::Kind;
use crate::table::parts;
use crate::world::Ns;

pub enum Value<'a> {
    Null,
    Int(i64),
    /// The numbers of the first column.
    Column(&'a Block),
}

impl Value<'_> {
    pub fn of(number: Option<i64>) -> Value<'static> {
        number.map_or(Value::Null, Value::Int)
    }
}

/// What an error is called, and what was said.
pub type Error<'a> = (&'a str, &'a str);

/// A client's op.
pub struct Line<'a> {
    pub index: u64,
    pub process: i64,
    pub kind: Kind,
    pub f: &'a str,
    pub time_ns: Ns,
    pub value: Value<'a>,
    pub key: Option<i64>,
    pub node: &'a str,
    pub error: Option<Error<'a>>,
}

/// Writes an op, newline included.
pub fn line(out: &mut Vec<u8>, op: &Line<'_>) {
    out.extend(b"{\"index\":");
    number(out, op.index as i64);
    out.extend(b",\"process\":");
    number(out, op.process);
    out.extend(b",\"kind\":\"");
    out.extend(op.kind.name().as_bytes());
    out.extend(b"\",\"f\":");
    text(out, op.f);
    out.extend(b",\"time_ns\":");
    number(out, op.time_ns);
    out.extend(b",\"value\":");
    match &op.value {
        Value::Null => out.extend(b"null"),
        Value::Int(value) => number(out, *value),
        Value::Column(block) => out.extend_from_slice(block.written(column)),
    }
    out.extend(b",\"key\":");
    match op.key {
        None => out.extend(b"null"),
        Some(key) => number(out, key),
    }
    out.extend(b",\"node\":");
    text(out, op.node);
    out.extend(b",\"error\":");
    match op.error {
        None => out.extend(b"null"),
        Some((name, said)) => {
            out.push(b'"');
            escaped(out, name);
            escaped(out, said);
            out.push(b'"');
        }
    }
    out.extend(b"}\n");
}

/// The numbers of the first column, as a JSON list.
fn column(block: &Block) -> Vec<u8> {
    let rows = block.rows();
    let mut out = Vec::with_capacity(2 + 5 * rows.len());
    out.push(b'[');
    for (at, row) in rows.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match row[0] {
            parts::Value::Int(value) => number(&mut out, value),
            parts::Value::Text(_) => panic!("a set holds numbers"),
        }
    }
    out.push(b']');
    out
}

/// A JSON string; only what must be escaped is.
pub fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

fn escaped(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    let text = text.as_bytes();
    if text.iter().all(is_plain) {
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
            byte @ 0..0x20 => write!(out, "\\u{byte:04x}").expect("a Vec takes all"),
            _ => out.extend_from_slice(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_is_a_line() {
        let mut out = Vec::new();
        let numbers = [0, -10, i64::MIN].map(|number| [parts::Value::Int(number)]);
        line(
            &mut out,
            &Line {
                index: 12,
                process: 3,
                kind: Kind::Info,
                f: "read",
                time_ns: i64::MAX,
                value: Value::Column(&numbers.into_iter().collect()),
                key: None,
                node: "ch1",
                error: Some(("3 \"X\":", "\n\u{1}\\é")),
            },
        );
        let expected = "{\"index\":12,\"process\":3,\"kind\":\"info\",\"f\":\"read\",\
            \"time_ns\":9223372036854775807,\"value\":[0,-10,-9223372036854775808],\"key\":null,\
            \"node\":\"ch1\",\"error\":\"3 \\\"X\\\":\\n\\u0001\\\\é\"}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
