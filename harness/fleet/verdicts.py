"""The verdicts of a store: a dataset that is only appended to, and compacted now and then.

    verdicts/rows/generation=00000007/fresh-3f2a….parquet    a row for each run, checker and object
    verdicts/runs/generation=00000007/fresh-3f2a….parquet    a row for each run, in short

Each check appends a generation. Of a run that several have, the last one counts. The file below
`runs` is written last, in one step, and names the part of the dataset that has the rows of a run.
So a reader sees a generation as a whole or not at all, and what is unchanged is known from `runs`
alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import structs

from harness.core.errors import HarnessError
from harness.core.verdict import Status
from harness.fleet.location import Location
from harness.fleet.rows import CONDITIONS, SCHEMA, RunSummary, known_conditions, summaries

COMPACT_AT: Final = 16
"""Number of generations at which they are merged into one."""
BATCH_ROWS: Final = 65_536

RUNS_SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("stamp", pa.string(), nullable=False),
        pa.field("history", pa.string(), nullable=False),
        pa.field("judge", pa.string(), nullable=False),
        pa.field("modules", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("note", pa.string(), nullable=False),
        pa.field("kinds", pa.list_(pa.string()), nullable=False),
        pa.field("first_ns", pa.int64()),
        *(pa.field(name, pa.string()) for name in CONDITIONS),
        pa.field("judged_in", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, order=True)
class _DatasetPart:
    """One append or one compaction. Of one generation, a compaction comes before an append that it
    did not see."""

    generation: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.generation}/{self.name}"


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """What is kept of a judged run."""

    summary: RunSummary
    stamp: str
    """Sizes and times of its files when it was judged; "" if they say nothing."""
    history: str
    judge: str
    modules: str
    judged_in: str
    """Part of the dataset that has its rows."""


@dataclass(slots=True)
class Verdicts:
    """The verdicts of a store, of one choice of checkers and promise."""

    place: Location
    bytes_read: int = 0
    """Bytes of the files that were read since the object was made."""

    def judged(self) -> dict[str, JudgedRun]:
        """Return every run that was judged. Raises HarnessError."""
        found: dict[str, JudgedRun] = {}
        for part, size in sorted(self._parts("runs").items()):
            table = self._read("runs", part)
            self.bytes_read += size
            if table.schema.names != RUNS_SCHEMA.names:
                continue  # of an earlier version: its runs are judged again
            for row in table.to_pylist():
                found[row["run"]] = _judged_run(row)
        return found

    def append(
        self,
        files: Sequence[Location],
        stamps: Mapping[str, str],
        split: AbstractSet[str] = frozenset(),
    ) -> dict[str, JudgedRun]:
        """Append the rows of these files, which have all rows of the runs in `stamps`, and return
        these runs. The rows of the runs in `split` may be in several files. Raises OSError, and
        HarnessError if a run has no rows."""
        part = _DatasetPart(self._next_generation(), f"fresh-{uuid4().hex[:12]}")
        judged: dict[str, JudgedRun] = {}
        apart: list[pa.Table] = []

        def tables() -> Iterator[pa.Table]:
            for file in files:
                table = _table(file).cast(SCHEMA)
                is_split = pc.is_in(table["run"], value_set=pa.array(sorted(split), pa.string()))
                apart.append(table.filter(is_split))
                judged.update(_judged(table.filter(pc.invert(is_split)), stamps, part))
                yield table

        self._write("rows", part, tables(), SCHEMA)
        if split:
            judged.update(_judged(pa.concat_tables(apart), stamps, part))
        lost = set(stamps) - set(judged)
        if lost:
            self._file("rows", part).delete()
            raise HarnessError(f"{len(lost)} runs were judged and have no verdict: {min(lost)}")
        self._write_runs(part, judged)
        if len(self._parts("runs")) >= COMPACT_AT:
            self.compact()
        return judged

    def restamp(self, runs: Mapping[str, JudgedRun]) -> None:
        """Append other stamps of runs whose files have the contents that were judged. Raises
        OSError."""
        self._write_runs(_DatasetPart(self._next_generation(), f"fresh-{uuid4().hex[:12]}"), runs)

    def row_files(self, judged: Mapping[str, JudgedRun]) -> list[Location]:
        """Return the files that have the rows of these runs. A file may also have rows of runs that
        were judged again later, which do not count."""
        parts = sorted(_by_part(judged, lambda _: True))
        return [self._file("rows", part) for part in parts]

    def rows(self, runs: AbstractSet[str] | None = None) -> pa.Table:
        """Return the rows that count, of these runs (None: of all). Raises HarnessError."""
        wanted = _by_part(self.judged(), lambda run: runs is None or run in runs)
        tables = [self._rows_of(part, names) for part, names in sorted(wanted.items())]
        return pa.concat_tables(tables) if tables else SCHEMA.empty_table()

    def compact(self, forgotten: AbstractSet[str] = frozenset()) -> None:
        """Merge all generations into one, without the runs that are forgotten. Raises HarnessError
        and OSError."""
        merged = sorted({*self._parts("rows"), *self._parts("runs")})
        judged = {run: one for run, one in self.judged().items() if run not in forgotten}
        wanted = _by_part(judged, lambda _: True)
        part = _DatasetPart(self._next_generation(), f"compacted-{uuid4().hex[:12]}")
        tables = (self._rows_of(old, runs) for old, runs in sorted(wanted.items()))
        self._write("rows", part, tables, SCHEMA)
        here = {run: replace(one, judged_in=part.path) for run, one in judged.items()}
        self._write_runs(part, here)
        for old in merged:
            self._file("runs", old).delete()
            self._file("rows", old).delete()

    def clear(self) -> None:
        """Delete the dataset."""
        self.place.delete_tree()

    def _write_runs(self, part: _DatasetPart, judged: Mapping[str, JudgedRun]) -> None:
        self._write("runs", part, [runs_table(judged)], RUNS_SCHEMA)

    def _write(
        self, kind: str, part: _DatasetPart, tables: Iterable[pa.Table], schema: pa.Schema
    ) -> None:
        with (
            self._file(kind, part).output() as stream,
            pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True) as out,
        ):
            for table in tables:
                out.write_table(table.cast(schema), row_group_size=BATCH_ROWS)

    def _rows_of(self, part: _DatasetPart, runs: Sequence[str]) -> pa.Table:
        table = self._read("rows", part)
        return table.filter(pc.is_in(table["run"], value_set=pa.array(runs, pa.string())))

    def _read(self, kind: str, part: _DatasetPart) -> pa.Table:
        file = self._file(kind, part)
        try:
            return _table(file)
        except (OSError, pa.ArrowException) as error:
            raise HarnessError(
                f"{file.shown}: is not a readable file of verdicts: {error}; check with --force, "
                "which judges every run again and replaces them"
            ) from error

    def _parts(self, kind: str) -> dict[_DatasetPart, int]:
        """Return the size of every part."""
        found: dict[_DatasetPart, int] = {}
        for file in self.place.below(kind).files():
            generation, _, name = file.name.partition("/")
            if name.endswith(".parquet") and not name.startswith("."):
                found[_DatasetPart(generation, name.removesuffix(".parquet"))] = file.bytes
        return found

    def _next_generation(self) -> str:
        parts = {*self._parts("rows"), *self._parts("runs")}
        last = max((int(part.generation.partition("=")[2]) for part in parts), default=0)
        return f"generation={last + 1:08}"

    def _file(self, kind: str, part: _DatasetPart) -> Location:
        return self.place.below(kind, part.generation, f"{part.name}.parquet")


def _table(file: Location) -> pa.Table:
    """Return the rows of a file. `pq.read_table` would make a dataset of it, which takes longer."""
    return pq.ParquetFile(file.input(), page_checksum_verification=True).read(use_threads=False)


def judged_in(files: Iterable[Location]) -> dict[str, JudgedRun]:
    """Return the runs whose rows are in these files, which are not part of a dataset. Raises
    OSError."""
    tables = [_table(file).cast(SCHEMA) for file in files]
    return _judged(pa.concat_tables(tables), {}, _DatasetPart("", ""))


def runs_table(judged: Mapping[str, JudgedRun]) -> pa.Table:
    """Return judged runs as a table, in order of their names."""
    rows = [_row(run, one) for run, one in sorted(judged.items())]
    return pa.Table.from_pylist(rows, RUNS_SCHEMA)


def _by_part(
    judged: Mapping[str, JudgedRun], wanted: Callable[[str], bool]
) -> dict[_DatasetPart, list[str]]:
    found: dict[_DatasetPart, list[str]] = {}
    for run, one in judged.items():
        if wanted(run):
            found.setdefault(_DatasetPart(*one.judged_in.split("/")), []).append(run)
    return found


def _judged(table: pa.Table, stamps: Mapping[str, str], part: _DatasetPart) -> dict[str, JudgedRun]:
    """Return the runs of rows, in short."""
    names = ("run", "history", "judge", "modules")
    columns = [table[name].to_pylist() for name in names]
    of = {run: (history, judge, words) for run, history, judge, words in zip(*columns, strict=True)}
    found: dict[str, JudgedRun] = {}
    for one in summaries(table):
        history, judge, words = of[one.run]
        stamp = stamps.get(one.run, "")
        found[one.run] = JudgedRun(one, stamp, history, judge, words, part.path)
    return found


def _judged_run(row: Mapping[str, Any]) -> JudgedRun:
    """Return the run of a row of `runs`."""
    summary = RunSummary(
        row["run"],
        Status(row["status"]),
        row["reason"],
        row["note"],
        tuple(row["kinds"]),
        row["first_ns"],
        known_conditions(*(row[name] for name in CONDITIONS)),
    )
    kept = (row[name] for name in ("stamp", "history", "judge", "modules", "judged_in"))
    return JudgedRun(summary, *kept)


def _row(run: str, one: JudgedRun) -> dict[str, Any]:
    return {
        "run": run,
        "stamp": one.stamp,
        "history": one.history,
        "judge": one.judge,
        "modules": one.modules,
        "status": one.summary.status.value,
        "reason": one.summary.reason,
        "note": one.summary.note,
        "kinds": list(one.summary.kinds),
        "first_ns": one.summary.first_ns,
        **dict.fromkeys(CONDITIONS),
        **(structs.asdict(one.summary.conditions) if one.summary.conditions else {}),
        "judged_in": one.judged_in,
    }
