"""pyporcupine on Arrow columns: the same verdicts as on lists of operations."""

from typing import Any

import pyarrow as pa
import pytest
from pyporcupine import HistoryError, check

REGISTER = {
    "process": [0, 0, 1, 1],
    "f": ["write", "write", "read", "cas"],
    "value": [1, 2, None, 3],
    "expected": [None, None, None, 1],
    "output": [None, None, 1, 1],
    "call": [0, 2, 4, 6],
    "ret": [1, 3, 5, None],
}
STALE = [0, 1, 2]


@pytest.mark.parametrize("process", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.int64()])
@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.utf8())]
)
@pytest.mark.parametrize("time", [pa.int64(), pa.int32(), pa.timestamp("ns"), pa.duration("us")])
def test_types(process: pa.DataType, text: pa.DataType, time: pa.DataType) -> None:
    table = pa.table(
        {
            "process": pa.array(REGISTER["process"], process),
            "f": pa.array(REGISTER["f"], text),
            "value": pa.array(REGISTER["value"], pa.int16()),
            "expected": pa.array(REGISTER["expected"], pa.int64()),
            "output": pa.array(REGISTER["output"], pa.int64()),
            "call": pa.array(REGISTER["call"], time),
            "ret": pa.array(REGISTER["ret"], time),
        }
    )
    (found,) = check(table, "cas-register").objects
    assert (found.status, found.witness) == ("INVALID", STALE)


@pytest.mark.parametrize("text", [pa.string(), pa.string_view(), pa.large_string()])
def test_texts_and_keys(text: pa.DataType) -> None:
    long = "a value that does not fit into a view"
    table = pa.table(
        {
            "process": [0, 1, 0, 1],
            "f": ["put", "get", "put", "get"],
            "key": pa.array(["a", "b", "b", "a"], text),
            "value": pa.array([long, None, "short", None], text),
            "output": pa.array([None, "", None, long + "!"], text),
            "call": [0, 0, 2, 4],
            "ret": [1, 1, 3, 5],
        }
    )
    found = check(table, "key-value").objects
    assert [(o.key, o.status, o.witness) for o in found] == [
        ("a", "INVALID", [3]),
        ("b", "VALID", []),
    ]


@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
@pytest.mark.parametrize("item", [pa.int64(), pa.int32()])
def test_lists(list_of: Any, item: pa.DataType) -> None:
    table = pa.table(
        {
            "process": [0, 0, 1, 2],
            "f": ["add", "add", "read", "read"],
            "value": pa.array([5, 6, None, None], pa.int64()),
            "output": pa.array([None, None, [6, 5], [6]], list_of(item)),
            "call": [0, 2, 4, 6],
            "ret": [1, 3, 5, 7],
        }
    )
    (found,) = check(table, "set").objects
    assert (found.status, found.witness) == ("INVALID", [0, 3])


def test_batches_and_slices() -> None:
    table = pa.table(REGISTER)
    rows = [table.slice(at, 1) for at in range(table.num_rows)]
    apart = pa.concat_tables([table.slice(3), *rows, table.slice(0, 0)]).slice(1)
    assert apart["f"].num_chunks > 1
    (found,) = check(apart, "cas-register").objects
    assert (found.status, found.witness) == ("INVALID", STALE)
    (found,) = check(table.slice(1, 2), "cas-register").objects
    assert (found.status, found.witness) == ("INVALID", [1])
    (batch,) = table.to_batches()
    assert check(batch, "cas-register").status == "INVALID"


def test_no_rows() -> None:
    table = pa.table(REGISTER)
    assert check(table.slice(0, 0), "cas-register").objects == []


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        ("process", None, 'there is no column "process" among '),
        ("process", [0, None, 1, 2], "row 1: process is null or too large, expected ints"),
        ("f", [1, 2, 3, 4], 'the column "f" does not hold text'),
        ("value", [0.5, 1.5, 2.5, 3.5], 'the column "value" holds floating point numbers'),
        ("ret", [1, 1, 5, None], "row 1: ret is 1, before its call at 2"),
        ("call", [0, 0, 4, 6], "row 1: call at 0 while row 0 of the same process 0 is in flight"),
        ("f", ["write", "swap", "read", "cas"], 'row 1: f is "swap", expected "read", "write"'),
        ("value", [1, None, None, 3], "row 1: value is None, expected the int, str or bool"),
    ],
)
def test_malformed_columns_are_refused(column: str, values: Any, text: str) -> None:
    columns: dict[str, Any] = dict(REGISTER)
    if values is None:
        del columns[column]
    else:
        columns[column] = values
    with pytest.raises(HistoryError, match=text):
        check(pa.table(columns), "cas-register")
