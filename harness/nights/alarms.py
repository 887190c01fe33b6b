"""Alarms of a night: how often cells find something, how often they come to no conclusion, and what
their runs cost, where that has changed.

A cell's runs of the night are compared with those of the weeks before on the same servers; those of
the last seven days with the weeks before these; and, for a week after its servers were replaced by
others, those on the new ones with those on the last ones.

Each comparison is of two counts: the runs that have a finding among those with a conclusion, the
UNKNOWN ones among all, or the runs that take more time (memory) than the median of both sides
(Mood, "Introduction to the Theory of Statistics", 1950, section 16.5). Fisher's exact test says how
likely such counts are if nothing has changed. Of all comparisons of a night those are alarms that
Benjamini and Hochberg's procedure chooses ("Controlling the false discovery rate", Journal of the
Royal Statistical Society B 57, 1995): if nothing has changed, one night in a hundred has an alarm,
however many cells it has.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from operator import attrgetter
from statistics import median
from typing import Final

from harness.core.op import Json
from harness.core.verdict import Status
from harness.nights.night import Night, Slot
from harness.run.rates import Share, fisher

FALSE_ALARMS: Final = 0.01
"""Expected share of alarms that nothing has caused."""
WEEK: Final = timedelta(days=7)
COMPARED: Final = timedelta(days=56)
"""How long before a night the runs began with which it is compared."""
CHANGE_MIN: Final = 0.1
"""Least change of a median that counts: a fixed time that differs by a hundredth is no news."""


class AlarmWindow(StrEnum):
    """The runs that are compared with earlier ones."""

    NIGHT = "tonight"
    WEEK = "in the last 7 days"
    SERVERS = "on these servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A figure of a cell that has changed."""

    cell: str
    figure: str
    """A finding, "UNKNOWN", "run time" or "memory"."""
    window: AlarmWindow
    before: str
    """What it was, with its interval or unit."""
    now: str
    rises: bool
    probability: float
    """Probability of such a difference, or a larger one, if nothing has changed."""
    servers: str = ""
    """Servers of the runs before, if those of the night are others."""

    @property
    def verb(self) -> str:
        """Return how it has changed."""
        return "rises" if self.rises else "falls"

    @property
    def past(self) -> str:
        """Return what it was, and on which servers if on others."""
        return f"{self.before}, on {self.servers}" if self.servers else self.before

    @property
    def text(self) -> str:
        """Return the alarm in one line."""
        return (
            f"{self.cell}: {self.figure} {self.verb}: {self.now} {self.window.value}; before: "
            f"{self.past}"
        )

    def results(self) -> dict[str, Json]:
        """Return the alarm as summary.json has it."""
        names = ("verb", "past", "text")
        return {**asdict(self), **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True)
class _DatedRun:
    """A run, with the time when its night began."""

    began: datetime
    slot: Slot


def alarms_of(night: Night, earlier: Iterable[Night]) -> list[Alarm]:
    """Return the alarms of a night, in the order of its cells, the least probable first. `earlier`
    are nights of the same matrix, the earliest first; those that began later do not count."""
    began = night.began
    if began is None:
        return []
    past: dict[str, list[_DatedRun]] = {}
    for other in earlier:
        if other.began is not None and began - COMPARED <= other.began < began:
            for slot in other.runs:
                if not slot.is_varied:
                    past.setdefault(slot.cell, []).append(_DatedRun(other.began, slot))
    now = {
        cell: [_DatedRun(began, slot) for slot in slots if not slot.is_varied]
        for cell, slots in night.cells.items()
    }
    found = [
        alarm
        for cell, runs in now.items()
        if runs
        for alarm in _compared(cell, runs, past.get(cell, []))
    ]
    order = {cell: at for at, cell in enumerate(night.cells)}
    chosen = _discoveries(found)
    return sorted(chosen, key=lambda alarm: (order[alarm.cell], alarm.probability, alarm.figure))


def recent(nights: Sequence[Night], next_: Night) -> list[Night]:
    """Return the nights with one more, without those that began too long before it to be compared
    with it or a later one."""
    if next_.began is None:
        return [*nights]
    least = next_.began - COMPARED
    return [*(one for one in nights if one.began is not None and one.began >= least), next_]


