"""A night's runs as a heat map: a cell for each workload and nemesis."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.report.facts import CRASHED, RUNNING, UNREADABLE
from harness.web.runs import STATUSES, Summary


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one workload under one nemesis."""

    counts: Mapping[str, int]
    """By status, those that occur."""

    @property
    def total(self) -> int:
        """Runs."""
        return sum(self.counts.values())

    @property
    def worst(self) -> str:
        """The status that colours it, the gravest there is."""
        order = ("INVALID", CRASHED, UNREADABLE, "UNKNOWN", RUNNING, "VALID")
        return next(status for status in order if status in self.counts)

    @property
    def share(self) -> float:
        """Of the worst, from 0 to 1: how deep the colour is."""
        return self.counts[self.worst] / self.total


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of workload and version, columns of nemeses."""

    rows: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str, str], Cell]
    """By workload, version and nemesis; without those that had no run."""


def matrix_of(runs: Iterable[Summary]) -> Matrix:
    """Every run counts once; its version is that of its servers, joined when they differ."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for run in runs:
        place = (run.workload, run.version, run.nemesis)
        counts.setdefault(place, Counter())[run.status] += 1
    return Matrix(
        rows=tuple(sorted({place[:2] for place in counts})),
        columns=tuple(sorted({place[2] for place in counts})),
        cells={
            place: Cell({s: count[s] for s in STATUSES if count[s]})
            for place, count in counts.items()
        },
    )
