//! Tests which lines are read, how, and which are refused.

use histories::history::{History, Refused};
use histories::lines::Value;
use histories::sessions::bounds;
use histories::sets::sets;
use histories::write::LineParts;

/// Ops as (process, kind, f, value), a nanosecond apart, on one key and node.
fn lines(ops: &[(&str, &str, &str, &str)]) -> String {
    let line = |(index, (process, kind, f, value)): (usize, &(&str, &str, &str, &str))| {
        format!(
            "{{\"index\":{index},\"process\":{process},\"kind\":\"{kind}\",\"f\":\"{f}\",\
             \"time_ns\":{index},\"value\":{value},\"key\":0,\"node\":\"ch1\",\"error\":null}}\n"
        )
    };
    ops.iter().enumerate().map(line).collect()
}

fn read(ops: &[(&str, &str, &str, &str)]) -> Result<History, Refused> {
    History::read(lines(ops).as_bytes())
}

#[test]
fn values_of_every_kind() {
    let history = read(&[
        ("0", "invoke", "insert", "-9223372036854775808"),
        ("1", "invoke", "read", "null"),
        ("1", "ok", "read", "[3,-1,9223372036854775807]"),
        ("\"nemesis\"", "invoke", "cut", "{\"a\":{\"}\":[\"\\\"\"]}}"),
        ("2", "invoke", "insert", "9223372036854775808"),
        ("3", "invoke", "read", "[]"),
        ("4", "invoke", "read", "[1,18446744073709551615]"),
    ]);
    let history = history.expect("these are ops");
    assert_eq!(history.value[0], Value::Int(i64::MIN));
    assert_eq!(history.value[1], Value::None);
    assert_eq!(history.ints(2), Some(&[3, -1, i64::MAX][..]));
    assert!(matches!(history.value[3], Value::Object(_)));
    assert!(matches!(history.value[4], Value::Big(_)));
    assert_eq!(history.ints(5), Some(&[][..]));
    assert!(matches!(history.value[6], Value::Big(_)));
    assert_eq!(history.pairs.len(), 5);
}

#[test]
fn an_array_that_begins_like_the_last_one() {
    let arrays = [
        "[]",
        "[1,2]",
        "[1,2]",
        "[1,23]",
        "[1,23,4,-5]",
        "[]",
        "[1]",
        "[1,18446744073709551615]",
        "[1,6]",
    ];
    let calls = arrays.map(|array| [("1", "invoke", "read", "null"), ("1", "ok", "read", array)]);
    let history = read(calls.as_flattened()).expect("these are ops");
    let said = |at: usize| history.ints(2 * at as u32 + 1);
    for (at, array) in arrays.iter().enumerate() {
        let numbers: Option<Vec<i64>> = serde_json::from_str(array).ok();
        assert_eq!(said(at), numbers.as_deref(), "{array}");
    }
    for odd in [
        "[1,2,]", "[1,2,x]", "[1,2", "[1,2[", "[,1]", "[1,2 ]", "[1,02]",
    ] {
        let calls = ["[1,2]", odd].map(|array| ("1", "invoke", "read", array));
        assert!(matches!(read(&calls), Err(Refused::Form(1))), "{odd}");
    }
}

#[test]
fn a_repeated_part_is_checked_to_its_end() {
    let text = lines(&[("1", "invoke", "read", "null"), ("1", "ok", "read", "[]")]).repeat(9);
    let mut index = -1;
    let count = |line: &str| {
        index += 1;
        let fields = line.split_once(",\"process\"").expect("a line").1;
        format!("{{\"index\":{index},\"process\"{fields}\n")
    };
    let text: String = text.lines().map(count).collect();
    let text = text.replace("\"time_ns\":1,", "\"time_ns\":0,");
    assert_eq!(History::read(text.as_bytes()).expect("ops").len(), 18);
    for (from, to) in [
        ("\"error\":null}", "\"error\":null},"),
        ("\"error\":null}", "\"error\":\"x\ty\"}"),
        ("\"ch1\"", "\"ch1"),
        ("\"time_ns\":0,", "\"time_ns\":00,"),
        ("\"kind\":\"ok\"", "\"kind\":\"okay\""),
    ] {
        let at = text.rfind(from).expect("every line has it");
        let odd = format!("{}{to}{}", &text[..at], &text[at + from.len()..]);
        let line = odd[..at].lines().count() - 1;
        let said = History::read(odd.as_bytes()).err();
        assert!(
            matches!(said, Some(Refused::Form(at)) if at == line),
            "{to}"
        );
    }
}

#[test]
fn a_process_has_one_call_in_flight() {
    let twice = [("0", "invoke", "read", "null"); 2];
    let said = read(&twice).err().map(|why| why.to_string());
    let expected = "op #1: process 0 invokes read while its op #0 is in flight";
    assert_eq!(said.as_deref(), Some(expected));
}

#[test]
fn a_process_must_read_again_what_it_read() {
    let history = read(&[
        ("0", "invoke", "insert", "7"),
        ("0", "ok", "insert", "7"),
        ("1", "invoke", "read", "null"),
        ("1", "ok", "read", "[7]"),
        ("1", "invoke", "read", "null"),
        ("1", "ok", "read", "[]"),
        ("0", "invoke", "read", "null"),
        ("0", "ok", "read", "[]"),
    ])
    .expect("these are ops");
    let sets = sets(&history).expect("values are numbers");
    let [monotonic, own, ..] = bounds(&history, &sets[0], 3);
    assert_eq!((monotonic.reads, monotonic.broken), (1, 1));
    assert_eq!(
        (
            monotonic.violations[0].read,
            monotonic.violations[0].missing
        ),
        (1, 0)
    );
    assert_eq!((own.reads, own.broken, own.violations[0].read), (1, 1, 2));
}

#[test]
fn the_lines_of_a_history_are_those_that_were_read() {
    let text = lines(&[
        ("0", "invoke", "insert", "-9223372036854775808"),
        ("1", "invoke", "read", "null"),
        ("1", "ok", "read", "[3,-1,9223372036854775807]"),
        (
            "\"nemesis\"",
            "invoke",
            "cut",
            "{\"a\":{\"}\":[\"\\\"é\\u0001\"]}}",
        ),
        ("2", "invoke", "insert", "9223372036854775808"),
        ("3", "invoke", "read", "[]"),
        ("4", "invoke", "read", "[1,18446744073709551615]"),
    ]);
    let text = text.replace("\"error\":null", "\"error\":\"3 X: \\\"\\n\\u0001\\\\é\"");
    let history = History::read(text.as_bytes()).expect("these are ops");
    let parts = LineParts::of(&history);
    let all = parts.lines(&history, 0..history.len());
    assert_eq!(std::str::from_utf8(&all), Ok(&*text));
    let some = parts.lines(&history, [6, 2].into_iter());
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(
        std::str::from_utf8(&some),
        Ok(&*format!("{}\n{}\n", rows[6], rows[2]))
    );
}
