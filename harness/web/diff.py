"""Two runs side by side: what was asked, what came of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.report.facts import Facts
from harness.report.settings import groups


@dataclass(frozen=True, slots=True)
class Line:
    """One thing of both."""

    part: str
    name: str
    left: str
    right: str

    @property
    def differs(self) -> bool:
        """They are not the same."""
        return self.left != self.right


def diff(left: Facts, right: Facts) -> tuple[Line, ...]:
    """Levels, settings, servers, verdicts, figures. What neither has is not there."""
    a, b = _told(left), _told(right)
    places = list(dict.fromkeys([*a, *b]))
    # Of each part all lines together, in the order in which parts first appear.
    parts = list(dict.fromkeys(part for part, _ in places))
    places.sort(key=lambda place: parts.index(place[0]))
    return tuple(Line(*place, a.get(place, "–"), b.get(place, "–")) for place in places)


def parts(lines: Iterable[Line]) -> Sequence[tuple[str, Sequence[Line]]]:
    """The lines part by part, in their own order."""
    return [(part, tuple(some)) for part, some in groupby(lines, key=lambda line: line.part)]


def _told(facts: Facts) -> dict[tuple[str, str], str]:
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
