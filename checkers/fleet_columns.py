"""A history in Parquet, put before `pyporcupine` as Arrow columns: no Python object per op.

Says of every key exactly what `checkers.linearizable` says of it, which takes a History.
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

from checkers.key_sets import INSERT, READS
from checkers.linearizable import LEAST_S
from harness.core.clock import WallClock
from harness.core.errors import HistoryError
from harness.core.op import Kind
from harness.core.verdict import Status

COLUMNS: Final = ("index", "process", "kind", "f", "key", "value", "values", "time_ns")
"""What is read of a file; the rest is pruned."""
_OK: Final = Kind.OK.value
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls that constrain a set, in order of invocation, as pyporcupine takes them."""

    table: pa.Table
    """process, f, key, value, call, ret, output."""
    invoke: Numbers
    """The index of the op that began each."""
    end: Numbers
    """And of the op that ended it; -1: none did."""

    @property
    def reads(self) -> int:
        """How many are answered reads."""
        return int(pc.sum(pc.equal(self.table["f"], "read")).as_py() or 0)


@dataclass(frozen=True, slots=True)
class ObjectVerdict:
    """What is concluded of one key."""

    key: int | None
    status: Status
    reason: str
    kind: str | None
    """Of the anomaly: "cycle", "phantom", "duplicate"."""
    witness: tuple[int, ...]
    """Indices of ops, ascending; empty unless INVALID."""
    time_ns: int | None
    """When the anomaly was seen."""
    checked: int
    """Calls."""
    seconds: float
    """Its share, by calls, of the time that all keys took."""


KeyRange = tuple[int, int] | None
"""Ends included; None: calls without a key."""


def read_columns(file: pq.ParquetFile) -> pa.Table:
    """The columns of a file. Raises HistoryError, naming no file."""
    return _read(file, lambda: file.read(columns=list(COLUMNS), use_threads=False))


def read_keys(file: pq.ParquetFile, keys: KeyRange) -> pa.Table:
    """Likewise, of some keys only, a batch at a time; a row group without any is not read."""
    return _read(file, lambda: pa.concat_tables(_of_keys(file, keys)))


def _read(file: pq.ParquetFile, read: Callable[[], pa.Table]) -> pa.Table:
    missing = set(COLUMNS) - set(file.schema_arrow.names)
    if missing:
        raise HistoryError(f"has no column {' '.join(sorted(missing))}")
    try:
        return read()
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"is no Parquet file that can be read: {error}") from error


def _of_keys(file: pq.ParquetFile, keys: KeyRange) -> Iterator[pa.Table]:
    columns = list(COLUMNS)
    found = [(group, keys_in) for group, keys_in in enumerate(_keys_in(file)) if keys_in.some(keys)]
    if not found:
        yield file.schema_arrow.empty_table().select(columns)
    for group, keys_in in found:
        if keys_in.only(keys):
            # Twice as fast as batch by batch.
            yield file.read_row_group(group, columns=columns, use_threads=False)
            continue
        for batch in file.iter_batches(row_groups=[group], columns=columns):
            key = batch.column("key")
            if keys is None:
                within = pc.is_null(key)
            else:
                within = pc.and_(pc.greater_equal(key, keys[0]), pc.less_equal(key, keys[1]))
            yield pa.Table.from_batches([batch]).filter(within)


class _KeysIn(NamedTuple):
    """What a file says of the keys of a row group; None: nothing."""

    low: int | None
    high: int | None
    nulls: int | None

    def some(self, keys: KeyRange) -> bool:
        """Whether some row may be one of these."""
        if keys is None:
            return self.nulls != 0
        return (
            self.low is None or self.high is None or (self.low <= keys[1] and self.high >= keys[0])
        )

    def only(self, keys: KeyRange) -> bool:
        """Whether every row is surely one of these."""
        if keys is None or self.low is None or self.high is None:
            return False
        return self.nulls == 0 and keys[0] <= self.low and self.high <= keys[1]


def key_ranges(file: pq.ParquetFile) -> list[tuple[int | None, int | None]]:
    """The least and the greatest key of every row group; None where the file does not say."""
    return [(one.low, one.high) for one in _keys_in(file)]


def _keys_in(file: pq.ParquetFile) -> Iterator[_KeysIn]:
    """Of every row group."""
    leaf = _leaf(file, file.schema_arrow.names.index("key"))
    for group in range(file.metadata.num_row_groups):
        said = file.metadata.row_group(group).column(leaf).statistics
        known = said is not None and said.has_min_max
        counted = said is not None and said.has_null_count
        yield _KeysIn(
            said.min if known else None,
            said.max if known else None,
            said.null_count if counted else None,
        )


