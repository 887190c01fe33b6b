"""Comparison of two runs: what caused a difference first, then settings, results and counters."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Final

from checkers.phrasing import number, on_key, seconds, where
from harness.core.history import Pair
from harness.report.facts import Facts
from harness.report.fault_table import FaultRow, rows
from harness.report.settings import groups

TEXT_MAX: Final = 80
"""Maximum length of a value or an error in a text."""


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


@dataclass(frozen=True, slots=True)
class FaultPair:
    """The n-th fault of both runs, as "2.085 s partition-one {ch1 | ch2 ch3}"; "–" for none."""

    left: str
    right: str
    differs: bool
    """Whether they differ in what was done; times differ on real servers."""


@dataclass(frozen=True, slots=True)
class Causes:
    """What may have caused a difference between two runs, in the order in which it would."""

    settings: tuple[DiffLine, ...]
    """Lines of the plan that differ, without the seed."""
    faults: tuple[FaultPair, ...]
    first_fault: int | None
    """Number, from 1, of the first fault that differs."""
    first_call: tuple[int, str, str] | None
    """Number, from 1, and text in both runs of the first call that differs, on the same plan."""
    first_end: tuple[int, str, str] | None
    """The same of the first call that ended differently."""


_PLAN: Final = ("run", "options", "workload", "servers")
_EPHEMERAL: Final = frozenset({"began", "ended", "seed"})


def causes_of(left: Facts, right: Facts) -> Causes:
    """Return what may have caused a difference."""
    lines = [line for line in diff(left, right) if line.differs and line.part in _PLAN]
    faults = _fault_pairs(left, right)
    different = (n for n, pair in enumerate(faults, 1) if pair.differs)
    calls = list(zip(_pairs(left), _pairs(right), strict=False))
    return Causes(
        settings=tuple(line for line in lines if line.name not in _EPHEMERAL),
        faults=faults,
        first_fault=next(different, None),
        first_call=_first(calls, _asked),
        first_end=_first(calls, _answered),
    )


def _pairs(facts: Facts) -> Sequence[Pair]:
    return () if facts.history is None else facts.history.pairs


def _fault_pairs(left: Facts, right: Facts) -> tuple[FaultPair, ...]:
    both = [() if one.history is None else rows(one.history) for one in (left, right)]
    return tuple(
        FaultPair(_fault(a), _fault(b), _what(a) != _what(b)) for a, b in zip_longest(*both)
    )


def _what(row: FaultRow | None) -> tuple[str, ...] | None:
    return None if row is None else (row.name, row.text, row.kind)


def _fault(row: FaultRow | None) -> str:
    if row is None:
        return "–"
    outcome = {"info": ", not seen", "fail": ", not tried"}.get(row.kind, "")
    end = "" if row.end_ns is None else f" to {_unbroken(row.end_ns)}"
    return f"{_unbroken(row.invoked_ns)}{end}: {row.name} {row.text}{outcome}"


def _unbroken(time_ns: int) -> str:
    """Return a time as text that no line break divides."""
    return seconds(time_ns).replace(" ", "\u00a0")


def _first(
    calls: Iterable[tuple[Pair, Pair]], text: Callable[[Pair], str]
) -> tuple[int, str, str] | None:
    for at, (a, b) in enumerate(calls, 1):
        if text(a) != text(b):
            return at, _call(a, text), _call(b, text)
    return None


def _call(pair: Pair, text: Callable[[Pair], str]) -> str:
    return f"#{pair.invoke.index} at {_unbroken(pair.invoke.time_ns)}: {text(pair)}"


def _asked(pair: Pair) -> str:
    """Return what was asked: "insert 4, key 0, on ch1", "read of key 0 on ch1"."""
    call = pair.invoke
    if call.value is None:
        return f"{call.f}{on_key(call)}{where(call)}"
    key = "" if call.key is None else f", key {call.key},"
    return f"{call.f} {str(call.value)[:TEXT_MAX]}{key}{where(call)}"


def _answered(pair: Pair) -> str:
    """Return what was asked and how it ended: "read of key 0 on ch1: ok, 4 values"."""
    end = pair.end
    if end is None:
        return f"{_asked(pair)}: never ended"
    value = number(len(end.value), "value") if isinstance(end.value, tuple) else ""
    said = (end.kind.value, value, str(end.error or "").partition(":")[0][:TEXT_MAX])
    return f"{_asked(pair)}: {', '.join(filter(None, said))}"


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
                label, unit = _label(name)
                out[f"figures of {verdict.checker}", label] = f"{_text(figure)} {unit}".rstrip()
    return out


def _label(figure: str) -> tuple[str, str]:
    """Return the label and the unit of a figure: "stale max" and "ms" of stale_ms_max."""
    words = figure.split("_")
    units = [word for word in words[1:] if word in ("s", "ms")] if "per" not in words else []
    return " ".join(word for word in words if word not in units), units[0] if units else ""


def _text(figure: float | str) -> str:
    if isinstance(figure, str | bool):
        return str(figure)
    return f"{figure:,.6g}" if isinstance(figure, float) else f"{figure:,}"
