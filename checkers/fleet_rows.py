"""The verdicts of many runs: one Parquet file, one row a run, checker and object."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.core.errors import HarnessError
from harness.core.verdict import Status, Verdict, worst

RUN: Final = "run"
"""The "checker" of a row about a run that no checker could be put to."""

SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("workload", pa.string()),
        pa.field("nemesis", pa.string()),
        pa.field("seed", pa.string()),
        pa.field("checker", pa.string(), nullable=False),
        pa.field("object", pa.int64()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("decides", pa.bool_(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("kind", pa.string()),
        pa.field("witness", pa.list_(pa.int64()), nullable=False),
        pa.field("time_ns", pa.int64()),
        pa.field("checked", pa.int64(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("note", pa.string(), nullable=False),
        pa.field("history", pa.string(), nullable=False),
        pa.field("judge", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one checker says of one object of one run."""

    run: str
    """Its directory, within the store."""
    workload: str | None = None
    nemesis: str | None = None
    seed: str | None = None
    checker: str = RUN
    object: int | None = None
    """The key; None: the whole run."""
    status: str = Status.UNKNOWN.value
    decides: bool = True
    """Whether it counts for the run, given what was promised."""
    reason: str = ""
    kind: str | None = None
    """Of the anomaly."""
    witness: tuple[int, ...] = ()
    """Indices of ops."""
    time_ns: int | None = None
    """When the anomaly was seen."""
    checked: int = 0
    """Calls, or whatever the checker counts."""
    seconds: float = 0.0
    """Of the checker; of an object, its share by calls."""
    note: str = ""
    """What was wrong with the files."""
    history: str = ""
    """A digest of what was judged."""
    judge: str = ""
    """A digest of what judged it."""

    def of(self, verdict: Verdict, *, decides: bool, seconds: float) -> "Row":
        """This run's row of a verdict on all of it."""
        first = verdict.anomalies[0] if verdict.anomalies else None
        return replace(
            self,
            checker=verdict.checker,
            status=verdict.status.value,
            decides=decides,
            reason=verdict.summary,
            kind=first.kind if first else None,
            witness=first.ops if first else (),
            time_ns=min((a.time_ns for a in verdict.anomalies), default=None),
            checked=verdict.checked,
            seconds=seconds,
        )


_NAMES: Final = tuple(one.name for one in fields(Row))


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """The rows by columns."""
    columns = {name: [getattr(row, name) for row in rows] for name in _NAMES}
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def merged(target: Path, fresh: Iterable[Path], replaced: AbstractSet[str]) -> None:
    """Puts fresh rows into a dataset, in the place of all rows of the replaced runs: the file is
    whole, or as it was. A batch at a time, so that memory does not grow with the dataset."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    gone = pa.array(sorted(replaced), pa.string())
    try:
        with pq.ParquetWriter(
            partial, SCHEMA, compression="zstd", write_page_checksum=True
        ) as writer:
            if target.exists():
                for batch in _batches(target):
                    kept = pc.invert(pc.is_in(batch.column("run"), value_set=gone))
                    writer.write_table(pa.Table.from_batches([batch]).filter(kept).cast(SCHEMA))
            for path in fresh:
                for batch in pq.ParquetFile(path).iter_batches():
                    writer.write_table(pa.Table.from_batches([batch]).cast(SCHEMA))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _batches(target: Path) -> Iterator[pa.RecordBatch]:
    try:
        yield from pq.ParquetFile(target, page_checksum_verification=True).iter_batches()
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(target, error) from error


def runs_in(files: Iterable[Path]) -> set[str]:
    """The runs of which files have rows."""
    columns = [pq.read_table(path, columns=["run"])["run"] for path in files]
    return {run for column in columns for run in column.unique().to_pylist()}


def judged(target: Path) -> dict[str, tuple[str, str]]:
    """By run: the digests of what was judged and of what judged it; nothing without a file.
    Raises HarnessError for a file that cannot be read."""
    if not target.exists():
        return {}
    columns = read_rows(target, ["run", "history", "judge"])
    table = columns.group_by(["run", "history", "judge"]).aggregate([])
    rows = zip(*(table[name].to_pylist() for name in ("run", "history", "judge")), strict=True)
    return {run: (history, judge) for run, history, judge in rows}


def read_rows(target: Path, columns: list[str] | None = None) -> pa.Table:
    """The dataset. Raises HarnessError."""
    try:
        return pq.read_table(target, columns=columns, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(target, error) from error


def _unreadable(target: Path, error: Exception) -> HarnessError:
    return HarnessError(
        f"{target}: is no dataset of verdicts that can be read: {error}; check with --force, "
        "which judges every run again and replaces it"
    )


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run, in short."""

    run: str
    status: Status
    reason: str
    """Of the verdict that decided, with its checker."""
    note: str
    kinds: tuple[str, ...]
    """Of its anomalies."""
    first_ns: int | None
    """When the first anomaly was seen."""
    judged: Mapping[str, Status] = field(default_factory=dict)
    """By checker, the worst of its objects."""


def summaries(table: pa.Table, runs: AbstractSet[str] | None = None) -> list[RunSummary]:
    """Of each run (of these), the worst of what decides, in order of name."""
    by_run: dict[str, list[dict[str, Any]]] = {}
    wanted = ["run", "checker", "object", "status", "decides", "reason", "kind", "time_ns", "note"]
    for row in table.select(wanted).to_pylist():
        if runs is None or row["run"] in runs:
            by_run.setdefault(row["run"], []).append(row)
    return [_summary(run, rows) for run, rows in sorted(by_run.items())]


def _summary(run: str, rows: Sequence[Mapping[str, Any]]) -> RunSummary:
    deciding = [row for row in rows if row["decides"]]
    status = worst(Status(row["status"]) for row in deciding)
    why = next((row for row in deciding if row["status"] == status.value), None)
    where = "" if why is None or why["object"] is None else f" of key {why['object']}"
    broken = [row for row in deciding if row["kind"] is not None]
    by_checker: dict[str, list[Status]] = {}
    for row in rows:
        by_checker.setdefault(row["checker"], []).append(Status(row["status"]))
    return RunSummary(
        run,
        status,
        "nothing decides" if why is None else f"{why['checker']}{where}: {why['reason']}",
        next((row["note"] for row in rows if row["note"]), ""),
        tuple(sorted({row["kind"] for row in broken})),
        min((row["time_ns"] for row in broken if row["time_ns"] is not None), default=None),
        {name: worst(statuses) for name, statuses in by_checker.items()},
    )
