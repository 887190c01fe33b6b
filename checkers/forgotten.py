"""What ZooKeeper may have forgotten, because faults took a server's disk and kept others apart.

A committed transaction is on the disks of most servers. It stays committed when one of these disks
is taken, as long as the servers that have it go on together. If another server lacks it, because a
fault keeps it apart, that one and the server with the empty disk are most of the servers as well,
and elect a leader that has never seen it:
    zk1 cut off, a part is registered by zk2 and zk3, the disk of zk2 is taken, zk3 cut off in
    place of zk1: zk1 and zk2 go on without the part
No replica is promised to learn of such a part.

An older copy of all their disks that is put back takes everything that came after it, see
`rewinds`.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from checkers.fault_edges import FaultEdge, edge_of
from checkers.quiescence import quiescence_of
from harness.core.history import History, memoize_per_history
from harness.core.op import Kind


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that struck servers of ZooKeeper, from its invocation to its end."""

    name: str
    servers: frozenset[str]
    begin_ns: int
    end_ns: float
    takes: bool
    """Whether it took something from their disks."""


def forgotten_by(history: History, since_ns: int) -> str:
    """Return the name of a fault by which ZooKeeper may have forgotten what it committed since
    then; "" if it may not."""
    strikes = strikes_of(history)
    for took in strikes:
        if not took.takes or took.end_ns < since_ns:
            continue
        for other in strikes:
            apart = other is not took and bool(other.servers - took.servers)
            if apart and other.begin_ns <= took.end_ns and since_ns <= other.end_ns:
                return took.name
    return ""


@dataclass(frozen=True, slots=True)
class Rewind:
    """A copy of the disks of all ZooKeeper servers that was put back."""

    asked_ns: int
    """When the copy was asked for: it has what was there before."""
    begin_ns: int
    """When the servers ran again beside their copy. What came later was forgotten."""
    end_ns: int
    """When the servers were about to be killed, to be started with the copy."""
    over_ns: int
    """When they ran on the copy."""


@memoize_per_history
def rewinds(history: History) -> tuple[Rewind, ...]:
    """Return each time that ZooKeeper was put back to an older copy."""
    asked = [op.time_ns for op in history.nemesis if op.kind is Kind.INVOKE]
    return tuple(
        Rewind(
            fault.invoked_ns,
            fault.begin_ns,
            asked[bisect_right(asked, fault.end_ns) - 1],
            fault.end_ns,
        )
        for fault in history.faults
        if fault.name.startswith("keeper-rewound") and fault.end_ns is not None
    )


@memoize_per_history
def strikes_of(history: History) -> tuple[Strike, ...]:
    """Return the faults that struck ZooKeeper, also those whose effect was not seen. A replica and
    a server of ZooKeeper that do not hear each other strike ZooKeeper, too: more than is needed,
    and never less."""
    return tuple(_strikes(history))


def _strikes(history: History) -> Iterator[Strike]:
    replicas = frozenset(quiescence_of(history).nodes)
    open_: dict[object, Strike] = {}
    invoked_ns = 0
    for op in history.nemesis:
        value = edge_of(op)
        if op.kind is Kind.INVOKE:
            invoked_ns = op.time_ns
        elif value.edge in ("begin", "once") and op.kind is not Kind.FAIL:
            servers = _struck(value) - replicas
            if servers:
                strike = Strike(value.name or op.f, servers, invoked_ns, inf, bool(value.takes))
                yield from _ended(open_, value.fault, op.time_ns)
                open_[value.fault] = strike
        elif value.edge == "end" and op.kind is Kind.OK:
            yield from _ended(open_, value.fault, op.time_ns)
        elif value.edge == "heal" and op.kind is Kind.OK:
            for fault in [*open_]:
                yield from _ended(open_, fault, op.time_ns)
    yield from open_.values()


def _ended(open_: dict[object, Strike], fault: object, at_ns: int) -> Iterator[Strike]:
    strike = open_.pop(fault, None)
    if strike is not None:
        yield Strike(strike.name, strike.servers, strike.begin_ns, at_ns, strike.takes)


def _struck(value: FaultEdge) -> frozenset[str]:
    return frozenset([*(value.nodes or ()), *(value.grudge or ())])
