"""Judges a history in Parquet as Arrow columns, which `pyporcupine` reads without a Python object
per op.

For every key the verdict is the same as that of `checkers.consistency.linearizable`, which takes a
History.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyporcupine

from checkers.consistency.linearizable import LEAST_S
from checkers.sets.key_sets import INSERT, READS
from harness.core.clock import WallClock
from harness.core.errors import HistoryError
from harness.core.op import Kind
from harness.core.verdict import Status

COLUMNS: Final = ("index", "process", "kind", "f", "key", "value", "values", "time_ns")
"""The columns that are read from a file; all others are skipped."""
_OK: Final = Kind.OK.value
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SetColumns:
    """The calls that constrain a set, in order of invocation, as pyporcupine takes them."""

    table: pa.Table
    """Columns process, f, key, value, call, ret, output."""
    invoke: Numbers
    """Index of the op that began each call."""
    end: Numbers
    """Index of the op that ended each call; -1 if none did."""

    @property
    def reads(self) -> int:
        """Return the number of answered reads."""
        return int(pc.sum(pc.equal(self.table["f"], "read")).as_py() or 0)


@dataclass(frozen=True, slots=True)
class ObjectVerdict:
    """The verdict on one key."""

    key: int | None
    status: Status
    reason: str
    kind: str | None
    """Kind of the anomaly: "cycle", "phantom", "duplicate"."""
    witness: tuple[int, ...]
    """Indices of ops, ascending; empty unless INVALID."""
    time_ns: int | None
    """Time at which the anomaly was seen."""
    checked: int
    """Number of calls."""
    seconds: float
    """The key's share, by calls, of the time that all keys took."""


KeyRange = tuple[int, int] | None
"""Range of keys, both ends included; None stands for the calls without a key."""


def read_columns(file: pq.ParquetFile) -> pa.Table:
    """Return the columns of a file. Raises HistoryError, which does not name the file."""
    return _read(file, lambda: file.read(columns=list(COLUMNS), use_threads=False))


def read_keys(file: pq.ParquetFile, keys: KeyRange) -> pa.Table:
    """Return the columns for some keys only. Reads one batch at a time, and skips row groups that
    have none of the keys. Raises HistoryError, which does not name the file."""
    return _read(file, lambda: pa.concat_tables(_of_keys(file, keys)))


def _read(file: pq.ParquetFile, read: Callable[[], pa.Table]) -> pa.Table:
    missing = set(COLUMNS) - set(file.schema_arrow.names)
    if missing:
        raise HistoryError(f"has no column {' '.join(sorted(missing))}")
    try:
        return read()
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"is not a readable Parquet file: {error}") from error


def _of_keys(file: pq.ParquetFile, keys: KeyRange) -> Iterator[pa.Table]:
    columns = list(COLUMNS)
    found = [
        (group, statistics)
        for group, statistics in enumerate(_key_statistics(file))
        if statistics.may_have(keys)
    ]
    if not found:
        yield file.schema_arrow.empty_table().select(columns)
    for group, statistics in found:
        if statistics.has_only(keys):
            # Reading the whole row group is twice as fast as batch by batch.
            yield file.read_row_group(group, columns=columns, use_threads=False)
            continue
        for batch in file.iter_batches(row_groups=[group], columns=columns):
            key = batch.column("key")
            if keys is None:
                within = pc.is_null(key)
            else:
                within = pc.and_(pc.greater_equal(key, keys[0]), pc.less_equal(key, keys[1]))
            yield pa.Table.from_batches([batch]).filter(within)


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


def calls_of(table: pa.Table) -> SetColumns:
    """Return every call with its end. Raises HistoryError, which names the op."""
    table = table.unify_dictionaries().combine_chunks()
    process = _ints(table, "process").astype(np.int64)
    client = np.flatnonzero(process >= 0)
    # Rows are in order of index, so a process's rows are call, end, call, end, and so on.
    rows = client[np.argsort(process[client], kind="stable")]
    invokes = _matches(table, "kind", {"invoke"})[rows]
    same = np.zeros(len(rows), dtype=bool)
    same[1:] = process[rows[1:]] == process[rows[:-1]]
    index = _ints(table, "index")
    _refuse(
        index[rows], ~invokes & ~(same & np.roll(invokes, 1)), "ends a call that was never invoked"
    )
    _refuse(index[rows], invokes & same & np.roll(invokes, 1), "invokes while a call is in flight")
    at = np.flatnonzero(invokes)
    ended = np.zeros(len(rows) + 1, dtype=bool)
    ended[: len(rows)] = ~invokes
    begin, end = rows[at], np.where(ended[at + 1], np.append(rows, -1)[at + 1], -1)
    order = np.argsort(begin)
    return _constraining_calls(table, index, begin[order], end[order])


