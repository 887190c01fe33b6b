"""The smallest witness as a picture: who did what when, which faults were in force, what is wrong.

A value with places but no drawing. Where there is room time goes to the right; a narrow page and a
terminal draw its rows, in which time goes down.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from checkers.phrasing import listed, number
from harness.core.history import Fault, History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly
from harness.report.axis import Axis

FAULTS_MARKED: Final = 3
"""Maximum number of faults in a picture whose edges get marks of their own."""
UNVERIFIED: Final = "unverified"
VERIFIED: Final = "verified"
"""States of a fault at some moment: only invoked, or its effect was seen."""
PAUSE_NS: Final = 10_000_000
"""Shortest gap between two rows that is shown."""
ACKNOWLEDGED: Final = "acknowledged here"
ANSWERED: Final = "answered here"
PRESENT_IS_WRONG: Final = {"duplicate": "twice here", "phantom": "must not be here"}
"""Kinds of anomaly in which a read is wrong because it returned a value."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A call in a picture."""

    pair: Pair
    lane: int
    begin: float
    """Position in per cent of the axis, as is `end`."""
    end: float
    title: str
    """Operation and value: "insert 417"."""
    note: str
    """Outcome in words: "acknowledged here", "missing here", "never answered"."""
    wrong: bool
    """True for the read that breaks the promise."""

    @property
    def begin_ns(self) -> int:
        """Return when the call was invoked."""
        return self.pair.invoke.time_ns

    @property
    def end_ns(self) -> int:
        """Return when the call ended; for one that never did, when it was invoked."""
        return _end_ns(self.pair)

    @property
    def end_number(self) -> str:
        """Return the number of the op that ended the call, " #126"; "" for one that never did."""
        return "" if self.pair.end is None else f" #{self.pair.end.index}"

    @property
    def kind(self) -> str:
        """Return ok, fail or info."""
        return self.pair.kind.value


@dataclass(frozen=True, slots=True)
class Band:
    """One fault, as far as it lies within the picture."""

    fault: Fault
    begin: float
    """Position of the invocation in per cent of the axis; `verified` and `end` are positions
    too."""
    verified: float
    end: float
    begun_before: bool
    ends_after: bool

    @property
    def title(self) -> str:
        """Return the name and the target: "partition-one {ch1 | ch2 ch3}"."""
        return f"{self.fault.name} {self.fault.text}"

    def state(self, time_ns: int) -> str:
        """Return VERIFIED while the fault is in force, UNVERIFIED while it may be, else ""."""
        fault = self.fault
        if time_ns < fault.invoked_ns or (fault.end_ns is not None and time_ns >= fault.end_ns):
            return ""
        return UNVERIFIED if time_ns < fault.begin_ns else VERIFIED


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One event of a picture in which time goes down."""

    time_ns: int
    gap_ns: int
    """Time since the row above; 0 in the first one."""
    rails: tuple[tuple[str, Bar | None], ...]
    """State of each lane: a call begins ("begin"), ends ("end") or is in flight ("on"); else ""."""
    bar: Bar | None
    """Call that begins or ends; None if the event is a fault's."""
    text: str
    faulty: str
    """VERIFIED if a fault is in force, UNVERIFIED if one may be, else ""."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A few calls on a time axis."""

    lanes: tuple[tuple[str, str], ...]
    """Node and process of each lane: ("ch2", "process 4")."""
    bars: tuple[Bar, ...]
    bands: tuple[Band, ...]
    axis: Axis

    @property
    def links(self) -> tuple[tuple[Bar, Bar], ...]:
        """Return the pairs of an acknowledgement and a wrong read that began after it."""
        acks = [bar for bar in self.bars if bar.note == ACKNOWLEDGED]
        wrong = [bar for bar in self.bars if bar.wrong]
        return tuple((a, w) for a in acks for w in wrong if a.end <= w.begin)

    @property
    def unverified(self) -> bool:
        """Return whether a fault of the picture was in force before it was verified."""
        return any(band.verified > band.begin for band in self.bands)

    @property
    def rows(self) -> tuple[TimelineRow, ...]:
        """Return the events of the picture in order of time."""
        out: list[TimelineRow] = []
        under_way: dict[int, Bar] = {}
        for time_ns, order, bar, text in sorted(self._events(), key=lambda one: one[:2]):
            rails: list[tuple[str, Bar | None]] = [
                ("on" if lane in under_way else "", under_way.get(lane))
                for lane in range(len(self.lanes))
            ]
            if bar is not None:
                begins = order is _Order.BEGIN
                rails[bar.lane] = ("begin" if begins else "end", bar)
                if begins:
                    under_way[bar.lane] = bar
                else:
                    under_way.pop(bar.lane, None)
            gap_ns = time_ns - out[-1].time_ns if out else 0
            states = {band.state(time_ns) for band in self.bands}
            faulty = next((state for state in (VERIFIED, UNVERIFIED) if state in states), "")
            out.append(TimelineRow(time_ns, gap_ns, tuple(rails), bar, text, faulty))
        return tuple(out)

    def _events(self) -> Iterator[tuple[int, "_Order", Bar | None, str]]:
        """Yield the time, the order among events of that time, the call (None for a fault's event)
        and a text of each event."""
        for bar in self.bars:
            yield bar.begin_ns, _Order.BEGIN, bar, f"{bar.title} #{bar.pair.invoke.index}"
            at_once = bar.end_ns == bar.begin_ns
            order = _Order.END_AT_ONCE if at_once else _Order.END
            yield bar.end_ns, order, bar, f"{bar.note}{bar.end_number}"
        marks = {time_ns for time_ns, _ in self.axis.marks}
        for band in self.bands if len(self.bands) <= FAULTS_MARKED else ():
            for time_ns, order, what in _edges(band.fault):
                if time_ns in marks:
                    yield time_ns, order, None, f"{band.fault.name} {what}"


