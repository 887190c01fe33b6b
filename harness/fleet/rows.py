"""Verdicts as rows: one for each run, checker and object."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from checkers.ladder import conclusion
from harness.core.verdict import Status, Verdict, worst
from harness.fleet.location import Location
from harness.store.conditions import Conditions, Servers

BATCH_ROWS: Final = 1_000
CONDITIONS: Final = Conditions.__struct_fields__
"""Columns that have the conditions of a run."""
RUN: Final = "run"
"""The "checker" of a row about a run that no checker could judge."""
NOTHING: Final = "no checker that was asked for judges what the run promised"
"""Reason of a run that only stats found VALID, or checkers that do not decide."""

SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("workload", pa.string()),
        pa.field("nemesis", pa.string()),
        pa.field("seed", pa.string()),
        pa.field("servers", pa.string()),
        pa.field("version", pa.string()),
        pa.field("settings", pa.string()),
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
        pa.field("modules", pa.string(), nullable=False),
    ]
)


_SUMMARIZED: Final = (
    *("run", "checker", "object", "status", "decides", "reason", "kind", "time_ns", "note"),
    *CONDITIONS,
)


class VerdictRow(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one checker on one object of one run."""

    run: str
    """Directory of the run, within the store."""
    workload: str | None = None
    nemesis: str | None = None
    seed: str | None = None
    servers: str | None = None
    """Its Conditions, as the two that follow; None for a run whose run.json cannot be read."""
    version: str | None = None
    settings: str | None = None
    checker: str = RUN
    object: int | None = None
    """The key; None for the whole run."""
    status: str = Status.UNKNOWN.value
    decides: bool = True
    """True if the verdict counts for the run, given the run's promise."""
    reason: str = ""
    kind: str | None = None
    """Kind of the anomaly."""
    witness: tuple[int, ...] = ()
    """Indices of ops."""
    time_ns: int | None = None
    """Time at which the anomaly was seen."""
    checked: int = 0
    """Number of calls, or of whatever the checker counts."""
    seconds: float = 0.0
    """Time that the checker took; for an object, its share by calls."""
    note: str = ""
    """Description of what was wrong with the files; "" if nothing was."""
    history: str = ""
    """Digest of what was judged."""
    judge: str = ""
    """Digest of the code that judged it."""
    modules: str = ""
    """Modules of the run's checkers and workload, whose code and imports the digest covers."""

    def with_verdict(self, verdict: Verdict, *, decides: bool, seconds: float) -> "VerdictRow":
        """Return this run's row for a verdict on the whole run."""
        first = verdict.anomalies[0] if verdict.anomalies else None
        return structs.replace(
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


_NAMES: Final = VerdictRow.__struct_fields__


def batch_of(rows: Sequence[VerdictRow]) -> pa.RecordBatch:
    """Return the rows as a batch of columns."""
    columns = {name: [getattr(row, name) for row in rows] for name in _NAMES}
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def write_rows(rows: Iterable[VerdictRow], file: Location) -> None:
    """Write rows to a file, which appears whole or not at all. Raises OSError."""
    left = iter(rows)
    with file.output() as stream, pq.ParquetWriter(stream, SCHEMA, compression="zstd") as out:
        while batch := list(islice(left, BATCH_ROWS)):
            out.write_batch(batch_of(batch))


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The verdict on one run, in short."""

    run: str
    status: Status
    reason: str
    """Checker and reason of the verdict that decided."""
    note: str
    kinds: tuple[str, ...]
    """Kinds of the run's anomalies."""
    first_ns: int | None
    """Time at which the first anomaly was seen."""
    conditions: Conditions | None = None
    """None if its run.json cannot be read."""
    judged: Mapping[str, Status] = field(default_factory=dict)
    """The worst status of each checker's objects."""


def summaries(table: pa.Table, runs: AbstractSet[str] | None = None) -> list[RunSummary]:
    """Return a summary of each of these runs (None: of all), by name. The worst deciding verdict
    decides."""
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in table.select(_SUMMARIZED).to_pylist():
        if runs is None or row["run"] in runs:
            by_run.setdefault(row["run"], []).append(row)
    return [_summary(run, rows) for run, rows in sorted(by_run.items())]


def known_conditions(
    servers: str | None, version: str | None, settings: str | None
) -> Conditions | None:
    """Return the conditions that the columns of a row have; None if they are unknown."""
    if servers is None or version is None or settings is None:
        return None
    return Conditions(Servers(servers), version, settings)


def _summary(run: str, rows: Sequence[Mapping[str, Any]]) -> RunSummary:
    deciding = [row for row in rows if row["decides"]]
    status = conclusion((row["checker"], Status(row["status"])) for row in deciding)
    why = next((row for row in deciding if row["status"] == status.value), None)
    where = "" if why is None or why["object"] is None else f" of key {why['object']}"
    broken = [row for row in deciding if row["kind"] is not None]
    by_checker: dict[str, list[Status]] = {}
    for row in rows:
        by_checker.setdefault(row["checker"], []).append(Status(row["status"]))
    return RunSummary(
        run,
        status,
        NOTHING if why is None else f"{why['checker']}{where}: {why['reason']}",
        next((row["note"] for row in rows if row["note"]), ""),
        tuple(sorted({row["kind"] for row in broken})),
        min((row["time_ns"] for row in broken if row["time_ns"] is not None), default=None),
        known_conditions(*(rows[0][name] for name in CONDITIONS)),
        {name: worst(statuses) for name, statuses in by_checker.items()},
    )
