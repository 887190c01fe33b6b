"""A night's runs as a heat map: a cell for each workload and nemesis."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.core.verdict import Status
from harness.web.summary import OUTCOMES, Summary


@dataclass(frozen=True, slots=True)
class HeatMapCell:
    """The runs of one workload under one nemesis."""

    counts: Mapping[str, int]
    """Number of runs by outcome, without those that do not occur."""

    @property
    def total(self) -> int:
        """Return the number of runs."""
        return sum(self.counts.values())

    @property
    def worst(self) -> str:
        """Return the gravest outcome, which decides the colour."""
        return next(outcome for outcome in OUTCOMES if outcome in self.counts)

    @property
    def share(self) -> float:
        """Return the share of runs with the worst outcome, from 0 to 1: the depth of the colour. It
        is 0 if all are VALID, so that the eye goes to the others."""
        return 0.0 if self.worst == Status.VALID.value else self.counts[self.worst] / self.total


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Rows of workload, settings and version, columns of nemeses."""

    rows: tuple[tuple[str, str, str], ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str, str, str], HeatMapCell]
    """Cells by workload, settings, version and nemesis, without those that had no run."""


def heat_map_of(runs: Iterable[Summary]) -> HeatMap:
    """Return the heat map of the runs. A run's version is that of its servers, joined if they
    differ."""
    counts: dict[tuple[str, str, str, str], Counter[str]] = {}
    for run in runs:
        place = (run.workload, run.settings, run.version, run.nemesis)
        counts.setdefault(place, Counter())[run.outcome] += 1
    return HeatMap(
        rows=tuple(sorted({place[:3] for place in counts})),
        columns=tuple(sorted({place[3] for place in counts})),
        cells={
            place: HeatMapCell({s: count[s] for s in OUTCOMES if count[s]})
            for place, count in counts.items()
        },
    )