def _constraining_calls(
    table: pa.Table, index: Numbers, begin: Numbers, end: Numbers
) -> SetColumns:
    insert, read = _matches(table, "f", {INSERT})[begin], _matches(table, "f", READS)[begin]
    kind_ok, kind_fail = _matches(table, "kind", {_OK}), _matches(table, "kind", {Kind.FAIL.value})
    ok, fail = (end >= 0) & kind_ok[end], (end >= 0) & kind_fail[end]
    kept = (insert & ~fail) | (read & ok)
    begin, end, ok, read = begin[kept], end[kept], ok[kept], read[kept]
    ended = np.where(ok, end, -1)
    f = pa.DictionaryArray.from_arrays(pa.array(read.astype(np.int8)), pa.array(["add", "read"]))
    values = table["values"].chunk(0) if len(table) else pa.array([], pa.list_(pa.int64()))
    output = values.take(pa.array(ended, mask=~read))
    value = table["value"].take(pa.array(begin, mask=read))
    _refuse(index[begin], read & _nulls(output), "an ok read without values")
    _refuse(index[begin], ~read & _nulls(value), "an insert without a number")
    time_ns = _ints(table, "time_ns")
    fields = {
        "process": table["process"].take(pa.array(begin)),
        "f": f,
        "key": table["key"].take(pa.array(begin)),
        "value": value,
        "call": pa.array(time_ns[begin]),
        "ret": pa.array(time_ns[ended], mask=~ok) if len(ended) else pa.array([], pa.int64()),
        "output": output,
    }
    return SetColumns(pa.table(fields), index[begin], np.where(ok, index[end], -1))


def decide_keys(
    calls: SetColumns,
    consistency: Literal["linearizable", "sequential"],
    *,
    time_s: float,
    memory_mb: float,
    threads: int = 1,
) -> list[ObjectVerdict]:
    """Return the verdicts on all keys, in ascending order. `time_s` and `memory_mb` are budgets for
    all keys together; a key beyond them is UNKNOWN. Raises HistoryError for a history that is not
    well formed."""
    clock = WallClock()
    results = _check(calls.table, consistency, time_s, memory_mb, threads)
    found = {result.key: (result, calls) for result in results}
    if consistency == "linearizable":
        # For calls of one process that touch in one nanosecond, see Linearizable.
        tied = _select(calls, _tied(calls))
        left_s = max(time_s - clock.now_ns() / 1e9, LEAST_S)
        for result in _check(tied.table, "sequential", left_s, memory_mb, threads):
            if found[result.key][0].status == "VALID":
                found[result.key] = (result, tied)
    a_call_s = clock.now_ns() / 1e9 / max(1, len(calls.table))
    return [
        _object_verdict(result, of, a_call_s * result.operations)
        for _, (result, of) in sorted(found.items(), key=lambda one: _sort_key(one[0]))
    ]


def _check(
    table: pa.Table, consistency: Any, time_s: float, memory_mb: float, threads: int
) -> list[pyporcupine.ObjectResult]:
    if not len(table):
        return []
    try:
        return pyporcupine.check(
            table,
            "set",
            consistency=consistency,
            time_s=time_s,
            memory_mb=memory_mb,
            threads=threads,
        ).objects
    except pyporcupine.HistoryError as error:
        raise HistoryError(str(error)) from error


def _tied(calls: SetColumns) -> Flags:
    """Return which calls are of a key on which some process called at the very time at which its
    last call on that key ended."""
    table = calls.table
    key, process = _ints(table, "key"), _ints(table, "process")
    call, ret = _ints(table, "call"), _ints(table, "ret")
    at = np.lexsort((np.arange(len(key)), process, key))
    before, after = at[:-1], at[1:]
    touch = (key[before] == key[after]) & (process[before] == process[after])
    touch &= (ret[before] == call[after]) & (calls.end[before] >= 0)
    return np.isin(key, key[after[touch]]) if touch.any() else np.zeros(len(key), dtype=bool)


def _select(calls: SetColumns, kept: Flags) -> SetColumns:
    if not kept.any():
        return SetColumns(calls.table.slice(0, 0), calls.invoke[:0], calls.end[:0])
    return SetColumns(calls.table.filter(pa.array(kept)), calls.invoke[kept], calls.end[kept])


def _object_verdict(
    result: pyporcupine.ObjectResult, calls: SetColumns, seconds: float
) -> ObjectVerdict:
    key = result.key
    assert key is None or isinstance(key, int), "a key is a number"
    at = np.array(result.witness, dtype=np.int64)
    ops = np.concatenate((calls.invoke[at], calls.end[at]))
    whys = {step.why for step in result.explanation}
    kind, time_ns = None, None
    if result.status == "INVALID":
        twice = "duplicate" if "duplicate in read" in whys else "cycle"
        kind = "phantom" if "read never-added value" in whys else twice
        picked = calls.table.take(pa.array(at))
        time_ns = max(pc.max(picked["call"]).as_py(), pc.max(picked["ret"]).as_py() or 0)
    return ObjectVerdict(
        key=key,
        status=Status(result.status),
        reason=result.reason,
        kind=kind,
        witness=tuple(sorted(ops[ops >= 0].tolist())),
        time_ns=time_ns,
        checked=result.operations,
        seconds=seconds,
    )


def _sort_key(key: int | str | None) -> int:
    return -(1 << 63) if key is None else int(key)


def _ints(table: pa.Table, name: str) -> Numbers:
    """Return a column of numbers, with the least number in the place of nulls."""
    column = table[name]
    if column.null_count:
        column = pc.fill_null(column, -(1 << 63) if column.type == pa.int64() else -1)
    return np.asarray(column.to_numpy())


def _nulls(column: pa.Array | pa.ChunkedArray) -> Flags:
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False))


def _matches(table: pa.Table, name: str, texts: set[str] | frozenset[str]) -> Flags:
    """Return where a column of texts has one of these texts."""
    if not len(table):
        return np.zeros(0, dtype=bool)
    column = table[name].combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    wanted = np.array([text in texts for text in column.dictionary.to_pylist()], dtype=bool)
    codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(wanted[codes] if len(wanted) else np.zeros(len(codes), dtype=bool))


def _refuse(index: Numbers, bad: Flags, what: str) -> None:
    if bad.any():
        raise HistoryError(f"op #{index[bad][0]}: {what}")
