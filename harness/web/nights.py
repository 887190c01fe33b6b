"""The nights of `harness torture` in a store, read from their journals."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.verdict import Status
from harness.nights.alarms import Alarm, alarms_of, recent
from harness.nights.findings import CellRecord, FailOn, add_night
from harness.nights.night import JOURNAL, NIGHTS, Night, Slot
from harness.nights.night_summary import (
    CellSummary,
    NightSummary,
    ReachCounts,
    cells,
    headline,
)
from harness.store.store import Store
from harness.web.shared import Shared


@dataclass(frozen=True)
class NightView:
    """One night, and the one before it of the same matrix."""

    matrix: str
    stamp: str
    """Name of its directory, which is the time when it began."""
    night: Night
    earlier: Mapping[str, CellRecord] = field(default_factory=dict)
    """What each cell found in all nights before it of the same matrix."""
    before: "NightView | None" = None
    recent: Sequence[Night] = ()
    """The nights of the matrix with which it is compared."""

    @property
    def name(self) -> str:
        """Return the name in a URL: "nightly/20261125T004156558572Z"."""
        return f"{self.matrix}/{self.stamp}"

    @property
    def started(self) -> str:
        """Return the time when it began: "2026-11-25 00:41:56"."""
        return str(self.night.request.get("started_utc") or self.stamp)[:19].replace("T", " ")

    @cached_property
    def counted(self) -> Night:
        """Return the night with the runs that count: all, or those that broke or have a verdict as
        long as it is not over."""
        runs = self.night.slots.items()
        counted = {n: slot for n, slot in runs if self.night.over or slot.status or slot.broken}
        return replace(self.night, slots=counted)

    @property
    def slots(self) -> Sequence[Slot]:
        """Return the runs that count."""
        return self.counted.runs

    @property
    def waiting(self) -> int:
        """Return the number of runs that go on, or wait for their verdict."""
        return len(self.night.slots) - len(self.counted.slots)

    @cached_property
    def cells(self) -> Sequence[CellSummary]:
        """Return the summaries of its cells, in the order in which they first ran."""
        return cells(self.counted, (), self.earlier)

    @cached_property
    def alarms(self) -> Sequence[Alarm]:
        """Return the figures of its cells that have changed."""
        return alarms_of(self.counted, self.recent)

    @property
    def headline(self) -> str:
        """Return its result in one line."""
        return headline(self.cells, self.alarms) if self.slots else "no runs"

    @property
    def counts(self) -> Mapping[Status, int]:
        """Return the number of runs of each status."""
        return {s: sum(slot.verdict is s for slot in self.slots) for s in Status}

    @cached_property
    def summary(self) -> NightSummary:
        """Return what it came to, without its alarms."""
        fail_on = FailOn(self.night.request.get("fail_on", FailOn.UNEXPLAINED))
        return NightSummary(night=self.counted, cells=self.cells, fail_on=fail_on)

    @cached_property
    def fresh_elements(self) -> Sequence[str]:
        """Return the elements of the model that its runs covered, and none of an earlier night."""
        reach = ReachCounts.before(self.night.path)
        return replace(self.summary, earlier_reach=reach).fresh_elements

    @property
    def word(self) -> str:
        """Return its status as the last line of the command has it: "VALID", "ACCEPTED", …"""
        return self.summary.word

    @property
    def new(self) -> tuple[str, ...]:
        """Return "cell: findings" for those that are not accepted, and that the cell had in no
        earlier night."""
        if self.before is None:
            return ()
        return tuple(f"{cell.name}: {', '.join(cell.news)}" for cell in self.cells if cell.news)

    def unseen(self, cell: CellSummary) -> tuple[str, ...]:
        """Return the findings that a cell had in the night before and not in this one, though it
        ran; without those that are gone, which more runs say."""
        earlier = () if self.before is None else self.before.cells
        then = next((one for one in earlier if one.name == cell.name), None)
        if then is None or not cell.slots:
            return ()
        return tuple(sorted({*then.findings} - {*cell.findings, *cell.gone}))

    @property
    def lost(self) -> tuple[str, ...]:
        """Return "cell: findings" for those that are accepted and gone, and for those of the night
        before that did not occur again."""
        lost = {
            cell.name: [*(f"{name} (gone)" for name in cell.gone), *self.unseen(cell)]
            for cell in self.cells
        }
        return tuple(f"{name}: {', '.join(found)}" for name, found in lost.items() if found)


class Nights:
    """The nights of a store. A journal that has not changed is not read again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[Path, tuple[tuple[int, int], Night]] = {}
        self._last: Sequence[NightView] = ()
        self._shared = Shared(self._all)

    def all(self) -> Sequence[NightView]:
        """Return every night that can be read, the earliest first; those of a matrix in a chain.
        The same object as before if no night has changed."""
        return self._shared.get()

    def _all(self) -> Sequence[NightView]:
        nights: list[tuple[str, str, Night]] = []
        for path in sorted(self._journals(), key=lambda one: (one.parent.name, one)):
            night = self._read(path)
            if night is not None:
                nights.append((path.parent.parent.name, path.parent.name, night))
        before = [(view.matrix, view.stamp, id(view.night)) for view in self._last]
        if [(matrix, stamp, id(night)) for matrix, stamp, night in nights] != before:
            self._last = _views(nights)
        return self._last

    def _journals(self) -> Iterable[Path]:
        """Yield the journals, none of which is reached through a link."""
        root = (self.store.root / NIGHTS).resolve()
        for path in (self.store.root / NIGHTS).glob(f"*/*/{JOURNAL}"):
            if path.resolve() == root / path.parent.parent.name / path.parent.name / JOURNAL:
                yield path

    def _read(self, path: Path) -> Night | None:
        try:
            status = path.stat()
            stamp = status.st_mtime_ns, status.st_size
            known = self._known.get(path)
            if known is None or known[0] != stamp:
                known = self._known[path] = stamp, Night.read(path.parent, repair=False)
        except (OSError, HarnessError):
            return None  # it is being written, or is no journal: the other nights are shown
        return known[1]


def _views(nights: Iterable[tuple[str, str, Night]]) -> Sequence[NightView]:
    """Return the views of nights, given with matrix and stamp, the earliest first."""
    last: dict[str, NightView] = {}
    records: dict[str, dict[str, CellRecord]] = {}
    before: dict[str, list[Night]] = {}
    views: list[NightView] = []
    for matrix, stamp, night in nights:
        earlier = records.setdefault(matrix, {})
        compared = before.get(matrix, [])
        view = NightView(matrix, stamp, night, deepcopy(earlier), last.get(matrix), compared)
        before[matrix] = recent(compared, night)
        add_night(earlier, night)
        views.append(view)
        last[matrix] = view
    return views
