"""Counters of a run in progress, which a display may read at any time, without a lock."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.op import NEMESIS, Kind, Op


@dataclass(frozen=True, slots=True)
class Figures:
    """A reading of the counters."""

    ended: Mapping[tuple[str, Kind], int]
    """Number of clients' calls that ended, by (f, kind)."""
    in_flight: int
    """Number of clients' calls without an end."""
    faults: tuple[str, ...]
    """Every fault in force, oldest first: its name, its effect and its targets."""
    injected: int
    """Number of faults that have begun."""
    departures: int
    """Number of steps that the model of the protocol does not allow."""
    covered: int
    """Number of elements of that model that the run has covered."""

    def kind(self, kind: Kind) -> int:
        """Return the number of calls that ended with this kind."""
        return sum(count for (_, k), count in self.ended.items() if k is kind)

    @property
    def total(self) -> int:
        """Number of calls that ended."""
        return sum(self.ended.values())


class Live:
    """Counters of one run. One thread at a time calls `saw`, which the interpreter's lock ensures;
    any thread may call `read`."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, Kind], int] = {}
        self._in_flight = 0
        self._faults: dict[object, str] = {}
        self._injected = 0
        self._departures = self._covered = 0

    def followed(self, departures: int, covered: int) -> None:
        """Set the number of steps that the model of the protocol does not allow, and of its
        elements that were covered."""
        self._departures, self._covered = departures, covered

    def saw(self, op: Op) -> None:
        """Count an op."""
        if op.process == NEMESIS:
            self._saw_fault(op)
        elif op.kind is Kind.INVOKE:
            self._in_flight += 1
        else:
            self._in_flight -= 1
            what = (op.f, op.kind)
            self._ended[what] = self._ended.get(what, 0) + 1

    def count(self, begun: int, ended: Mapping[tuple[str, Kind], int]) -> None:
        """Count clients' calls, many at a time."""
        self._in_flight += begun - sum(ended.values())
        for what, number in ended.items():
            self._ended[what] = self._ended.get(what, 0) + number

    def _saw_fault(self, op: Op) -> None:
        if op.kind is not Kind.OK or not isinstance(op.value, Mapping):
            return
        edge, number = op.value.get("edge"), op.value.get("fault")
        # A new dictionary each time, because a reader may hold the old one.
        others = {n: text for n, text in self._faults.items() if n != number}
        if edge == "begin":
            name, text = op.value.get("name", op.f), op.value.get("text", "")
            others[number] = f"{name} {text}".rstrip()
        if edge in ("begin", "once"):
            self._injected += 1
        if edge in ("begin", "end"):
            self._faults = others
        elif edge == "heal":
            self._faults = {}

    def read(self) -> Figures:
        """Return the counters. Each is exact; two of them may be one op apart."""
        return Figures(
            ended=self._ended.copy(),
            in_flight=self._in_flight,
            faults=tuple(self._faults.values()),
            injected=self._injected,
            departures=self._departures,
            covered=self._covered,
        )
