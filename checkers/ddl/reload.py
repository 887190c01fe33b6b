"""Checks configuration reloads of a running server: what it shows, against what was written.

Each node has a file, into which `write` puts generations, ever larger, one write at a time, and
which `write-broken` makes unreadable. A read shows the generations of a cluster and of a macro, of
ZooKeeper's root where the server shows it, and how long the server has been up. A generation is
*due* once its write has ended, and the server has reloaded since (an acknowledged `reload` that
began after the write), or `poll_s` have passed; provided that the file was whole throughout.

Violated:
stale      a read shows an older generation than the newest that was due when it began
future     a read shows a generation that was not yet written
backwards  a read shows an older generation than a read that had ended before it began
reloaded   ZooKeeper's root changed on a server that keeps it until it restarts
restarted  the server is younger than the run

Doubtful: no read had to show anything. After a fault has struck a node, its reads are judged for
what is in the future and nothing else, since the server may have restarted.

A read must show what was due when it began, not when it ended, for of two calls that overlap the
reload may come second:
    p0 write 2 → ok     p1 read begins     p0 reload → ok     p1 read → generation 1
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

import msgspec
from msgspec import UNSET, UnsetType

from checkers.availability.downtime import outages
from checkers.conclusion import Findings, anomaly
from checkers.look import decode
from checkers.phrasing import number, seconds
from harness.core.errors import HistoryError
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict

WRITE, BREAK, RELOAD, READ = "write", "write-broken", "reload", "read"
READS = frozenset({READ, "final-read"})


@dataclass(slots=True)
class _Generations:
    """State of one node, as far as the history shows it."""

    written: list[tuple[int, int]] = field(default_factory=list)
    """Generations, each with the time at which its write began."""
    settled: int = -1
    """The newest generation that every later read must show."""
    shown: int = -1
    """The newest generation that a read has shown."""
    whole: bool = True
    """True if the file can be parsed."""
    last: int = -1
    """Generation of the file whose write ended last."""
    last_ns: int = 0
    busy: int = 0
    """Number of writes in flight."""
    zookeeper: int | None = None
    """Generation that reads show of ZooKeeper on a server that does not reload it."""


class ShownConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """Look at the generations that a server shows, -1 where it shows none."""

    cluster: int
    clusters: int | UnsetType = UNSET
    """Number of clusters that are named after a generation."""
    macro: int
    zookeeper: int | UnsetType = UNSET
    """That of ZooKeeper's root."""
    zookeeper_hot: bool | UnsetType = UNSET
    """Whether the server reloads that one."""
    uptime_s: int


class Reload:
    """Judges the reads of each node's configuration, whose generations are written by "write" and
    broken by "write-broken"."""

    name = "reload"

    def __init__(self, *, poll_s: float = 6.0) -> None:
        self._poll_ns = round(poll_s * 1e9)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a read that had to show a generation."""
        faults = outages(history)
        nodes: dict[str, _Generations] = {}
        struck_ns: dict[str, float] = {}
        due: dict[int, tuple[Op, int, int]] = {}
        found = Findings(self.name)
        checked = 0
        for op in history:
            if not isinstance(op.process, int) or op.node is None:
                continue
            node = nodes.setdefault(op.node, _Generations())
            if op.kind is Kind.INVOKE:
                due[op.process] = op, self._invoked(node, op), node.shown
                continue
            invoke, must, shown = due.pop(op.process)
            pair = Pair(invoke, op, op.kind)
            if op.f in READS and op.kind is Kind.OK:
                if op.node not in struck_ns:
                    own = (fault.touched_ns for fault in faults if fault.strikes(op.node))
                    struck_ns[op.node] = min(own, default=inf)
                touched = struck_ns[op.node] <= op.time_ns
                checked += must >= 0 and not touched
                must = -1 if touched else must
                for kind, what in _wrong(node, pair, must, shown, touched=touched):
                    found.add_anomalies(kind, _witness(kind, pair, what))
            else:
                _ended(node, op, must)
        kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(found.counts.items()))
        return found.verdict(
            checked=checked,
            broken=kinds,
            nothing="nothing was due",
            held=f"{number(checked, 'read')} showed what was written, without a restart",
            figures={"faults": len(faults)},
        )

    def _invoked(self, node: _Generations, op: Op) -> int:
        """Return the generation that the call must show, or settles when it ends."""
        polled = node.whole and not node.busy and op.time_ns - node.last_ns > self._poll_ns
        if polled:
            node.settled = max(node.settled, node.last)
        if op.f in (WRITE, BREAK):
            node.busy += 1
            if op.f == WRITE:
                node.written.append((_generation(op), op.time_ns))
            else:
                node.whole = False
            return -1
        if op.f == RELOAD:
            return node.last if node.whole and not node.busy else -1
        return node.settled


def _ended(node: _Generations, op: Op, must: int) -> None:
    if op.f in (WRITE, BREAK):
        node.busy -= 1
        node.last_ns = op.time_ns
        if op.f == WRITE and op.kind is Kind.OK:
            node.last, node.whole = _generation(op), True
    elif op.f == RELOAD and op.kind is Kind.OK:
        node.settled = max(node.settled, must)


def _wrong(
    node: _Generations, pair: Pair, must: int, before: int, *, touched: bool
) -> Iterator[tuple[str, str]]:
    """Yield the kind of each anomaly of a read, and what the read shows. `before` is the newest
    generation that reads had shown when this one began."""
    assert pair.end is not None, "only answered reads are judged"
    look = decode(pair.end, ShownConfiguration)
    written = max((generation for generation, _ in node.written), default=-1)
    reloaded = {"cluster": look.cluster, "macro": look.macro}
    if look.zookeeper is not UNSET and look.zookeeper_hot:
        reloaded["zookeeper"] = look.zookeeper
    for what, shown in reloaded.items():
        if shown < must:
            yield "stale", f"the {what} of generation {shown}, {must} expected"
        if shown > written:
            yield "future", f"the {what} of generation {shown}, not written yet"
    if look.zookeeper is not UNSET and not look.zookeeper_hot:
        root = look.zookeeper
        kept = root if touched or node.zookeeper is None else node.zookeeper
        if root != kept:
            yield "reloaded", f"ZooKeeper's root of generation {root}, {kept} until a restart"
        node.zookeeper = root
    both = min(reloaded.values())
    if both < before and not touched:
        yield "backwards", f"generation {both}, {before} was seen before"
    node.shown = max(node.shown, both)
    # Seconds are whole, and the server is older than the run.
    if look.uptime_s + 1 < pair.invoke.time_ns / 1e9 and not touched:
        yield "restarted", f"the server is up for {look.uptime_s} s"


def _generation(op: Op) -> int:
    if not isinstance(op.value, int):
        raise HistoryError(f"op #{op.index}: a {op.f} of {op.value!r}, expected a generation")
    return op.value


def _witness(kind: str, pair: Pair, shown: str) -> Iterator[Anomaly]:
    assert pair.end is not None, "only answered reads are judged"
    yield anomaly(
        kind,
        f"op #{pair.end.index} {pair.invoke.f} on {pair.invoke.node} at "
        f"{seconds(pair.invoke.time_ns)} shows {shown}",
        pair,
        time_ns=pair.invoke.time_ns,
    )
