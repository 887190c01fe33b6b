"""Concludes a status from what a checker found broken, checked and doubtful."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from itertools import islice
from typing import Any

from checkers.phrasing import FEW
from harness.core.op import Op
from harness.core.verdict import Anomaly, Status


def conclude(
    broken: Sized | int, *, checked: Sized | int | None = None, doubts: Sized | int = ()
) -> Status:
    """Return INVALID if anything is broken, else UNKNOWN if there is a doubt or nothing was
    checked, else VALID.

    Each argument is a collection or a count. Pass no `checked` if the doubts already include a
    history with too little in it. What is broken outweighs a doubt: a witness stays a witness,
    however little else was seen.
    """
    if broken:
        return Status.INVALID
    if doubts or (checked is not None and not checked):
        return Status.UNKNOWN
    return Status.VALID


class AnomalyTally:
    """Anomalies of several kinds: how many there are of each, and the first `FEW`."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        """Number of anomalies of each kind, in order of the first of each."""
        self._few: dict[str, list[Anomaly]] = {}

    def add(self, kind: str, anomalies: Iterable[Anomaly], count: int = 1) -> None:
        """Add anomalies of a kind, `count` of them, of which no more are made than are kept."""
        if not count:
            return
        self.kinds[kind] = self.kinds.get(kind, 0) + count
        few = self._few.setdefault(kind, [])
        if len(few) < FEW:
            few += islice(anomalies, FEW - len(few))

    def extend(self, later: "AnomalyTally") -> None:
        """Add what was found later."""
        for kind, count in later.kinds.items():
            self.add(kind, later.few(kind), count)

    def few(self, kind: str) -> Sequence[Anomaly]:
        """Return the first anomalies of a kind."""
        return self._few.get(kind, ())

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """Return the first anomalies of each kind, kinds in order of the first of each."""
        return tuple(one for kind in self.kinds for one in self._few[kind])


def count_kinds(broken: Sequence[Anomaly]) -> dict[str, int]:
    """Return the number of anomalies of each kind, in order of the first of each."""
    kinds: dict[str, int] = {}
    for anomaly in broken:
        kinds[anomaly.kind] = kinds.get(anomaly.kind, 0) + 1
    return kinds


def few_of_each_kind(broken: Sequence[Anomaly]) -> tuple[Anomaly, ...]:
    """Return the first `FEW` anomalies of each kind, kinds in order of the first of each."""
    return tuple(
        anomaly
        for kind in count_kinds(broken)
        for anomaly in [one for one in broken if one.kind == kind][:FEW]
    )


def summarize(broken: Sequence[Anomaly] | AnomalyTally, doubts: Sequence[str], held: str) -> str:
    """Return how many anomalies of each kind there are, else the doubts, else what held."""
    counts = broken.kinds if isinstance(broken, AnomalyTally) else count_kinds(broken)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return kinds or "; ".join(doubts) or held


def mapping_of(op: Op | None) -> Mapping[str, Any]:
    """Return the value of an op as a mapping; an empty one if it has none or is missing."""
    return op.value if op is not None and isinstance(op.value, Mapping) else {}
