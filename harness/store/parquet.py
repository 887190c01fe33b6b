"""`history.parquet`: a history by columns, with one row per op, in order. Spark and users read it.

Columns, all of them null where the op has None:

    index    int64            process  int32, the nemesis is -1     node   string, dictionary
    kind     string, dictionary                                      f      string, dictionary
    key      int64            value    int64: one number            values list<int64>: a tuple
    detail   string: a JSON object                                  time_ns int64   error string

At most one of value, values and detail is not null. The file's metadata has "harness.schema"
(this layout's number) and "harness.journal_digest" (the digest of the journal that the file was
made from, empty if there was none). Every page has a checksum, which readers verify. Numbers are
64 bit and signed, as Spark's and Arrow's kernels want them: an op with a number beyond that, such
as a UInt64 above 2**63 - 1, is refused here and kept by the journal.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyporcupine import MEMORY_MB

from harness.core.errors import HistoryError
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.rows import Rows, refused
from harness.native.histories import ColumnsBuilder, FormError, OddValue
from harness.store.disk import why_unwritable

SCHEMA_VERSION: Final = 1
BATCH_ROWS: Final = 65_536
"""Number of rows that are read at a time."""
COLUMNS_BYTES_MAX: Final = int(2 * MEMORY_MB * 1e6)
"""Maximum size of a history in memory. The rest is for the checkers."""

_NAMES: Final = pa.dictionary(pa.int32(), pa.string())
_NUMBERS: Final = pa.list_(pa.int64())
_KINDS: Final = [kind.value for kind in Kind]
_WORDS: Final = ["node", "kind", "f"]
"""Columns with few distinct strings."""
_STEPS: Final = dict.fromkeys(["index", "values.list.element", "time_ns"], "DELTA_BINARY_PACKED")
"""Columns whose numbers are close to the previous ones; encoding them so saves a fifth of all
bytes."""

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


def table_of(history: History) -> pa.Table:
    """Return the columns of a history. Raises HistoryError for a number that does not fit."""
    try:
        buffers = history.columns.arrow()
    except OddValue as error:
        raise _unfit(history[error.args[0]]) from error
    count = len(history)
    words = {"kind": _KINDS, **dict(history.columns.words())}
    columns = [_index(count)]
    for field in list(SCHEMA)[1:]:
        there, offsets, data = map(pa.py_buffer, buffers[field.name])
        if field.type == _NAMES:
            codes = pa.Array.from_buffers(pa.int32(), count, [there, data])
            columns.append(pa.DictionaryArray.from_arrays(codes, _texts(words[field.name])))
        elif field.type == _NUMBERS:
            numbers = pa.Array.from_buffers(pa.int64(), len(data) // 8, [None, data])
            parts = [there, offsets]
            columns.append(pa.Array.from_buffers(_NUMBERS, count, parts, children=[numbers]))
        else:
            parts = [there, offsets, data] if len(offsets) else [there, data]
            columns.append(pa.Array.from_buffers(field.type, count, parts))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


# `pa.array` would load pandas, which takes longer than the last steps of most runs.


def _index(count: int) -> pa.Array:
    """Return the numbers from 0 to `count` as an array."""
    numbers = pa.py_buffer(np.arange(count, dtype=np.int64))
    return pa.Array.from_buffers(pa.int64(), count, [None, numbers])


def _texts(texts: list[str]) -> pa.Array:
    """Return texts as an array."""
    builder = pa.lib.StringBuilder()
    builder.append_values(texts)
    return builder.finish()


def _unfit(op: Op) -> HistoryError:
    """Return the error that says why an op has no row."""
    fields: list[tuple[str, object, str]] = [
        ("value", op.value if isinstance(op.value, int) else None, "int64"),
        ("values", op.value if isinstance(op.value, tuple) else None, "list of int64"),
        ("process", op.process, "int32"),
    ]
    if isinstance(op.process, int) and op.process >= 2**31:
        fields.reverse()
    column, found, kind = next(field for field in fields if field[1] is not None)
    return HistoryError(
        f"op #{op.index}: {column} {found!r} does not fit Parquet's {kind}; numbers must be from "
        "-2**63 to 2**63 - 1 (process: 32 bit); the journal has the op as it is"
    )


def write_parquet(history: History, path: Path, *, journal_digest: str = "") -> None:
    """Write a history atomically: `path` is complete or unchanged. Raises HistoryError."""
    metadata = {
        "harness.schema": str(SCHEMA_VERSION),
        "harness.journal_digest": journal_digest,
    }
    table = table_of(history).replace_schema_metadata(metadata)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with pa.OSFile(str(partial), "wb") as file:
            pq.write_table(
                table,
                file,
                compression="zstd",
                use_dictionary=_WORDS,
                column_encoding=_STEPS,
                write_statistics=["key"],  # of no other column does anybody ask
                write_page_checksum=True,
            )
        partial.replace(path)
    except OSError as error:
        why = why_unwritable(path, error)
        raise HistoryError(f"{path}: cannot be written: {why}") from error
    finally:
        with suppress(OSError):  # of a disk that is read-only
            partial.unlink(missing_ok=True)


def journal_digest_of(path: Path) -> str | None:
    """Return the digest of the journal that the file was made from; None if the file is missing,
    broken or of another layout. It is empty for a file that was not made from a journal, or by a
    version that did not record the digest."""
    if not path.is_file():  # Arrow's own error takes longer, and it waits for ever for a FIFO
        return None
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None
    if metadata.get(b"harness.schema") != str(SCHEMA_VERSION).encode():
        return None
    digest: bytes = metadata.get(b"harness.journal_digest", b"")
    return digest.decode(errors="replace")


def rows_of(path: Path) -> int:
    """Return the number of ops in a file, as its metadata has it. Raises OSError and
    `pyarrow.ArrowInvalid`, a ValueError."""
    rows: int = pq.read_metadata(path).num_rows
    return rows


def read_parquet(path: Path) -> History:
    """Return the history in a file, op for op as it was written. Raises HistoryError."""
    if path.exists() and not path.is_file():  # Arrow waits for ever for a FIFO
        raise HistoryError(f"{path}: cannot be read: it is not a regular file")
    try:
        # A short file takes longer with threads, and one on a disk if it is read ahead.
        file = pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False)
        missing = set(SCHEMA.names) - set(file.schema_arrow.names)
        if missing:
            raise HistoryError(
                f"has no column {' '.join(sorted(missing))}; expected {' '.join(SCHEMA.names)}"
            )
        is_long = file.metadata.num_rows > BATCH_ROWS
        batches = file.iter_batches(BATCH_ROWS, columns=SCHEMA.names, use_threads=is_long)
        return history_of_batches(batches, _sizes(file) if is_long else (), whole=True)
    except FormError as error:
        raise HistoryError(f"{path}: has a row that is not an op: {error!r}") from error
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{path}: is not a readable Parquet file: {error}") from error
    except ValueError as error:
        raise HistoryError(f"{path}: cannot be read: {error}") from error


def history_of_batches(
    batches: Iterable[pa.RecordBatch], sizes: Sequence[int] = (), *, whole: bool
) -> History:
    """Return the history in batches, which have the columns of `SCHEMA`. If it is not `whole`, the
    rows are some of a history's, and node, detail and error may be missing. `sizes` are those that
    `ColumnsBuilder` takes. Raises HistoryError, ValueError and `pyarrow.ArrowException`."""
    with refused():
        builder = ColumnsBuilder(*sizes, whole=whole)
        for batch in batches:
            check_columns_size(builder.append(batch.num_rows, *_parts(batch)))
        return History(Rows.of_columns(builder.finish()))


def _sizes(file: pq.ParquetFile) -> tuple[int, int, int]:
    """Return how many rows, numbers in lists and bytes of objects a file says to have."""
    # Writers name the column of a list's elements differently, after the list.
    names = [file.schema.column(at).path.partition(".")[0] for at in range(len(file.schema))]
    lists, objects = names.index("values"), names.index("detail")
    metadata = file.metadata
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    said = (
        metadata.num_rows,
        sum(group.column(lists).num_values for group in groups),
        sum(group.column(objects).total_uncompressed_size for group in groups),
    )
    # The allocator is not asked for what a damaged file says.
    most = [COLUMNS_BYTES_MAX // bytes_of_one for bytes_of_one in (80, 8, 1)]
    rows, numbers, raw = (max(0, min(pair)) for pair in zip(said, most, strict=True))
    return rows, numbers, raw


def check_columns_size(size: int) -> None:
    """Raise ValueError if the columns of a history take too many bytes for this machine."""
    if size > COLUMNS_BYTES_MAX:
        raise ValueError(
            f"its columns take {size:,} bytes, expected at most {COLUMNS_BYTES_MAX:,}, half of "
            "this machine's memory"
        )


def _parts(batch: pa.RecordBatch) -> tuple[dict[str, list[bytes]], dict[str, list[str]]]:
    """Return the buffers of each column, and the words of those that hold indices."""
    columns, words = {}, {}
    for field in SCHEMA:
        if field.name not in batch.schema.names:
            continue
        column = batch.column(field.name)
        if column.type != field.type:
            column = column.cast(field.type)
        column.validate(full=True)  # offsets, indices and UTF-8, which no reader checks
        is_list = field.type == _NUMBERS
        if is_list and column.values.null_count:
            raise ValueError("a value is a list with a null")
        if column.offset or (is_list and column.values.offset):  # a slice of a larger column
            column = column.take(_index(len(column)))
        if field.type == _NAMES:
            words[field.name] = column.dictionary.to_pylist()
            column = column.indices
        columns[field.name] = _buffers(column)
    return columns, words


def _buffers(column: pa.Array) -> list[bytes]:
    """Return validity, offsets and data of a column."""
    validity, *parts = (b"" if one is None else one.to_pybytes() for one in column.buffers())
    if column.type == _NUMBERS:
        parts = [parts[0], column.values.buffers()[1].to_pybytes() if len(column.values) else b""]
    return [validity, *([b""] if len(parts) == 1 else []), *parts]
