"""When which node was down or not itself, as the faults of a history tell."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.core.history import History
from harness.core.op import Kind

FOREVER_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class Outage:
    """One fault on some nodes."""

    name: str
    nodes: frozenset[str]
    """() of a fault that is not of nodes, such as a partition: it may touch all."""
    touched_ns: int
    """When it was asked for."""
    down_ns: int
    """When its effect was seen; never, if it was not."""
    lifted_ns: int
    """When its end was asked for."""
    over_ns: int
    """When its end was seen."""

    def strikes(self, node: str) -> bool:
        """Whether it may touch this node."""
        return not self.nodes or node in self.nodes

    def near(self, begin_ns: int, end_ns: int, slack_ns: int) -> bool:
        """Whether a call between these times may feel it, or the `slack_ns` after it."""
        return begin_ns <= self.over_ns + slack_ns and end_ns >= self.touched_ns

    def spans(self, begin_ns: int, end_ns: int, settle_ns: int) -> bool:
        """Whether it was in force all through a call, and `settle_ns` before."""
        return self.down_ns + settle_ns <= begin_ns and end_ns <= self.lifted_ns


def outages(history: History) -> tuple[Outage, ...]:
    """Every fault that was tried, in order; one that failed before it touched anything is left
    out, and one that no end was seen of lasts for ever."""
    open_: dict[object, Outage] = {}
    out: list[Outage] = []
    asked_ns = 0
    for op in history.nemesis:
        if op.kind is Kind.INVOKE:
            asked_ns = op.time_ns
            continue
        value = op.value if isinstance(op.value, Mapping) else {}
        edge, number = value.get("edge"), value.get("fault")
        ok = op.kind is Kind.OK
        if edge == "heal" or op.f == "heal":
            over = op.time_ns if ok else FOREVER_NS
            lifted = [replace(o, lifted_ns=min(o.lifted_ns, asked_ns)) for o in open_.values()]
            out += [replace(outage, over_ns=over) for outage in lifted]
            open_.clear()
        elif edge == "end" and number in open_:
            lifted_one = replace(open_[number], lifted_ns=min(open_[number].lifted_ns, asked_ns))
            if ok:
                out.append(replace(open_.pop(number), lifted_ns=asked_ns, over_ns=op.time_ns))
            else:
                open_[number] = lifted_one
        elif edge in ("begin", "once") and op.kind is not Kind.FAIL:
            nodes = value.get("nodes")
            struck = frozenset(map(str, nodes)) if isinstance(nodes, list | tuple) else frozenset()
            down_ns = op.time_ns if ok and edge == "begin" else FOREVER_NS
            name = str(value.get("name", op.f))
            over_ns = op.time_ns if ok and edge == "once" else FOREVER_NS
            outage = Outage(name, struck, asked_ns, down_ns, over_ns, over_ns)
            if edge == "once" and ok:
                out.append(outage)
            else:
                open_[number] = outage
    return tuple(sorted((*out, *open_.values()), key=lambda o: o.touched_ns))
