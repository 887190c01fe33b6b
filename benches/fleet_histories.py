"""Stores of set histories, made from a seed, column by column: valid, or with one stale read."""

from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.core.engines import Engines
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.spec.run_spec import RunSpec
from harness.store.parquet import SCHEMA
from harness.store.store import RunDirectory

CALLS_A_KEY = 1_000
WORKERS = 6
TURN_NS = 2_000_000
"""Length of a turn, in which each worker makes one call and gets its end."""
PIECE_CALLS = 522_000
"""Calls of a piece of a long history, which is a row group; a multiple of keys and turns."""
METADATA = {"harness.schema": "1", "harness.journal_digest": ""}
VALUES_MAX = 100
"""Maximum number of values in one read: fresh keys replace used ones, as in real runs."""


def history(seed: Seed, ops: int, *, violated: bool = False) -> pa.Table:
    """Return rows of calls and ends. A worker makes one call after the other; each takes effect at
    a random time between call and end, and a read returns what had taken effect before it. One in
    ten calls inserts. `violated`: a read in the middle misses a value added before it began."""
    draw = np.random.default_rng(seed.value)
    calls = ops // 2
    worker = np.arange(calls) % WORKERS
    turn = np.arange(calls) // WORKERS
    call = turn * TURN_NS + draw.integers(1, 500_000, calls)
    end = call + draw.integers(1_000, 1_400_000, calls)
    effect = call + (draw.random(calls) * (end - call)).astype(np.int64)
    key = np.arange(calls) // CALLS_A_KEY
    insert = draw.random(calls) < VALUES_MAX / CALLS_A_KEY
    lists = [np.zeros(0, np.int64)] * calls
    for first in range(0, calls, CALLS_A_KEY):
        at = np.arange(first, min(first + CALLS_A_KEY, calls))
        adds = at[insert[at]]
        adds = adds[np.argsort(effect[adds])]
        seen = np.searchsorted(effect[adds], effect[at])
        for one, count in zip(at[~insert[at]], seen[~insert[at]], strict=True):
            lists[one] = adds[:count]
    if violated:
        _spoil(lists, insert, call, end, calls)
    return _rows(worker, call, end, key, insert, lists)


def _spoil(lists: list[Any], insert: Any, call: Any, end: Any, calls: int) -> None:
    for at in range(calls // 2, calls):
        known = lists[at]
        if not insert[at] and len(known) and end[known[0]] < call[at]:
            lists[at] = known[1:]
            return
    raise AssertionError("no read to spoil")


def _rows(worker: Any, call: Any, end: Any, key: Any, insert: Any, lists: list[Any]) -> pa.Table:
    calls = len(worker)
    time = np.concatenate((call, end))
    order = np.argsort(time, kind="stable")
    of, ended = order % calls, order >= calls
    adds = insert[of]
    returned = ended & ~adds
    lengths = np.where(returned, [len(lists[at]) for at in of], 0)
    flat = np.concatenate([np.zeros(0, np.int64), *(lists[at] for at in of[returned])])
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    values = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(flat, pa.int64()), mask=pa.array(~returned)
    )
    rows = 2 * calls
    names = pa.array([f"ch{n + 1}" for n in range(WORKERS)])
    columns = {
        "index": pa.array(np.arange(rows)),
        "process": pa.array(worker[of].astype(np.int32)),
        "node": pa.DictionaryArray.from_arrays(pa.array(worker[of].astype(np.int32)), names),
        "kind": pa.DictionaryArray.from_arrays(
            pa.array(ended.astype(np.int32)), pa.array(["invoke", "ok"])
        ),
        "f": pa.DictionaryArray.from_arrays(
            pa.array(adds.astype(np.int32)), pa.array(["read", "insert"])
        ),
        "key": pa.array(key[of]),
        "value": pa.array(of.astype(np.int64), mask=~adds),
        "values": values,
        "detail": pa.nulls(rows, pa.string()),
        "time_ns": pa.array(time[order]),
        "error": pa.nulls(rows, pa.string()),
    }
    return pa.Table.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


DISTINCT = 1_000
"""Number of different histories in a store; of more runs, each file is there several times."""


def store(root: Path, runs: int, ops: int, *, seed: int = 1, violated_in: int = 100) -> int:
    """Fill a store with unjudged runs, of which a fixed share is violated. Return the number of
    violated runs."""
    bad = 0
    for number in range(runs):
        violated = number % violated_in == violated_in - 1
        bad += violated
        path = root / "quorum-set+none" / f"{number:06}"
        if number < DISTINCT:
            put(path, history(Seed(seed).child(number), ops, violated=violated), number)
        else:
            path.mkdir(parents=True)
            like = path.with_name(f"{number % DISTINCT:06}") / "history.parquet"
            copyfile(like, path / like.name)
            _put_info(path, number)
    return bad


def put(path: Path, table: pa.Table, number: int) -> None:
    """Write the directory of a run with this history."""
    path.mkdir(parents=True)
    pq.write_table(
        table.replace_schema_metadata(METADATA), path / "history.parquet", compression="zstd"
    )
    _put_info(path, number)


def put_long(path: Path, seed: Seed, ops: int, number: int) -> None:
    """Write a run with a valid history of this many ops, piece by piece: all calls of a piece end
    before the next piece begins."""
    path.mkdir(parents=True)
    schema = SCHEMA.with_metadata(METADATA)
    with pq.ParquetWriter(path / "history.parquet", schema, compression="zstd") as writer:
        for first in range(0, ops // 2, PIECE_CALLS):
            calls = min(PIECE_CALLS, ops // 2 - first)
            piece = history(seed.child("piece", first), 2 * calls)
            steps = {
                "index": 2 * first,
                "key": first // CALLS_A_KEY,
                "value": first,
                "time_ns": first // WORKERS * TURN_NS,
            }
            for name, step in steps.items():
                at = piece.schema.get_field_index(name)
                piece = piece.set_column(at, SCHEMA.field(name), pc.add(piece[name], step))
            lists = piece["values"].combine_chunks()
            moved = pa.ListArray.from_arrays(
                lists.offsets, pc.add(lists.values, first), mask=pc.is_null(lists)
            )
            at = piece.schema.get_field_index("values")
            piece = piece.set_column(at, SCHEMA.field("values"), moved)
            writer.write_table(piece.cast(schema))
    _put_info(path, number)


def _put_info(path: Path, number: int) -> None:
    spec = RunSpec(seed=Seed(number), promise="linearizable", check_s=60.0, command="harness run")
    RunDirectory(path).begin(spec, Engines(), Topology(()), {})
