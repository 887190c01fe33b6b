"""The nights of `harness torture` in a store, read from their journals."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.verdict import Status
from harness.nights.alarms import Alarm, alarms_of, recent
from harness.nights.findings import CellRecord, FailOn, add_night
from harness.nights.night import JOURNAL, NIGHTS, Night, Slot
from harness.nights.night_summary import CellSummary, NightSummary, cells, headline
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

    @property
    def slots(self) -> Sequence[Slot]:
        """Return its runs."""
        return self.night.runs

    @cached_property
    def cells(self) -> Sequence[CellSummary]:
        """Return the summaries of its cells, in the order in which they first ran."""
        return cells(self.night, (), self.earlier)

    @cached_property
    def alarms(self) -> Sequence[Alarm]:
        """Return the figures of its cells that have changed."""
        return alarms_of(self.night, self.recent)

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
        return NightSummary(night=self.night, cells=self.cells, fail_on=fail_on)

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

    def gone(self, cell: str) -> tuple[str, ...]:
        """Return the findings that a cell had in the night before and has no more, though it
        ran."""
        now = next((one for one in self.cells if one.name == cell), None)
        if self.before is None or now is None or not now.slots:
            return ()
        then = next((one for one in self.before.cells if one.name == cell), None)
        return () if then is None else tuple(sorted({*then.findings} - {*now.findings}))

    @property
    def all_gone(self) -> tuple[str, ...]:
        """Return "cell: findings" for those of the night before that did not occur again."""
        gone = {cell.name: self.gone(cell.name) for cell in self.cells}
        return tuple(f"{name}: {', '.join(kinds)}" for name, kinds in gone.items() if kinds)


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
