"""Comparison of two runs: settings and results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.report.facts import Facts
from harness.report.settings import groups


@dataclass(frozen=True, slots=True)
class DiffLine:
    """Line of a diff: one property of both runs."""

    part: str
    name: str
    left: str
    right: str

    @property
    def differs(self) -> bool:
        """Return whether the runs differ here."""
        return self.left != self.right


def diff(left: Facts, right: Facts) -> tuple[DiffLine, ...]:
    """Return the lines of levels, settings, servers, verdicts and figures that either run has."""
    a, b = _properties(left), _properties(right)
    places = list(dict.fromkeys([*a, *b]))
    # Lines are grouped by part, in the order in which parts first appear.
    parts = list(dict.fromkeys(part for part, _ in places))
    places.sort(key=lambda place: parts.index(place[0]))
    return tuple(DiffLine(*place, a.get(place, "–"), b.get(place, "–")) for place in places)


def parts(lines: Iterable[DiffLine]) -> Sequence[tuple[str, Sequence[DiffLine]]]:
    """Return the lines grouped by part."""
    return [(part, tuple(some)) for part, some in groupby(lines, key=lambda line: line.part)]


def _properties(facts: Facts) -> dict[tuple[str, str], str]:
    out: dict[tuple[str, str], str] = {("result", "status"): facts.status}
    judgement = facts.judgement
    if judgement is not None:
        for rung in judgement.ladder.rungs:
            out["result", rung.level.value] = rung.status.value
    for title, lines in groups(facts.info):
        for name, value in lines:
            out[title.lower(), name] = value
    for verdict in judgement.verdicts if judgement is not None else ():
        out["checkers", verdict.checker] = f"{verdict.status.value}: {verdict.summary}"
        for name, figure in verdict.figures.items():
            if isinstance(figure, int | float | str):
                out[f"figures of {verdict.checker}", name.replace("_", " ")] = _text(figure)
    return out


def _text(figure: float | str) -> str:
    if isinstance(figure, str | bool):
        return str(figure)
    return f"{figure:,.6g}" if isinstance(figure, float) else f"{figure:,}"
