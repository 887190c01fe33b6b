"""Files that are torn, damaged or made to do harm: what is said of each, and that no other file
loses its verdict."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyporcupine.importers import files as readers
from pyporcupine.importers.edn import read_edn
from pyporcupine.importers.edn_syntax import values_of
from pyporcupine.importers.formats import read_text as read

from harness.importers.files import check_files, exit_status, files
from harness.importers.judge import CheckParameters, FileVerdict

DEEP = "[" * 50_000 + "]" * 50_000
LONG = "7" * 5_000


def event(kind: str, f: str, value: str) -> str:
    return f"{{:process 0, :type :{kind}, :f :{f}, :value {value}}}"


def row(value: str) -> str:
    return f'{{"client":0,"f":"write","value":{value},"ok":true,"call":0,"return":1}}'


def judge_beside_a_good_one(tmp_path: Path, name: str, content: bytes) -> FileVerdict:
    """Return the verdict on a file; a good file beside it keeps its own verdict."""
    good, bad = tmp_path / "good.edn", tmp_path / name
    good.write_text(
        "\n".join([event("invoke", "write", "1"), event("ok", "write", "1"),
                   event("invoke", "read", "nil"), event("ok", "read", "1")])
    )  # fmt: skip
    bad.write_bytes(content)
    first, second = check_files(files([str(good), str(bad)], None), CheckParameters("register"))
    assert first.status == "VALID"
    assert exit_status([first, second]) == second.status.exit_status
    return second


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("deep.edn", event("invoke", "write", DEEP), "expected EDN (it is nested more than 100 "),
        ("deep.jsonl", row(DEEP), "within bounds (column 132: it is nested more than 100 deep)"),
        ("deep.log", f"jepsen.util - 0 :invoke :write {DEEP}", "EDN (it is nested more than 100 "),
        ("long.edn", event("invoke", "write", LONG), "EDN (a number has 5,000 digits, expected at"),
        ("long.jsonl", row(LONG), "(column 33: a number has 5,000 digits, expected at most 4,300)"),
        ("long.log", f"jepsen.util {LONG} :invoke :read nil", "expected the number of a client"),
        ("exponent.edn", event("invoke", "write", "1e999999999M"), "more than a floating-point "),
        ("exponent.jsonl", row("1e999999999"), "expected numbers of at most 64 bits"),
        ("client.edn", f"{{:process {2**64} :type :ok :f :read}}", "expected the number of a "),
        ("client.jsonl", row("1").replace(":0", f":{2**64}", 1), "client is 18446744073709551616,"),
        ("time.jsonl", row("1").replace('":1}', f'":{2**63 - 1}}}'), "return is 92233720368547758"),
        ("key.edn", event("invoke", "write", f"[{2**64} 1]"), "key is 18446744073709551616, expe"),
        ("f.jsonl", row("1").replace("write", "row 9999999"), 'f is "row 9999999", expected "read'),
        ("nul.edn", "\0\0\0", "the form is '\\x00\\x00\\x00', expected a map"),
        ("nul.jsonl", "\0\0\0", "the line is '\\x00\\x00\\x00', expected a JSON object"),
        ("surrogate.edn", event("invoke", "write", r'"\ud800"'), "has half of a pair of surroga"),
        ("surrogate.jsonl", row(r'"\ud800"'), "expected a JSON object ('utf-8' codec can't encode"),
        ("tag.edn", event("invoke", "write", "#a"), "('}' follows a # or tag, expected a value)"),
        ("closer.edn", event("invoke", "write", "(1]"), "EDN (']' is there, expected ')')"),
        ("map.edn", event("invoke", "write", "{:a 1 :b}"), "EDN (a map has 3 forms, expected keys"),
        ("twice.edn", "{:f :read, :f :write}", "EDN (a map has one key twice)"),
        ("number.edn", event("invoke", "write", "12x"), "EDN ('12x' is not a number)"),
        ("escape.edn", event("invoke", "write", r'"\q"'), "'\\\\q' is not an escape of a text"),
        ("type.edn", "{:process 0 :type [:ok] :f {:a 1}}", ":type is [':ok'], expected one of"),
        ("empty.edn", "", "the file is without an operation, expected Jepsen's history.edn"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_and_costs_no_other(
    tmp_path: Path, name: str, content: str, says: str
) -> None:
    bad = judge_beside_a_good_one(tmp_path, name, content.encode())
    assert (bad.status, bad.read) == ("UNKNOWN", False)
    assert says in bad.reading.malformed[0].text
    assert len(bad.reading.malformed[0].text) < 400
    assert len(bad.reading.malformed) == 1


@pytest.mark.parametrize(
    "content",
    [
        event("invoke", "write", "#a #b/c " * 10_000 + "1"),
        event("invoke", "write", "#_ #_ [2 3] 4 1"),
        event("invoke", "write", '1 :error {[1 {}] #{{:a 1} nil}, :via #object[a.B 0x1f "s"]}'),
        event("invoke", "write", '1 :ratio 2/3 :re #"x" :at #inst "2026-01-01" :c \\u0041 :n 7N'),
        ";" * 100_000 + "\n" + event("invoke", "write", "1"),
        event("invoke", "write", "1").replace(" ", "\r\n,"),
        "\ufeff" + event("invoke", "write", "1"),
    ],
)
def test_what_is_odd_and_good_is_read(tmp_path: Path, content: str) -> None:
    one = judge_beside_a_good_one(tmp_path, "odd.edn", content.encode())
    assert [bad.text for bad in one.reading.malformed] == []
    assert [(op.f, op.value) for op in one.reading.operations] == [("write", 1)]


def test_bytes_that_are_no_text_and_pipes_without_a_writer(tmp_path: Path) -> None:
    bad = judge_beside_a_good_one(tmp_path, "bytes.edn", b"\xff\xfe")
    assert "can't decode byte 0xff in position 0" in bad.reading.malformed[0].text
    pipe = tmp_path / "pipe.edn"
    os.mkfifo(pipe)
    (one,) = check_files(files([str(pipe)], None), CheckParameters("register"))
    assert one.reading.malformed[0].text.startswith("the file is without an operation")


def test_a_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "FILE_BYTES_MAX", 400)
    bad = judge_beside_a_good_one(tmp_path, "huge.jsonl", row("1").encode() * 10)
    assert bad.reading.malformed[0].text == (
        "the file is larger than 400 bytes, expected at most that: split it"
    )


def test_a_line_and_a_form_have_a_bound() -> None:
    (bad,) = read("1" * 17_000_000, "jsonl").malformed
    assert "it has 17,000,000 bytes, expected at most 16,777,216" in bad.text
    text = "\n".join(
        [event("invoke", "write", f'"{"x" * 17_000_000}" 1'), event("ok", "write", "1")]
    )
    events, malformed = read_edn(text)
    assert [(bad.line, bad.expected) for bad in malformed] == [
        (1, "EDN (it has more than 16,777,216 characters)")
    ]
    assert [event.line for event in events] == [2]


def test_a_line_separator_inside_a_text_ends_no_line() -> None:
    reading = read(row('"a\u2028b"'), "jsonl")
    assert reading.malformed == []
    assert reading.operations[0].value == "a\u2028b"


def seconds(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def test_a_torn_last_form_costs_no_more_than_a_whole_one() -> None:
    maps = [event(kind, "write", str(i)) for i in range(1_000) for kind in ("invoke", "ok")]
    whole = "[" + "\n ".join(maps) + "]"
    torn = whole[:-20]
    events, malformed = read_edn(torn)
    assert (len(events), [bad.line for bad in malformed]) == (1_999, [2_000])
    assert malformed[0].expected == "EDN ('}' is missing at the end)"
    assert seconds(lambda: read_edn(torn)) < 5 * seconds(lambda: read_edn(whole)) + 0.1


@pytest.mark.parametrize(
    "text",
    [
        '"' + r"\"" * 100_000,
        '"' + "\n" * 1_000_000,
        ("\n" + " " * 1_000) * 1_000,
        ";" * 1_000_000,
        "{" * 1_000_000,
        ("{:a\n" * 20_000),
        "#_ " * 100_000,
        "jepsen.util - 0 :invoke :write 1" + " " * 1_000_000 + "x",
    ],
)
def test_a_megabyte_of_harm_is_read_in_linear_time(text: str) -> None:
    for name in ("edn", "jsonl", "jepsen-log"):
        assert seconds(lambda name=name: read(text, name)) < 10, "quadratic time would be hours"  # type: ignore[misc]


NOTHING: list[tuple[str, str]] = [
    ('{"client":0,"f":"write","value":1,"ok":null,"call":0,"return":null}',
     "no operation that returned says what it found (1 operation, 1 never returned)"),
    (row("1"), "no operation that returned says what it found (1 operation, 0 never returned)"),
    (row("1") + '\n{"client":1,"f":"read","ok":null,"call":2,"return":null}',
     "no operation that returned says what it found (2 operations, 1 never returned)"),
    ('{"client":0,"f":"write","value":1,"ok":false,"call":0,"return":1}',
     "1 call, and none of them happened"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), NOTHING)
def test_valid_needs_something_checked(tmp_path: Path, text: str, says: str) -> None:
    one = judge_beside_a_good_one(tmp_path, "blind.jsonl", text.encode())
    assert (one.status, one.reason) == ("UNKNOWN", f"nothing was checked: {says}")


def test_values_of_edn() -> None:
    assert values_of(
        r'[nil true -3 +4N 1.5e1M "a\"\n\u00e9" \a \newline :k/w s #{2 1} {1 [2]}]'
    ) == [[None, True, -3, 4, 15.0, 'a"\né', "a", "\n", ":k/w", "s", [1, 2], {1: [2]}]]