def _discoveries(compared: Sequence[Alarm]) -> list[Alarm]:
    """Return the comparisons that are alarms (Benjamini and Hochberg), each figure of a cell once:
    in the window in which it is least probable."""
    ranked = sorted(compared, key=attrgetter("probability"))
    last = max(
        (
            at
            for at, one in enumerate(ranked, 1)
            if one.probability <= FALSE_ALARMS * at / len(ranked)
        ),
        default=0,
    )
    best: dict[tuple[str, str], Alarm] = {}
    for one in ranked[:last]:
        best.setdefault((one.cell, one.figure), one)
    return list(best.values())


def _compared(cell: str, now: Sequence[_DatedRun], past: Sequence[_DatedRun]) -> Iterator[Alarm]:
    """Yield every comparison of a cell, most of which are no alarms."""
    if not now or not past:
        return
    began, servers = now[-1].began, now[-1].slot.servers
    alike = [run for run in past if run.slot.servers == servers]
    week = [run for run in alike if run.began > began - WEEK]
    yield from _figures(cell, AlarmWindow.NIGHT, now, alike)
    if week:
        older = [run for run in alike if run.began <= began - WEEK]
        yield from _figures(cell, AlarmWindow.WEEK, [*week, *now], older)
    if all(run.began > began - WEEK for run in alike):
        others = [run for run in past if run.slot.servers != servers]
        last = others[-1].slot.servers if others else ""
        replaced = [run for run in others if run.slot.servers == last]
        yield from _figures(cell, AlarmWindow.SERVERS, [*alike, *now], replaced, last)


def _figures(
    cell: str,
    window: AlarmWindow,
    now: Sequence[_DatedRun],
    before: Sequence[_DatedRun],
    servers: str = "",
) -> Iterator[Alarm]:
    """Yield the comparison of each figure of two groups of runs."""
    new, old = ([run.slot for run in runs] for runs in (now, before))
    if not new or not old:
        return

    def alarm(figure: str, of: "_Compared") -> Alarm:
        return Alarm(
            cell=cell, figure=figure, window=window, servers=servers, before=of.before, now=of.now,
            rises=of.rises, probability=of.probability,
        )  # fmt: skip

    findings = dict.fromkeys(name for slot in [*old, *new] for name in slot.shown)
    for name in findings:
        yield alarm(name, _rates(new, old, partial(_has, name)))
    yield alarm("UNKNOWN", _rates(new, old, lambda slot: slot.verdict is Status.UNKNOWN))
    for figure, unit, of in _COSTS:
        costs, past = ([c for c in map(of, slots) if c is not None] for slots in (new, old))
        if costs and past and abs(median(costs) / median(past) - 1) >= CHANGE_MIN:
            yield alarm(figure, _medians(costs, past, unit))


@dataclass(frozen=True, slots=True)
class _Compared:
    """Two groups of runs, by one figure."""

    before: str
    now: str
    rises: bool
    probability: float


def _has(finding: str, slot: Slot) -> bool | None:
    """Return whether a run has a finding; None if it has no conclusion."""
    return None if slot.verdict is Status.UNKNOWN else finding in slot.shown


def _rates(
    new: Sequence[Slot], old: Sequence[Slot], hit: Callable[[Slot], bool | None]
) -> _Compared:
    now, before = (Share.of(map(hit, slots)) for slots in (new, old))
    probability = fisher(now.hits, now.tries, before.hits, before.tries)
    return _Compared(before.counted, now.counted, now.rate > before.rate, probability)


def _medians(new: Sequence[float], old: Sequence[float], unit: str) -> _Compared:
    both = median([*new, *old])
    above = [sum(cost > both for cost in costs) for costs in (new, old)]
    now, before = median(new), median(old)
    probability = fisher(above[0], len(new), above[1], len(old))
    return _Compared(f"{before:.3g} {unit}", f"{now:.3g} {unit}", now > before, probability)


def _seconds(slot: Slot) -> float | None:
    return slot.seconds if slot.recorded and slot.seconds > 0 else None


_COSTS: Final[Sequence[tuple[str, str, Callable[[Slot], float | None]]]] = (
    ("run time", "s", _seconds),
    ("memory", "MB", attrgetter("memory_mb")),
)
"""Figures of which the medians are compared: name, unit, and the value of a run or None."""