class _Order(IntEnum):
    """Order of events at the same time: ends come first."""

    END = 0
    BEGIN = 1
    END_AT_ONCE = 2


def _edges(fault: Fault) -> Iterator[tuple[int, _Order, str]]:
    """Yield the times of a fault, with their order and names."""
    if fault.invoked_ns < fault.begin_ns:
        yield fault.invoked_ns, _Order.BEGIN, "is invoked"
        yield fault.begin_ns, _Order.BEGIN, "is verified"
    else:
        yield fault.begin_ns, _Order.BEGIN, "begins"
    if fault.end_ns is not None:
        yield fault.end_ns, _Order.END, "is over"


def picture_of(history: History, anomaly: Anomaly) -> Picture:
    """Return the picture of the calls to which the anomaly's ops belong."""
    pairs = _pairs(history, anomaly.ops)
    begin_ns = min((p.invoke.time_ns for p in pairs), default=anomaly.time_ns)
    end_ns = max((_end_ns(p) for p in pairs), default=begin_ns)
    faults = [
        f for f in history.faults if f.invoked_ns <= end_ns and (f.end_ns or begin_ns) >= begin_ns
    ]
    times = [time for p in pairs for time in (p.invoke.time_ns, _end_ns(p))] or [begin_ns]
    if len(faults) <= FAULTS_MARKED:
        edges = [time_ns for fault in faults for time_ns, _, _ in _edges(fault)]
        times += [t for t in edges if begin_ns <= t <= end_ns]
    axis = Axis.through(times)
    names = sorted({_lane(p) for p in pairs}, key=lambda lane: (lane[0], lane[1]))
    # The note of each read compares it with every value of the witness.
    values = dict.fromkeys(v for p in pairs if (v := _written(p)) is not None)
    if anomaly.value is not None:
        values[anomaly.value] = None
    bars = [
        Bar(
            pair=pair,
            lane=names.index(_lane(pair)),
            begin=axis.at(pair.invoke.time_ns),
            end=axis.at(_end_ns(pair)),
            title=title_of(pair),
            note=_note(pair, anomaly, tuple(values)),
            wrong=_is_wrong(pair, anomaly),
        )
        for pair in pairs
    ]
    return Picture(
        lanes=tuple((node, f"process {process}") for node, process in names),
        bars=tuple(_mark_wrong_reads(bars, pairs)),
        bands=tuple(_band(f, axis, begin_ns, end_ns) for f in faults),
        axis=axis,
    )


