"""What faults of disks took, and what was never promised to survive that.

An acknowledged insert is promised to be on a number of replicas, its copies: on the one that
acknowledged it, and for a quorum insert on others. A fault that strikes the disks of all of them
takes the value, and no checker calls it lost. The promise holds for every other value: of too few
struck disks, of a disk that was struck before the insert began, and of a value that a replica whose
disk was not struck has shown.

Whether what was not synced survives a power cut is a matter of settings. A plain insert promises
no more than its server does by default, which is nothing before the kernel has written the part.
A quorum insert that power cuts take is lost, and the triage names the setting
(`checkers.triage.unsynced`).
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf
from typing import Final

from checkers.fault_edges import FaultEdge, edge_of
from checkers.phrasing import listed, number
from checkers.quiescence import quiescence_of
from harness.core.disk_loss import Takes
from harness.core.history import History, memoize_per_history
from harness.core.op import Kind
from harness.core.ranges import AUTO, Quorum, majority

SYNCED_INSERTS: Final = ("inserts", "all")
"""Values of --fsync with which servers sync a part before they acknowledge its insert."""


@dataclass(frozen=True, slots=True)
class Take:
    """A fault that took something from the disk of one replica."""

    node: str
    name: str
    """Name of the nemesis, such as "power-cut-clickhouse-one"."""
    takes: Takes
    begin_ns: int
    """When it was invoked."""
    since_ns: int
    until_ns: float
    """Values that the replica got from the one time to the other may have been taken."""
    fsync: str
    """What the server syncs; "" if that was not recorded."""

    @property
    def spares_inserts(self) -> bool:
        """Return whether a part survives on the replica that acknowledged its insert."""
        return self.takes is Takes.UNSYNCED and self.fsync in SYNCED_INSERTS


class Taken:
    """What the faults of a history took."""

    def __init__(self, takes: Iterable[Take]) -> None:
        self.takes = tuple(sorted(takes, key=lambda take: take.begin_ns))

    def __bool__(self) -> bool:
        return bool(self.takes)

    def struck(self, begin_ns: int, end_ns: int) -> dict[str, Take]:
        """Return the replicas whose disks may have lost a value that was inserted between these
        times, each with the first fault that may have taken it."""
        met = (t for t in reversed(self.takes) if begin_ns <= t.until_ns and t.since_ns <= end_ns)
        return {take.node: take for take in met if not take.spares_inserts}

    def interrupts(self, node: str, from_ns: int, to_ns: int) -> bool:
        """Return whether a replica may have lost, between these times, what it had."""
        return any(
            take.node == node and take.begin_ns <= to_ns and from_ns <= take.until_ns
            for take in self.takes
        )

    def reason(
        self,
        writers: Collection[str | None],
        begin_ns: int,
        end_ns: int,
        *,
        copies: int = 1,
        shown_on: Collection[str] = (),
    ) -> str:
        """Return the name of the fault that took an acknowledged value, which was not promised to
        survive it; "" if the promise holds.

        `writers` are the nodes that were asked to insert it between these times. One of them has
        it, and nobody knows which if there are several: a try that was refused as a duplicate is
        acknowledged, too. `shown_on` are nodes that have returned it.
        """
        struck = {
            node: take
            for node, take in self.struck(begin_ns, end_ns).items()
            if take.takes is not Takes.UNSYNCED or copies == 1
        }
        took = [struck[node].name for node in writers if node in struck]
        if not took or len(struck) < copies or not struck.keys() >= {*shown_on}:
            return ""
        return took[0] if len(writers) > 1 or len(took) == len(writers) else ""


def copies_of(promised: Quorum, replicas: int) -> int:
    """Return the number of replicas that have an acknowledged insert with this quorum."""
    return majority(replicas) if promised == AUTO else max(promised, 1)


def not_promised(reasons: Collection[str]) -> str:
    """Return the end of a summary: what faults took, by their names, a value each."""
    if not reasons:
        return ""
    names = listed(sorted({*reasons}))
    return (
        f"; {number(len(reasons), 'more')} taken by {names} from the only disks that had to have it"
    )


def fetching_again(history: History) -> frozenset[str]:
    """Return the replicas that a fault of disks struck and that refused a call at rest. A replica
    notices only when it is asked that it cannot read a part, removes it, and fetches it again."""
    struck = {take.node for take in taken_of(history).takes}
    since_ns = quiescence_of(history).at_ns or 0
    last = takewhile(
        lambda p: p.invoke.time_ns >= since_ns, reversed(history.pairs if struck else ())
    )
    return frozenset(
        str(pair.invoke.node)
        for pair in last
        if pair.invoke.node in struck and pair.kind is not Kind.OK
    )


@memoize_per_history
def taken_of(history: History) -> Taken:
    """Return what faults took from replicas, by the entry "takes" of the ops that began them. One
    whose effect was not seen may have struck all the same. What a fault takes from a ZooKeeper
    server is no copy of a value."""
    replicas = frozenset(quiescence_of(history).nodes)
    found: list[Take] = []
    open_: dict[object, list[Take]] = {}

    def end(takes: Iterable[Take], at_ns: int) -> None:
        lasting = (Takes.UNREADABLE, Takes.NEWER)
        found.extend(replace(t, until_ns=at_ns) if t.takes in lasting else t for t in takes)

    invoked_ns = 0
    for op in history.nemesis:
        value = edge_of(op)
        edge, number_of = value.edge, value.fault
        if op.kind is Kind.INVOKE:
            invoked_ns = op.time_ns
        elif edge == "begin" and op.kind is not Kind.FAIL:
            takes = _takes(value, op.f, invoked_ns, op.time_ns)
            open_.setdefault(number_of, []).extend(t for t in takes if t.node in replicas)
        elif edge == "end" and op.kind is Kind.OK:
            end(open_.pop(number_of, ()), op.time_ns)
        elif edge == "heal" and op.kind is Kind.OK:
            for begun in open_.values():
                end(begun, op.time_ns)
            open_.clear()
    return Taken((*found, *(take for begun in open_.values() for take in begun)))


def _takes(value: FaultEdge, f: str, invoked_ns: int, seen_ns: int) -> Iterator[Take]:
    takes = next((one for one in Takes if one == value.takes), None)
    if takes is None:
        return
    since_ns = invoked_ns if takes is Takes.NEWER else -1
    until_ns = seen_ns if takes in (Takes.UNSYNCED, Takes.ALL) else inf
    for node in value.nodes or ():
        name = value.name or f
        yield Take(node, name, takes, invoked_ns, since_ns, until_ns, value.fsync)
