"""What SQL sees of a store: the views `runs`, `rows` and `ops`, and the queries that are shipped.

Which verdict on a run counts is decided by `Verdicts.judged()` alone: `runs` is its result, and
`rows` is joined with it. No query repeats that rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from harness.core.errors import UsageError
from harness.fleet.location import Location
from harness.fleet.rows import SCHEMA as ROWS_SCHEMA
from harness.fleet.verdicts import RUNS_SCHEMA, JudgedRun, Verdicts

_CELL: Final = "substring_index(substring_index({path}, '/', -3), '/', 1)"
_NAME: Final = "substring_index(substring_index({path}, '/', -2), '/', 1)"

PATH_COLUMNS: Final[Mapping[str, str]] = {
    "run": "substring_index(substring_index({path}, '/', -3), '/', 2)",
    "cell": _CELL,
    "workload": f"substring_index({_CELL}, '+', 1)",
    "nemesis": f"nullif(substr({_CELL}, instr({_CELL}, '+') + 1), {_CELL})",
    "seed": f"nullif(regexp_extract({_NAME}, '^[0-9]+T[0-9]+Z-([^.]+)', 1), '')",
    "date": f"cast(try_to_timestamp(regexp_extract({_NAME}, '^([0-9]+)T[0-9]+Z-', 1), 'yyyyMMdd') "
    "AS date)",
}
"""SQL of what a path …/CELL/RUN/FILE says of its run, by column.

Each is an expression of the path alone. Spark evaluates a condition on one once for each file and
opens only the files that it is true for; it does not do so if one column is derived from another.
"""
FILE_PATH: Final = (
    "if(contains(_metadata.file_path, '%'), "
    "url_decode(replace(_metadata.file_path, '+', '%2B')), _metadata.file_path)"
)
"""SQL of the path of the file that a row is from, which Spark has as a URI."""
RUN_PATH: Final = "concat('/', run, '/')"
"""SQL of a run's path, with an empty name of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTables:
    """The files of a store that its views show."""

    store: Location
    verdicts: Verdicts
    judged: Mapping[str, JudgedRun]
    """The runs with a verdict, and the verdict that counts."""
    histories: Sequence[Location]
    """The history.parquet of each run that has one."""
    history_schema: pa.Schema

    def require_verdicts(self) -> None:
        """Raise UsageError if no run has a verdict, which only `ops` does without."""
        if not self.judged:
            shown = self.store.shown
            raise UsageError(f"store {shown}: has no verdicts; run `harness check {shown}` first")

    def columns(self, view: str) -> list[str]:
        """Return the names of the columns of a view."""
        own = {"runs": RUNS_SCHEMA, "rows": ROWS_SCHEMA, "ops": self.history_schema}[view]
        more = ["cell", "date"] if view == "rows" else [*PATH_COLUMNS]
        return [*more, *(name for name in own.names if name not in more)]


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """The first rows of a result."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: int
    """Number of further rows."""


class ShippedQuery(NamedTuple):
    """A query that the command has by name."""

    title: str
    sql: str


_OF_SERVERS: Final = "servers IS DISTINCT FROM 'model'"
"""Condition of runs of servers, real or simulated: an exploration of a model is no run of them."""

QUERIES: Final[Mapping[str, ShippedQuery]] = {
    "cells": ShippedQuery(
        "Runs by cell",
        f"""\
SELECT servers,
       version,
       cell,
       settings,
       count(*) AS runs,
       count_if(status = 'VALID') AS valid,
       count_if(status = 'UNKNOWN') AS unknown,
       count_if(status = 'INVALID') AS invalid,
       round(count_if(status = 'INVALID') / nullif(count_if(status != 'UNKNOWN'), 0), 3) AS rate,
       round(median(first_ns) / 1e9, 3) AS first_s
FROM runs WHERE {_OF_SERVERS}
GROUP BY servers, version, cell, settings
ORDER BY servers, version, rate DESC, cell, settings""",
    ),
    "anomalies": ShippedQuery(
        "Anomalies by kind",
        f"""\
SELECT servers, version, kind,
       count(*) AS runs, count(DISTINCT cell) AS cells, min(run) AS first_run
FROM runs LATERAL VIEW explode(kinds) AS kind WHERE {_OF_SERVERS}
GROUP BY servers, version, kind ORDER BY servers, version, runs DESC, kind""",
    ),
    "checkers": ShippedQuery(
        "Checkers by time",
        """\
SELECT servers,
       checker,
       round(sum(seconds), 3) AS total_s,
       round(max(seconds), 3) AS longest_s,
       count(DISTINCT run) AS runs,
       count(object) AS objects,
       sum(checked) AS checked
FROM rows GROUP BY servers, checker ORDER BY servers, total_s DESC, checker""",
    ),
}
"""The ready-made summaries, in the order in which they are printed."""
