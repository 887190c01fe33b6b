"""`history.parquet`: a history by columns, one row an op, in order. For Spark and for people.

Columns, all of them null where the op has None:

    index    int64            process  int32, the nemesis is -1     node   string, dictionary
    kind     string, dictionary                                      f      string, dictionary
    key      int64            value    int64: one number            values list<int64>: a tuple
    detail   string: a JSON object                                  time_ns int64   error string

At most one of value, values and detail is not null. The file's metadata says "harness.schema"
(this layout's number) and "harness.journal_bytes" (the length of the journal that it was made
from). Numbers are 64 bit and signed, as Spark's and Arrow's kernels want them: an op with a
number beyond that, such as a UInt64 above 2**63 - 1, is refused here and kept by the journal.
"""

import json
import os
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.errors import HistoryError
from harness.core.history import History
from harness.core.op import NEMESIS, Kind, Op

SCHEMA_VERSION: Final = 1
NEMESIS_PROCESS: Final = -1

_NAMES: Final = pa.dictionary(pa.int32(), pa.string())
_NUMBERS: Final = pa.list_(pa.int64())
_WORDS: Final = ["node", "kind", "f"]
"""Columns of few words. No other column says the same thing often."""
_STEPS: Final = dict.fromkeys(["index", "values.list.element", "time_ns"], "DELTA_BINARY_PACKED")
"""Columns of numbers that are near the ones before them: half the bytes, in half the time."""

_ENCODER: Final = msgspec.json.Encoder()

SCHEMA: Final = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("process", pa.int32(), nullable=False),
        pa.field("node", _NAMES),
        pa.field("kind", _NAMES, nullable=False),
        pa.field("f", _NAMES, nullable=False),
        pa.field("key", pa.int64()),
        pa.field("value", pa.int64()),
        pa.field("values", _NUMBERS),
        pa.field("detail", pa.string()),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("error", pa.string()),
    ]
)


def table_of(ops: Sequence[Op]) -> pa.Table:
    """The columns of a history. Raises HistoryError for a number that does not fit."""
    values = [op.value for op in ops]
    columns: dict[str, list[Any]] = {
        "index": [op.index for op in ops],
        "process": [NEMESIS_PROCESS if op.process == NEMESIS else op.process for op in ops],
        "node": [op.node for op in ops],
        "kind": [op.kind for op in ops],
        "f": [op.f for op in ops],
        "key": [op.key for op in ops],
        "value": [value if isinstance(value, int) else None for value in values],
        "values": [value if isinstance(value, tuple) else None for value in values],
        "detail": [
            None if value is None or isinstance(value, int | tuple) else _detail(value)
            for value in values
        ],
        "time_ns": [op.time_ns for op in ops],
        "error": [op.error for op in ops],
    }
    return pa.Table.from_arrays(
        [_array(name, columns[name], ops) for name in SCHEMA.names], schema=SCHEMA
    )


def _array(name: str, column: list[Any], ops: Sequence[Op]) -> pa.Array:
    kind = SCHEMA.field(name).type
    try:
        return _made(column, kind)
    except (OverflowError, TypeError, ValueError) as error:
        for op, entry in zip(ops, column, strict=True):
            try:
                _made([entry], kind)
            except (OverflowError, TypeError, ValueError):
                raise HistoryError(
                    f"op #{op.index}: {name} {entry!r} does not fit Parquet's {kind}; numbers "
                    "must be from -2**63 to 2**63 - 1 (process: 32 bit); the journal has the op "
                    "as it is"
                ) from error
        raise


def _made(column: list[Any], kind: pa.DataType) -> pa.Array:
    """Of buffers: `pa.array` loads pandas, which takes longer than most runs' last steps."""
    if kind == _NAMES:
        names = [name for name in dict.fromkeys(column) if name is not None]
        places = {name: place for place, name in enumerate(names)} | {None: None}
        indices = _made(list(map(places.__getitem__, column)), kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, _made(names, kind.value_type))
    if kind == pa.string():
        builder = pa.lib.StringBuilder()
        builder.append_values(column)
        return builder.finish()
    if kind == _NUMBERS:
        lists = [entry or () for entry in column]
        offsets = np.zeros(len(lists) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)), out=offsets[1:])
        numbers = pa.py_buffer(b"".join([array("q", entry) for entry in lists if entry]))
        inner = pa.Array.from_buffers(kind.value_type, offsets[-1], [None, numbers])
        buffers = [_there(column), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, len(column), buffers, children=[inner])
    there = None
    if None in column:
        there, column = _there(column), [entry or 0 for entry in column]
    entries = array("i" if kind == pa.int32() else "q", column)
    return pa.Array.from_buffers(kind, len(column), [there, pa.py_buffer(entries)])


def _there(column: list[Any]) -> pa.Buffer:
    """A bit for each entry that is not None."""
    given = bytes([entry is not None for entry in column])
    return pa.py_buffer(np.packbits(np.frombuffer(given, np.uint8), bitorder="little"))


def _detail(value: Mapping[str, Any]) -> str:
    text = _ENCODER.encode(dict(value))
    if b"null" in text:  # which it may have written for a number that is not finite
        return json.dumps(dict(value), separators=(",", ":"), ensure_ascii=False)
    return text.decode()


def write_parquet(history: Sequence[Op], path: Path, *, journal_bytes: int = 0) -> None:
    """Writes a history, in one piece: `path` is whole or as it was. Raises HistoryError."""
    metadata = {
        "harness.schema": str(SCHEMA_VERSION),
        "harness.journal_bytes": str(journal_bytes),
    }
    table = table_of(history).replace_schema_metadata(metadata)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with pa.OSFile(str(partial), "wb") as file:
            pq.write_table(
                table, file, compression="zstd", use_dictionary=_WORDS, column_encoding=_STEPS
            )
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def journal_bytes_of(path: Path) -> int | None:
    """How long the journal was that the file was made from; None: the file is missing, broken or
    of another layout."""
    if not path.exists():  # no error of Arrow's, which takes longer
        return None
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None
    if metadata.get(b"harness.schema") != str(SCHEMA_VERSION).encode():
        return None
    return int(metadata.get(b"harness.journal_bytes", b"0"))


def read_parquet(path: Path) -> History:
    """The history in a file, op for op as it was written. Raises HistoryError."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise HistoryError(f"{path}: is no Parquet file that can be read: {error}") from error
    missing = set(SCHEMA.names) - set(table.column_names)
    if missing:
        raise HistoryError(
            f"{path}: has no column {' '.join(sorted(missing))}; expected {' '.join(SCHEMA.names)}"
        )
    rows = zip(*(table.column(name).to_pylist() for name in SCHEMA.names), strict=True)
    kinds = {kind.value: kind for kind in Kind}
    return History(
        [
            Op(
                index=index,
                process=NEMESIS if process == NEMESIS_PROCESS else process,
                kind=kinds[kind],
                f=f,
                time_ns=time_ns,
                value=_value(value, values, detail),
                key=key,
                node=node,
                error=error,
            )
            for index, process, node, kind, f, key, value, values, detail, time_ns, error in rows
        ]
    )


def _value(
    value: int | None, values: list[int] | None, detail: str | None
) -> int | tuple[int, ...] | dict[str, Any] | None:
    if values is not None:
        return tuple(values)
    if detail is not None:
        parsed: dict[str, Any] = json.loads(detail)
        return parsed
    return value
