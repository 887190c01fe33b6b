"""Finds when each node was down or impaired, from the faults of a history."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from checkers.fault_edges import edge_of
from harness.core.history import History
from harness.core.op import Kind

FOREVER_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class Outage:
    """One fault on some nodes."""

    name: str
    nodes: frozenset[str]
    """The nodes; empty for a fault without nodes, such as a partition, which may affect all."""
    touched_ns: int
    """Time at which the fault was invoked."""
    down_ns: int
    """Time at which its effect was verified; FOREVER_NS if it never was."""
    lifted_ns: int
    """Time at which its end was invoked."""
    over_ns: int
    """Time at which its end was verified."""

    def strikes(self, node: str) -> bool:
        """Return whether the fault may affect this node."""
        return not self.nodes or node in self.nodes

    def spans(self, begin_ns: int, end_ns: int, settle_ns: int) -> bool:
        """Return whether the fault was in force during a whole call and for `settle_ns` before
        it."""
        return self.down_ns + settle_ns <= begin_ns and end_ns <= self.lifted_ns


class RecentOutages:
    """Outages that may affect each of many calls, which come in the order in which they began."""

    def __init__(self, every: Sequence[Outage], slack_ns: int) -> None:
        """Create it from all outages, in order. An outage affects calls until `slack_ns` after
        it."""
        self._every = every
        self._slack_ns = slack_ns
        self._next = 0
        self._open: list[Outage] = []
        """Outages that have begun, without those that ended too early for any later call."""

    def near(self, begin_ns: int, end_ns: int) -> list[Outage]:
        """Return the outages that may affect a call between these times."""
        while self._next < len(self._every) and self._every[self._next].touched_ns <= end_ns:
            self._open.append(self._every[self._next])
            self._next += 1
        self._open = [one for one in self._open if begin_ns <= one.over_ns + self._slack_ns]
        return [one for one in self._open if one.touched_ns <= end_ns]


def outages(history: History) -> tuple[Outage, ...]:
    """Return every attempted fault, in order. A fault that failed before it affected anything is
    left out, and a fault without a verified end lasts forever."""
    open_: dict[object, Outage] = {}
    out: list[Outage] = []
    invoked_ns = 0
    for op in history.nemesis:
        if op.kind is Kind.INVOKE:
            invoked_ns = op.time_ns
            continue
        value = edge_of(op)
        edge, number = value.edge, value.fault
        ok = op.kind is Kind.OK
        if edge == "heal" or op.f == "heal":
            over = op.time_ns if ok else FOREVER_NS
            lifted = [replace(o, lifted_ns=min(o.lifted_ns, invoked_ns)) for o in open_.values()]
            out += [replace(outage, over_ns=over) for outage in lifted]
            open_.clear()
        elif edge == "end" and number in open_:
            lifted_one = replace(open_[number], lifted_ns=min(open_[number].lifted_ns, invoked_ns))
            if ok:
                out.append(replace(open_.pop(number), lifted_ns=invoked_ns, over_ns=op.time_ns))
            else:
                open_[number] = lifted_one
        elif edge in ("begin", "once") and op.kind is not Kind.FAIL:
            struck = frozenset(value.nodes or ())
            down_ns = op.time_ns if ok and edge == "begin" else FOREVER_NS
            name = value.name or op.f
            over_ns = op.time_ns if ok and edge == "once" else FOREVER_NS
            outage = Outage(name, struck, invoked_ns, down_ns, over_ns, over_ns)
            if edge == "once" and ok:
                out.append(outage)
            else:
                open_[number] = outage
    return tuple(sorted((*out, *open_.values()), key=lambda o: o.touched_ns))
