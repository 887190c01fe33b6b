"""`from_events` and `read`: events and files in, operations or an error for each bad event out."""

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyporcupine
import pytest
from pyporcupine import HistoryError, check, from_events, read

TUPLES: list[tuple[Any, ...]] = [
    ("alice", "invoke", "write", 1),
    (7, "invoke", "read"),
    (7, "ok", "read", 1),
    ("alice", "info", "write", 1),
    (7, "invoke", "cas", [1, 2]),
    (7, "fail", "cas", [1, 2]),
]


def fields(operations: list[pyporcupine.Operation]) -> list[tuple[Any, ...]]:
    return [(op.process, op.f, op.key, op.value, op.output, op.call, op.ret) for op in operations]


def test_tuples_and_dicts_become_operations() -> None:
    found = [("alice", "write", None, 1, None, 0, None), (7, "read", None, None, 1, 1, 2)]
    assert fields(from_events(TUPLES)) == found
    dicts = [
        {"process": row[0], "type": f":{row[1]}", "op": row[2], "value": (*row, None)[3], "time": 5}
        for row in TUPLES
    ]
    assert fields(from_events(dicts)) == found
    observed = from_events(TUPLES, failed_cas="observe")
    assert fields(observed)[2] == (7, "cas", None, [1, 2], False, 4, 5)


def test_keys_and_the_reads_of_a_model_of_ones_own() -> None:
    events = [(0, "invoke", "peek", None, "x"), (0, "ok", "peek", 5, "x")]
    assert fields(from_events(events, reads={"peek"})) == [(0, "peek", "x", None, 5, 0, 1)]
    assert fields(from_events(events)) == [(0, "peek", "x", 5, None, 0, 1)]


ROWS = [
    {"process": 0, "type": "invoke", "f": "write", "value": 1},
    {"process": 0, "type": "ok", "f": "write", "value": 1},
    {"process": 0, "type": "invoke", "f": "read", "value": None},
    {"process": 0, "type": "ok", "f": "read", "value": 1},
]


@pytest.mark.parametrize(
    "table", [pa.Table.from_pylist(ROWS), pl.DataFrame(ROWS), pd.DataFrame(ROWS).convert_dtypes()]
)
def test_tables_become_operations(table: Any) -> None:
    assert fields(from_events(table)) == [
        (0, "write", None, 1, None, 0, 1),
        (0, "read", None, None, 1, 2, 3),
    ]
    assert check(from_events(table), "register").status == "VALID"


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([(0, "began", "read")], "event 0: type is 'began', expected one of invoke, ok, fail, in"),
        ([(0.5, "invoke", "read")], "event 0: process is 0.5, expected the number or the name"),
        ([{"process": 0, "type": "ok"}], "event 0: f is not there, expected it in every event"),
        ([(0, "ok", "read")], "event 0: type is ok of process 0, expected a call of this process"),
        ([(0, "invoke", "read", 1, 2, 3)], "event 0: the event is .*, expected a dict, or a tuple"),
        ([(0, "invoke", "read", 1, [2])], r"event 0: key is \[2\], expected an int, a str or None"),
        ([TUPLES[0], TUPLES[0]], "event 1: type is invoke .*, expected the end of its call at eve"),
    ],
)
def test_a_bad_event_is_named(events: list[Any], says: str) -> None:
    with pytest.raises(HistoryError, match=says):
        from_events(events)


def test_what_is_no_source_of_events_is_refused() -> None:
    events: Any = 5
    with pytest.raises(TypeError, match="events is 5, expected an iterable of dicts or tuples"):
        from_events(events)


def test_files_are_read_with_the_arguments_of_their_format(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text('{"client":0,"f":"read","value":0,"ok":true,"call":0,"return":2}\n')
    found = read(file)
    assert fields(found.operations) == [(0, "read", None, None, 0, 0, 2)]
    assert found.lines == [(1, 1)]
    assert found.arguments("register") == {"model": "register", "initial": 0}
    assert found.arguments("counter")["initial"] is ...
    assert check(found.operations, **found.arguments("register")).status == "VALID"
    with pytest.raises(ValueError, match="a file of the format jsonl may be of any; name it"):
        found.arguments()
    kv = read(Path(__file__).parent / "importers/kv.txt")
    assert kv.arguments()["model"] == "key-value"


def test_a_file_that_cannot_be_read_names_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(
        '[]\n{"client":true,"f":"read","ok":null,"call":0,"return":null}\n' + "\n{" * 30
    )
    with pytest.raises(HistoryError) as error:
        read(file)
    lines = str(error.value).split("\n")
    assert lines[0].startswith(f"{file}:1: the line is '[]', expected an object: correct the line")
    assert lines[1].startswith(f"{file}:2: client is True, expected int: ")
    assert (len(lines), lines[-1]) == (21, "and 12 more malformed lines")
    (tmp_path / "empty").touch()
    with pytest.raises(HistoryError, match="the file is without an operation"):
        read(tmp_path / "empty", "edn")
    (tmp_path / "bytes.edn").write_bytes(b"\xff")
    with pytest.raises(HistoryError, match=r"bytes\.edn: .* expected a file of text in UTF-8"):
        read(tmp_path / "bytes.edn")
    with pytest.raises(ValueError, match=r"unknown suffix; expected a format of jepsen-log, edn"):
        read(tmp_path / "history.csv")
    with pytest.raises(ValueError, match="format is 'csv'; expected a format of"):
        read(file, "csv")