def title_of(pair: Pair) -> str:
    """Return the title of a call, as in "insert 417" or "read 812 values"."""
    end = pair.end
    if end is not None and end.kind is Kind.OK and isinstance(end.value, tuple):
        return f"{pair.invoke.f} → {number(len(end.value), 'value')}"
    value = pair.invoke.value
    if isinstance(value, int):
        return f"{pair.invoke.f} {value}"
    if end is not None and isinstance(end.value, int):
        return f"{pair.invoke.f} → {end.value}"
    return pair.invoke.f


def _pairs(history: History, ops: Sequence[int]) -> list[Pair]:
    wanted = set(ops)
    return [
        pair
        for pair in history.pairs
        if pair.invoke.index in wanted or (pair.end is not None and pair.end.index in wanted)
    ]


def _end_ns(pair: Pair) -> int:
    """Return the end of a call; one that never ended is drawn as short as possible."""
    return pair.invoke.time_ns if pair.end is None else pair.end.time_ns


def _lane(pair: Pair) -> tuple[str, int]:
    process = pair.invoke.process
    return pair.invoke.node or "", process if isinstance(process, int) else -1


def _written(pair: Pair) -> int | None:
    return pair.invoke.value if isinstance(pair.invoke.value, int) else None


def _returned(pair: Pair) -> tuple[int, ...] | None:
    end = pair.end
    if end is None or end.kind is not Kind.OK or not isinstance(end.value, tuple):
        return None
    return end.value


def _is_wrong(pair: Pair, anomaly: Anomaly) -> bool:
    values = _returned(pair)
    if values is None or anomaly.value is None:
        return False
    return (anomaly.value in values) == (anomaly.kind in PRESENT_IS_WRONG)


def _note(pair: Pair, anomaly: Anomaly, witness_values: Sequence[int]) -> str:
    values = _returned(pair)
    if values is None:
        return {
            Kind.OK: ACKNOWLEDGED if _written(pair) is not None else ANSWERED,
            Kind.FAIL: "refused",
            Kind.INFO: "never answered",
        }[pair.kind]
    if _is_wrong(pair, anomaly):
        problem = PRESENT_IS_WRONG.get(anomaly.kind, "missing here")
        return f"{problem}: {anomaly.value}"
    returned = set(values)
    parts = [
        (word, [v for v in witness_values if (v in returned) is there])
        for word, there in (("has", True), ("lacks", False))
    ]
    return " · ".join(f"{word} {listed(some)}" for word, some in parts if some) or ANSWERED


def _mark_wrong_reads(bars: Sequence[Bar], pairs: Sequence[Pair]) -> Sequence[Bar]:
    """Mark the wrong reads of a witness that names none, such as one of several values: the reads
    that lack a value acknowledged before they began, or else the read that ended last."""
    reads = [bar for bar in bars if bar.pair.kind is Kind.OK and bar.pair.invoke.value is None]
    if not reads or any(bar.wrong for bar in bars):
        return bars
    acks: Mapping[int, int] = {
        value: _end_ns(p) for p in pairs if p.kind is Kind.OK and (value := _written(p)) is not None
    }
    lacking = [
        bar
        for bar in reads
        if _returned(bar.pair) is not None
        and any(
            at < bar.pair.invoke.time_ns and value not in (_returned(bar.pair) or ())
            for value, at in acks.items()
        )
    ]
    chosen = lacking or [max(reads, key=lambda bar: _end_ns(bar.pair))]
    return [
        replace(bar, wrong=True, note=bar.note.replace(ANSWERED, "cannot be explained"))
        if bar in chosen
        else bar
        for bar in bars
    ]


def _band(fault: Fault, axis: Axis, begin_ns: int, end_ns: int) -> Band:
    def place(time_ns: int) -> float:
        if time_ns < begin_ns:
            return 0.0
        return 100.0 if time_ns > end_ns else axis.at(time_ns)

    return Band(
        fault=fault,
        begin=place(fault.invoked_ns),
        verified=place(fault.begin_ns),
        end=100.0 if fault.end_ns is None else place(fault.end_ns),
        begun_before=fault.invoked_ns < begin_ns,
        ends_after=fault.end_ns is None or fault.end_ns > end_ns,
    )
