"""Ranges of keys, by which a long history is split along the row groups of its file."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.core.errors import HistoryError

COLUMNS: Final = ("index", "process", "kind", "f", "key", "value", "values", "time_ns")
"""The columns that are read of a range of keys; all others are skipped."""
KeyRange = tuple[int, int] | None
"""Range of keys, both ends included; None stands for the calls without a key."""


def batches_of_keys(file: pq.ParquetFile, keys: KeyRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these keys, in order. Skips the row groups whose statistics say that they
    have none of the keys. Raises HistoryError and `pyarrow.ArrowException`."""
    missing = set(COLUMNS) - set(file.schema_arrow.names)
    if missing:
        raise HistoryError(f"has no column {' '.join(sorted(missing))}")
    for group, statistics in enumerate(_key_statistics(file)):
        if not statistics.may_have(keys):
            continue
        for batch in file.iter_batches(row_groups=[group], columns=list(COLUMNS)):
            if statistics.has_only(keys):
                yield batch
                continue
            key = batch.column("key")
            if keys is None:
                within = pc.is_null(key)
            else:
                within = pc.and_(pc.greater_equal(key, keys[0]), pc.less_equal(key, keys[1]))
            yield batch.filter(within)


class _KeyStatistics(NamedTuple):
    """Statistics of the keys of a row group; None where the file has none."""

    low: int | None
    high: int | None
    nulls: int | None

    def may_have(self, keys: KeyRange) -> bool:
        """Return whether some row may have one of these keys."""
        if keys is None:
            return self.nulls != 0
        return (
            self.low is None or self.high is None or (self.low <= keys[1] and self.high >= keys[0])
        )

    def has_only(self, keys: KeyRange) -> bool:
        """Return whether every row certainly has one of these keys."""
        if keys is None or self.low is None or self.high is None:
            return False
        return self.nulls == 0 and keys[0] <= self.low and self.high <= keys[1]


def key_ranges(file: pq.ParquetFile) -> list[tuple[int | None, int | None]]:
    """Return the least and the greatest key of every row group; None where the file has no
    statistics."""
    return [(one.low, one.high) for one in _key_statistics(file)]


def _key_statistics(file: pq.ParquetFile) -> Iterator[_KeyStatistics]:
    """Yield the statistics of every row group."""
    leaf = _leaf_column(file, file.schema_arrow.names.index("key"))
    for group in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(group).column(leaf).statistics
        known = statistics is not None and statistics.has_min_max
        counted = statistics is not None and statistics.has_null_count
        yield _KeyStatistics(
            statistics.min if known else None,
            statistics.max if known else None,
            statistics.null_count if counted else None,
        )


def _leaf_column(file: pq.ParquetFile, at: int) -> int:
    """Return the index of the Parquet column of an Arrow field. Every field except lists has one
    column of the same name."""
    name = file.schema_arrow.names[at]
    paths = [file.schema.column(i).path for i in range(len(file.schema))]
    return paths.index(name)
