"""history.parquet is the journal by columns, exactly."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_cases import JSON, OPS, shape

from harness.core.errors import HistoryError
from harness.core.history import History
from harness.core.op import NEMESIS, Kind, Op, Value
from harness.store.parquet import journal_digest_of, read_parquet, table_of, write_parquet

INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES = st.one_of(
    st.none(), INT64, st.lists(INT64).map(tuple), st.dictionaries(st.text(), JSON, max_size=3)
)


def test_the_columns_are_typed() -> None:
    assert [(f.name, str(f.type), f.nullable) for f in table_of(History(OPS)).schema] == [
        ("index", "int64", False),
        ("process", "int32", False),
        ("node", "dictionary<values=string, indices=int32, ordered=0>", True),
        ("kind", "dictionary<values=string, indices=int32, ordered=0>", False),
        ("f", "dictionary<values=string, indices=int32, ordered=0>", False),
        ("key", "int64", True),
        ("value", "int64", True),
        ("values", "list<item: int64>", True),
        ("detail", "string", True),
        ("time_ns", "int64", False),
        ("error", "string", True),
    ]


def test_a_row_is_an_op_and_each_kind_of_value_has_its_column() -> None:
    rows = table_of(History(OPS)).to_pylist()
    assert rows[5] == {
        "index": 5,
        "process": 1,
        "node": "ch2",
        "kind": "ok",
        "f": "read",
        "key": 1,
        "value": None,
        "values": [7, 3, 7],
        "detail": None,
        "time_ns": 12,
        "error": None,
    }
    assert (rows[0]["value"], rows[0]["values"], rows[0]["detail"]) == (7, None, None)
    assert rows[3]["process"] == -1, "the nemesis"
    assert rows[3]["detail"] == (
        '{"fault":1,"edge":"begin","text":"{ch1 | ch2 ch3}","links":["a","b"]}'
    )


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    write_parquet(History(OPS), path, journal_digest="d1")
    assert tuple(read_parquet(path)) == OPS
    assert journal_digest_of(path) == "d1"
    assert [file.name for file in tmp_path.iterdir()] == ["history.parquet"]


def history_with(values: Sequence[Value], error: str | None) -> History:
    ops = []
    for i, value in enumerate(values):
        for kind in (Kind.INVOKE, Kind.OK):
            ops.append(
                Op(
                    index=len(ops),
                    process=NEMESIS if i % 3 == 2 else i,
                    kind=kind,
                    f="observe",
                    time_ns=i,
                    value=value,
                    key=i if i % 2 else None,
                    error=error if kind is Kind.OK else None,
                )
            )
    return History(ops)


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=8), st.none() | st.text())
def test_any_history_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, values: list[Value], error: str | None
) -> None:
    path = tmp_path_factory.mktemp("round") / "history.parquet"
    history = history_with(values, error)
    write_parquet(history, path)
    back = read_parquet(path)
    assert tuple(back) == tuple(history)
    assert [shape(op.value) for op in back] == [shape(op.value) for op in history]


def test_an_empty_tuple_is_not_none_nor_is_an_empty_object() -> None:
    values = [op.value for op in history_with([(), None, {}], None)][::2]
    assert values == [(), None, {}]
    rows = table_of(history_with([(), None, {}], None)).to_pylist()[::2]
    assert [(row["values"], row["detail"]) for row in rows] == [
        ([], None),
        (None, None),
        (None, "{}"),
    ]


@pytest.mark.parametrize(
    ("value", "column"), [(2**63, "value"), (-(2**63) - 1, "value"), ((1, 2**64 - 1), "values")]
)
def test_a_number_beyond_int64_is_refused_by_name(value: Value, column: str) -> None:
    history = history_with([1, value], None)
    with pytest.raises(HistoryError) as caught:
        table_of(history)
    text = str(caught.value)
    assert text.startswith(f"op #2: {column} ")
    assert "numbers must be from -2**63 to 2**63 - 1" in text


def test_a_process_beyond_32_bits_is_refused_by_name() -> None:
    op = Op(index=0, process=2**31, kind=Kind.INVOKE, f="read", time_ns=0)
    with pytest.raises(HistoryError, match="op #0: process 2147483648 does not fit"):
        table_of(History([op]))


def test_the_file_is_compressed_with_zstd(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    write_parquet(History(OPS), path)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_another_layout_or_no_parquet_is_not_read(tmp_path: Path) -> None:
    other, text = tmp_path / "other.parquet", tmp_path / "text.parquet"
    pq.write_table(pa.table({"index": [1]}), other)
    text.write_text("no parquet")
    assert journal_digest_of(other) is None
    assert journal_digest_of(text) is None
    assert journal_digest_of(tmp_path / "missing") is None
    with pytest.raises(HistoryError, match="has no column detail error f key"):
        read_parquet(other)
    with pytest.raises(HistoryError, match="is not a readable Parquet file"):
        read_parquet(text)


def damaged(path: Path, name: str, column: pa.Array) -> None:
    """Write a history with another column of this name."""
    table = table_of(History(OPS))
    table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table, path)


def test_a_list_with_a_null_is_no_value(tmp_path: Path) -> None:
    lists = pa.array([[7, None]] + [None] * (len(OPS) - 1), pa.list_(pa.int64()))
    damaged(tmp_path / "history.parquet", "values", lists)
    with pytest.raises(HistoryError, match="a list with a null"):
        read_parquet(tmp_path / "history.parquet")


def test_a_text_that_is_not_utf_8_is_no_value(tmp_path: Path) -> None:
    texts = pa.array([b'{"a":"\xff"}'] + [None] * (len(OPS) - 1), pa.binary())
    damaged(tmp_path / "history.parquet", "detail", texts.view(pa.string()))
    with pytest.raises(HistoryError, match="UTF8"):
        read_parquet(tmp_path / "history.parquet")


def test_a_long_file_of_another_writer_is_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("harness.store.parquet.BATCH_ROWS", 2)
    table = table_of(History(OPS))
    pq.write_table(table, tmp_path / "h.parquet", use_compliant_nested_type=False)
    assert tuple(read_parquet(tmp_path / "h.parquet")) == OPS


def test_a_history_that_is_too_long_for_this_machine_says_so(tmp_path, monkeypatch) -> None:
    write_parquet(History(OPS), tmp_path / "history.parquet")
    monkeypatch.setattr("harness.store.parquet.COLUMNS_BYTES_MAX", 100)
    said = r"cannot be read: its columns take .* at most 100, half"
    with pytest.raises(HistoryError, match=said):
        read_parquet(tmp_path / "history.parquet")
