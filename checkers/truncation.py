"""Whether the replication log was cut where nobody still needs it, and whoever fell behind was
marked lost and came back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from checkers.rest import rest_of
from checkers.words import FEW, during, number, seconds
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Status, Verdict

OBSERVE: Final = "observe-log"
FINAL: Final = "final-log"
CLEANED_S: Final = 10
"""Several times the delay after which the workload's tables look for entries to cut."""


class Truncation:
    """Judges the calls "observe-log" and, at rest, "final-log": {"first": index of the first entry
    kept, "entries": how many there were just before, "replicas": {node: {"pointer", "lost",
    "active", "steady"}}}. Of a replica that is steady, all of it was so at one moment after the
    first entry was read, so that a violation is no matter of what was read when.

    ValidLogPointer: an active replica that is not lost points at or above the first entry.
    An inactive one below it is marked lost. Never are all lost; at rest none is. In the end
    something is cut: with more than `entries_max` entries for CLEANED_S, something must have been.
    """

    name = "truncation"

    def __init__(self, *, entries_max: int) -> None:
        self.entries_max = entries_max

    def check(self, history: History, *, deadline_s: float) -> Verdict:  # noqa: ARG002
        """VALID needs a log that was cut and a replica that was marked lost and came back; without
        faults, the first alone."""
        looks = [
            pair.end
            for pair in history.pairs
            if pair.invoke.f in (OBSERVE, FINAL) and pair.kind is Kind.OK and pair.end is not None
        ]
        cut = max((int(_value(op).get("first") or 0) for op in looks), default=0)
        lost = {node for op in looks for node, s in _replicas(op).items() if s.get("lost")}
        broken = [one for op in looks for one in _broken(history, op)]
        final = [op for op in looks if op.f == FINAL]
        if final and rest_of(history).reached:
            broken += _at_rest(final[-1])
            broken += [] if cut else _never_cut(looks, final[-1], self.entries_max)
        doubts = [] if cut else ["the log was never cut"]
        if not final:
            doubts.append("nobody looked at rest")
        said = f"the log cut up to entry {cut:,}, {number(len(lost), 'replica')} lost and back"
        kinds = {a.kind: sum(b.kind == a.kind for b in broken) for a in broken}
        return Verdict(
            checker=self.name,
            status=Status.INVALID if broken else Status.UNKNOWN if doubts else Status.VALID,
            summary=broken[0].text if broken else "; ".join(doubts) or said,
            checked=len(looks),
            anomalies=tuple(broken[:FEW]),
            figures={
                "looks": len(looks),
                "cut_to": cut,
                "lost": sorted(lost),
                "anomalies": {**kinds},
            },
        )


def _value(op: Op) -> Mapping[str, Any]:
    return op.value if isinstance(op.value, Mapping) else {}


def _replicas(op: Op) -> Mapping[str, Mapping[str, Any]]:
    found = _value(op).get("replicas")
    return found if isinstance(found, Mapping) else {}


def _broken(history: History, op: Op) -> Iterable[Anomaly]:
    first = int(_value(op).get("first") or 0)
    states = _replicas(op)
    steady = {node: s for node, s in states.items() if s.get("steady")}
    for node, state in sorted(steady.items()):
        pointer = state.get("pointer")
        if pointer is None or pointer >= first or state.get("lost"):
            continue
        kind = "pointer-behind" if state.get("active") else "not-marked-lost"
        what = "active" if state.get("active") else "inactive"
        yield _anomaly(
            op,
            kind,
            f"{node} is {what} and not lost, and points at entry {pointer} though the log begins "
            f"at {first}{during(history, op.time_ns)}",
        )
    if states and len(steady) == len(states) and all(s.get("lost") for s in states.values()):
        yield _anomaly(op, "all-lost", f"every replica is lost{during(history, op.time_ns)}")


def _at_rest(op: Op) -> Iterable[Anomaly]:
    for node, state in sorted(_replicas(op).items()):
        if state.get("lost"):
            yield _anomaly(op, "still-lost", f"{node} is still lost at rest")


def _never_cut(looks: Sequence[Op], final: Op, entries_max: int) -> Iterable[Anomaly]:
    long = [op for op in looks if int(_value(op).get("entries") or 0) > entries_max]
    if final in long and final.time_ns - long[0].time_ns >= CLEANED_S * 1e9:
        since = f"since {seconds(long[0].time_ns)}"
        text = f"the log has more than {entries_max:,} entries {since} and none was ever cut"
        yield _anomaly(final, "never-cut", text)


def _anomaly(op: Op, kind: str, text: str) -> Anomaly:
    said = f"{text} (op #{op.index} at {seconds(op.time_ns)})"
    return Anomaly(kind=kind, text=said, ops=(op.index,), time_ns=op.time_ns)
