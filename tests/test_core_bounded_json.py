"""Damaged and hostile JSON: each text, and what is said of it."""

import json
import os
import time
from pathlib import Path

import pytest

from harness.core.bounded_json import MAX_DEPTH, MAX_DIGITS, OutOfBoundsError, load, loads
from harness.core.lines import all_decoded, decoded


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, -2.5e3, "[[[{", true, null]}',
        nested(MAX_DEPTH),
        f"[{','.join(['[]'] * 1_000)}]",
        f'[[[{{"a": [{",".join(["{}, [{}]"] * 1_000)}]}}]]]',
        f"[{','.join([nested(MAX_DEPTH - 1)] * 1_000)}]",
        f'["{"[" * 100_000}"]',
        '["' + r"\"[" * 10_000 + '"]',
        "9" * MAX_DIGITS,
        f'"{"9" * 5_000}"',
        r'"\ud83d\ude00"',
    ],
)
def test_what_is_within_the_bounds_is_read_as_json_is(text: str) -> None:
    assert loads(text) == loads(text.encode()) == json.loads(text)


TOO_DEEP = f"it is nested more than {MAX_DEPTH} deep"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (nested(MAX_DEPTH + 1), f"line 1 column 101: {TOO_DEEP}"),
        (nested(100_000), f"line 1 column 101: {TOO_DEEP}"),
        ("[" * 1_000_000, f"line 1 column 101: {TOO_DEEP}"),
        (f"[{'{},' * 1_000}{nested(MAX_DEPTH)}]", f"line 1 column 3101: {TOO_DEEP}"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, f"line 1 column 501: {TOO_DEEP}"),
        ('{"x": 1,\n "deep": ' + nested(200) + "}", f"line 2 column 109: {TOO_DEEP}"),
        ('["[[[["' + ', ["]]]]"' * 200, f"line 1 column 901: {TOO_DEEP}"),
        (
            '{"state": "finished",\n "seed": ' + "7" * 5_000 + "}",
            "line 2 column 10: a number has 5,000 digits, expected at most 4,300",
        ),
        (
            "[1, -" + "9" * 1_000_000 + "]",
            "line 1 column 6: a number has 1,000,000 digits, expected at most 4,300",
        ),
    ],
)
def test_what_is_beyond_the_bounds_is_refused_with_its_place(text: str, says: str) -> None:
    for form in (text, text.encode()):
        with pytest.raises(OutOfBoundsError) as caught:
            loads(form)
        assert str(caught.value) == says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"a": 1', "Expecting ',' delimiter: line 1 column 8 (char 7)"),
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"\x00\x00\x00", "Expecting value: line 1 column 1 (char 0)"),
        (b'"\x00"', "Invalid control character at: line 1 column 2 (char 1)"),
        (b'"\xff"', "'utf-8' codec can't decode byte 0xff in position 1: invalid start byte"),
        (rb'"\ud800"', "'utf-8' codec can't encode character '\\ud800' in position 1: "
         "surrogates not allowed"),
    ],
)  # fmt: skip
def test_what_is_no_json_is_a_value_error(text: bytes, says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is below
        loads(text)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    "text",
    [
        "[" * 8_000_000,
        '{"":' * 2_000_000,
        "9" * 8_000_000,
        '"' + r"\"" * 4_000_000,
        nested(100) + '"' * 4_000_001,
    ],
)
def test_eight_megabytes_of_harm_are_refused_in_linear_time(text: str) -> None:
    before = time.process_time()
    with pytest.raises(ValueError):  # noqa: PT011 - json's own text for some
        loads(text)
    assert time.process_time() - before < 5, "quadratic time would be hours"


def test_a_file_that_is_too_large_or_no_file_is_not_read(tmp_path: Path) -> None:
    file, fifo = tmp_path / "run.json", tmp_path / "fifo"
    file.write_text('{"state": "finished"}')
    os.mkfifo(fifo)
    assert load(file) == {"state": "finished"}
    with pytest.raises(OutOfBoundsError, match=r"^it has 21 bytes, expected at most 20$"):
        load(file, max_bytes=20)
    for other in (fifo, Path("/dev/zero")):
        with pytest.raises(ValueError, match=r"^it is not a regular file$"):
            load(other)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.json")


OP = '{"index":0,"process":0,"kind":"invoke","f":"read","time_ns":0,"value":%s,"key":null}'


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ('{"a":' + nested(100_000) + "}", f"column 174: {TOO_DEEP}"),
        ('{"a":' + nested(150) + "}", f"column 174: {TOO_DEEP}"),
        ('{"a":' + "7" * 5_000 + "}", "a number has 5,000 digits, expected at most 4,300"),
    ],
)
def test_a_line_of_a_history_has_the_same_bounds(value: str, says: str) -> None:
    line = (OP % value).encode()
    good = (OP % '{"a":[1,[2]]}').encode()
    assert all_decoded(good + b"\n" + good + b"\n") == (decoded(good), decoded(good))
    with pytest.raises(ValueError, match=says):
        decoded(line)
    with pytest.raises(ValueError, match=says):
        all_decoded(good + b"\n" + line + b"\n")
