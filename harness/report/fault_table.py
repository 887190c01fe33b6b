"""Table of all injected faults: when, on which nodes, and how their effects were verified."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.history import History
from harness.core.op import Kind, Op
from nemesis.catalogue import entry_of


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One fault: the nemesis op that began it and the op that ended it."""

    op: int
    name: str
    text: str
    invoked_ns: int
    verified_ns: int | None
    """Time at which its effect was seen; None if it was not."""
    end_ns: int | None
    """Time at which it was over; None if it lasted until the end of the history or never began."""
    kind: str
    """Outcome: ok (its effect was seen), info (it was not) or fail (it was not tried)."""
    evidence: str
    """Description of what was seen, or the reason why nothing was."""
    ended: str
    """Description of what was seen when it ended."""


def rows(history: History) -> tuple[FaultRow, ...]:
    """Return the faults in order of time."""
    ends = _ends(history)
    known = {fault.op: fault for fault in history.faults}
    out = []
    invoked_ns = 0
    for op in history.nemesis:
        value = op.value if isinstance(op.value, Mapping) else {}
        if op.kind is Kind.INVOKE:  # the nemesis has one call in flight
            invoked_ns = op.time_ns
        if op.kind is Kind.INVOKE or value.get("edge") not in ("begin", "once"):
            continue
        entry = entry_of(op.f)
        seen = entry.seen if entry else "its effect was seen"
        released = entry.gone if entry else "its end was seen"
        end = ends.get(value.get("fault"))
        fault = known.get(op.index)
        out.append(
            FaultRow(
                op=op.index,
                name=str(value.get("name", op.f)),
                text=str(value.get("text") or " ".join(map(str, _nodes(value)))),
                invoked_ns=invoked_ns,
                verified_ns=op.time_ns if fault else None,
                end_ns=fault.end_ns if fault else None,
                kind=op.kind.value,
                evidence=_begin_evidence(op, seen, value),
                ended="" if op.kind is Kind.FAIL else _end_evidence(end, released, value),
            )
        )
    return tuple(out)


def _nodes(value: Mapping[str, object]) -> Sequence[object]:
    """Return the nodes that the fault was meant for."""
    nodes = value.get("nodes")
    return nodes if isinstance(nodes, list | tuple) else ()


def _ends(history: History) -> dict[object, Op]:
    """Return the op that ended each fault, by the fault's number; an ok op has precedence."""
    found: dict[object, Op] = {}
    for op in history.nemesis:
        if op.kind is Kind.INVOKE or not isinstance(op.value, Mapping):
            continue
        number = op.value.get("fault")
        known = found.get(number)
        if op.value.get("edge") == "end" and (known is None or known.kind is not Kind.OK):
            found[number] = op
    return found


def _begin_evidence(op: Op, seen: str, value: Mapping[str, object]) -> str:
    if op.kind is Kind.OK:
        if "unseen" in value:
            return str(value["unseen"])
        dropped = value.get("grudge")
        count = sum(len(v) for v in dropped.values()) if isinstance(dropped, Mapping) else 0
        return f"{seen} ({count} links)" if count else seen
    return op.error or ("its effect was not seen" if op.kind is Kind.INFO else "not tried")


def _end_evidence(end: Op | None, released: str, value: Mapping[str, object]) -> str:
    if value.get("edge") == "once":
        return released
    if end is None:
        return "ended by the heal at the end of the run"
    if end.kind is not Kind.OK:
        return end.error or "its end was not seen"
    _, _, remark = str(
        end.value.get("text", "") if isinstance(end.value, Mapping) else ""
    ).partition(", ")
    return f"{released} ({remark})" if remark else released
