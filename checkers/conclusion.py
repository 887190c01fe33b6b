"""Concludes a status from what a checker found broken, checked and doubtful."""

from collections.abc import Mapping, Sequence, Sized
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


def summarize(broken: Sequence[Anomaly], doubts: Sequence[str], held: str) -> str:
    """Return how many anomalies of each kind there are, else the doubts, else what held."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in count_kinds(broken).items())
    return kinds or "; ".join(doubts) or held


def mapping_of(op: Op | None) -> Mapping[str, Any]:
    """Return the value of an op as a mapping; an empty one if it has none or is missing."""
    return op.value if op is not None and isinstance(op.value, Mapping) else {}