def _leaf(file: pq.ParquetFile, at: int) -> int:
    """The Parquet column of an Arrow field; every field but lists has one of its name."""
    name = file.schema_arrow.names[at]
    paths = [file.schema.column(i).path for i in range(len(file.schema))]
    return paths.index(name)


def calls_of(table: pa.Table) -> Calls:
    """Pairs every call with its end. Raises HistoryError, naming the op."""
    table = table.unify_dictionaries().combine_chunks()
    process = _ints(table, "process").astype(np.int64)
    client = np.flatnonzero(process >= 0)
    # Rows are in order of index, so a process's rows are call, end, call, end, and so on.
    rows = client[np.argsort(process[client], kind="stable")]
    invokes = _is(table, "kind", {"invoke"})[rows]
    same = np.zeros(len(rows), dtype=bool)
    same[1:] = process[rows[1:]] == process[rows[:-1]]
    index = _ints(table, "index")
    _refuse(index[rows], ~invokes & ~(same & np.roll(invokes, 1)), "ends what was never invoked")
    _refuse(index[rows], invokes & same & np.roll(invokes, 1), "invokes while a call is in flight")
    at = np.flatnonzero(invokes)
    ended = np.zeros(len(rows) + 1, dtype=bool)
    ended[: len(rows)] = ~invokes
    begin, end = rows[at], np.where(ended[at + 1], np.append(rows, -1)[at + 1], -1)
    order = np.argsort(begin)
    return _constraining(table, index, begin[order], end[order])


def _constraining(table: pa.Table, index: Numbers, begin: Numbers, end: Numbers) -> Calls:
    insert, read = _is(table, "f", {INSERT})[begin], _is(table, "f", READS)[begin]
    kind_ok, kind_fail = _is(table, "kind", {_OK}), _is(table, "kind", {Kind.FAIL.value})
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
    return Calls(pa.table(fields), index[begin], np.where(ok, index[end], -1))


def decided(
    calls: Calls,
    consistency: Literal["linearizable", "sequential"],
    *,
    time_s: float,
    memory_mb: float,
    threads: int = 1,
) -> list[ObjectVerdict]:
    """Every key, ascending. `time_s` and `memory_mb` are the budgets of all together; a key past
    them is UNKNOWN. Raises HistoryError for a history that breaks the rules."""
    clock = WallClock()
    results = _asked(calls.table, consistency, time_s, memory_mb, threads)
    found = {result.key: (result, calls) for result in results}
    if consistency == "linearizable":
        # Calls of one process that touch in one nanosecond: see Linearizable.
        part = _part(calls, _tied(calls))
        left_s = max(time_s - clock.now_ns() / 1e9, LEAST_S)
        for result in _asked(part.table, "sequential", left_s, memory_mb, threads):
            if found[result.key][0].status == "VALID":
                found[result.key] = (result, part)
    a_call_s = clock.now_ns() / 1e9 / max(1, len(calls.table))
    return [
        _object(result, of, a_call_s * result.operations)
        for _, (result, of) in sorted(found.items(), key=lambda one: _order(one[0]))
    ]


def _asked(
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


def _tied(calls: Calls) -> Flags:
    """The calls of keys of which a process called at the very time at which its last call on
    that key ended."""
    table = calls.table
    key, process = _ints(table, "key"), _ints(table, "process")
    call, ret = _ints(table, "call"), _ints(table, "ret")
    at = np.lexsort((np.arange(len(key)), process, key))
    before, after = at[:-1], at[1:]
    touch = (key[before] == key[after]) & (process[before] == process[after])
    touch &= (ret[before] == call[after]) & (calls.end[before] >= 0)
    return np.isin(key, key[after[touch]]) if touch.any() else np.zeros(len(key), dtype=bool)


def _part(calls: Calls, kept: Flags) -> Calls:
    if not kept.any():
        return Calls(calls.table.slice(0, 0), calls.invoke[:0], calls.end[:0])
    return Calls(calls.table.filter(pa.array(kept)), calls.invoke[kept], calls.end[kept])


def _object(result: pyporcupine.ObjectResult, calls: Calls, seconds: float) -> ObjectVerdict:
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


def _order(key: int | str | None) -> int:
    return -(1 << 63) if key is None else int(key)


def _ints(table: pa.Table, name: str) -> Numbers:
    """A column as numbers; nulls become the least one."""
    column = table[name]
    if column.null_count:
        column = pc.fill_null(column, -(1 << 63) if column.type == pa.int64() else -1)
    return np.asarray(column.to_numpy())


def _nulls(column: pa.Array | pa.ChunkedArray) -> Flags:
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False))


def _is(table: pa.Table, name: str, texts: set[str] | frozenset[str]) -> Flags:
    """Where a column of texts has one of these."""
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
