"""Checks that a replica's `is_active` disappears when the replica is away for a session, and
returns.

A replica is *away* from the begin of a verified fault to the call that ends it, if the fault killed
or paused it or cut it off from all of its ZooKeeper servers; a process that another fault started
is back then. ZooKeeper forgets it `timeout_s` later, and another `timeout_s` if it still hears the
replica, which hears nobody, because the replica must give up the session first. `slack_s` are
granted on top. A look is *due* if it began after all that and ended before the fault did.

Violated: a due look shows the replica as active ("still-active"); at rest, the last final look does
not show some replica ("not-back"). Doubtful: no look was due.

A new leader gives every session its whole timeout again. So no look is judged for another timeout
after a fault of ZooKeeper's own servers has begun or ended, nor while one goes on that may depose a
leader at any time or slows its clock. Without that this would be wrong, with a timeout of 5 s:
    kill ch1 at 0 s     restart zk1, the leader, at 4 s     look at 8 s → ch1 active
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from checkers.conclusion import Findings
from checkers.fault_edges import FaultEdge, edge_of
from checkers.look import decode
from checkers.phrasing import number, seconds
from checkers.quiescence import quiescence_of
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

OBSERVE, FINAL = "observe-active", "final-active"
PROCESS = ("kill", "pause", "memory-limit", "power-cut", "power-cut-torn")
"""Faults that stop a process for a time."""
STARTS = (
    *("kill", "restart", "upgrade", "memory-limit", "power-cut"),
    *("disk-", "empty-disk", "old-disk", "keeper-", "replace"),
)
"""Begins of the names of faults whose end, or all of which, starts processes."""


@dataclass(frozen=True, slots=True)
class Away:
    """A time in which a replica could not reach ZooKeeper at all."""

    node: str
    begin_ns: int
    end_ns: int
    heard: bool
    """True if ZooKeeper hears the replica, which hears nobody. Then it keeps the session until the
    replica gives it up."""
    op: Op
    """The op that began the fault, without its value."""
    text: str


class _Unrest:
    """Times in which sessions may live longer than their timeout."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        """Create it from (begin, end) pairs in order of the begins."""
        self._begins = [begin for begin, _ in spans]
        self._last_ends = list(accumulate((end for _, end in spans), max))

    def overlaps(self, begin_ns: int, end_ns: int) -> bool:
        """Return whether some of these times is between two others."""
        at = bisect_right(self._begins, end_ns)
        return at > 0 and begin_ns < self._last_ends[at - 1]


class ActiveReplicas(msgspec.Struct, frozen=True):
    """Look at the nodes "is_active"."""

    active: dict[str, bool] = {}
    """Whether each replica's is there."""
    keepers: dict[str, list[str]] = {}
    """ZooKeeper servers that each replica may read through."""


class Activity:
    """Judges the calls "observe-active" and, at rest, "final-active"."""

    name = "activity"

    def __init__(self, *, timeout_s: float, slack_s: float) -> None:
        self.timeout_s = timeout_s
        self.slack_s = slack_s

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a look at a replica that was away long enough."""
        looks = history.calls(OBSERVE, FINAL, kinds=(Kind.OK,))
        begins, ends = looks.spans
        keepers = _keepers(looks)
        aways = list(_aways(history, keepers))
        wait_s = self.timeout_s + self.slack_s
        unrest = _unrest(history, keepers, round((wait_s + self.timeout_s) * 1e9))
        found = Findings(self.name, counted=False)
        gone = 0
        for away in aways:
            from_ns = away.begin_ns + round((wait_s + self.timeout_s * away.heard) * 1e9)
            for at in range(bisect_left(begins, from_ns), bisect_right(begins, away.end_ns)):
                if ends[at] > away.end_ns or unrest.overlaps(begins[at], ends[at]):
                    continue
                gone += 1
                look = looks[at].end
                assert look is not None, "a look that was answered"
                if decode(look, ActiveReplicas).active.get(away.node):
                    _add_still(found, away, look, wait_s)
                    break
        final = history.calls(FINAL, kinds=(Kind.OK,))
        last = final[-1].end if final else None
        if last is not None and quiescence_of(history).reached:
            for node, there in decode(last, ActiveReplicas).active.items():
                if not there:
                    found.add_anomaly("not-back", f"{node} is not active at rest", last)
        held = f"{number(len(aways), 'time')} away, {number(gone, 'look')} in which it was gone"
        return found.verdict(
            checked=gone,
            nothing=f"{held}: no replica was away for longer than a session, while somebody looked",
            held=held,
            figures={"looks": len(looks), "away": len(aways), "judged": gone},
        )


def _keepers(looks: Iterable[Pair]) -> Mapping[str, frozenset[str]]:
    """Return the ZooKeeper servers of each replica, which are the same in every look."""
    first = next((pair.end for pair in looks if pair.end is not None), None)
    keepers = {} if first is None else decode(first, ActiveReplicas).keepers
    return {replica: frozenset(own) for replica, own in keepers.items()}


def _aways(history: History, keepers: Mapping[str, frozenset[str]]) -> Iterable[Away]:
    """Yield the times away: from the begin of a verified fault to the call that ended it, or that
    started a process which another fault had ended."""
    ends, faults = _ends(history), _faults(history)
    starts = _starts(faults)
    for op, value in faults:
        if op.kind is not Kind.OK or value.edge != "begin":
            continue
        # To the call of its end, not to its return: the replica may be back before that.
        end_ns = ends.get(value.fault, history[-1].time_ns)
        for node, heard in _struck(value, op.f, keepers):
            own = starts.get(node, []) if op.f in PROCESS else []
            at = bisect_right(own, op.time_ns)
            until_ns = min((end_ns, *own[at : at + 1]))
            yield Away(node, op.time_ns, until_ns, heard, op, value.text)


def _faults(history: History) -> list[tuple[Op, FaultEdge]]:
    """Return the ops of the nemesis, without values, and each edge with what its fault struck. Only
    the answer to a fault's begin names the leader or follower that it found; no end does."""
    struck: dict[int | None, FaultEdge] = {}
    edges: list[tuple[Op, FaultEdge]] = []
    for op in history.nemesis:
        value = edge_of(op)
        if op.kind is Kind.OK and value.edge in ("begin", "once"):
            struck[value.fault] = value
        if value != FaultEdge():
            edges.append((replace(op, value=None), value))
    return [(op, _with_struck(value, struck.get(value.fault, value))) for op, value in edges]


def _with_struck(value: FaultEdge, begin: FaultEdge) -> FaultEdge:
    nodes = value.nodes if begin.nodes is UNSET else begin.nodes
    grudge = value.grudge if begin.grudge is UNSET else begin.grudge
    return replace(value, nodes=nodes, grudge=grudge)


def _starts(faults: Iterable[tuple[Op, FaultEdge]]) -> dict[str, list[int]]:
    """Return the times at which the nemesis was asked to start a process, by node, ascending."""
    out: dict[str, list[int]] = {}
    for op, value in faults:
        starts = op.f.startswith(STARTS) or "-kill" in op.f
        if starts and (value.edge != "begin" or op.f in ("old-disk", "keeper-rewound")):
            for node in value.nodes or ():
                out.setdefault(node, []).append(op.time_ns)
    return out


def _ends(history: History) -> dict[int | None, int]:
    """Return when each fault was ended, by its number. A heal ends all."""
    out: dict[int | None, int] = {}
    begun: list[int | None] = []
    for op in history.nemesis:
        value = edge_of(op)
        if op.kind is Kind.OK and value.edge == "begin":
            begun.append(value.fault)
        if op.kind is Kind.INVOKE and value.edge == "end":
            out.setdefault(value.fault, op.time_ns)
        if op.kind is Kind.INVOKE and value.edge == "heal":
            for number_ in begun:
                out.setdefault(number_, op.time_ns)
    return out


def _unrest(history: History, keepers: Mapping[str, frozenset[str]], lasting_ns: int) -> "_Unrest":
    """Return when sessions may live longer: for some time after each begin and end of a fault of
    ZooKeeper's servers, and during faults that are neither of a process nor a cut. A fault that
    did not record its targets may have affected them."""
    servers = frozenset().union(*keepers.values()) if keepers else frozenset[str]()
    ends = _ends(history)
    out = []
    for op, value in _faults(history):
        cuts = (value.grudge or {}).items()
        apart = any(a in servers and b in servers for a, others in cuts for b in others)
        unnamed = bool(value.edge) and value.nodes is UNSET and value.grudge is UNSET
        if apart or not servers.isdisjoint(value.nodes or ()) or unnamed:
            brief = op.f in (*PROCESS, "restart", "partition", "heal")
            until_ns = op.time_ns if brief else ends.get(value.fault, op.time_ns)
            out.append((op.time_ns, max(op.time_ns, until_ns) + lasting_ns))
    return _Unrest(out)


def _struck(
    value: FaultEdge, f: str, keepers: Mapping[str, frozenset[str]]
) -> Iterable[tuple[str, bool]]:
    """Yield the replicas that the fault cuts off from ZooKeeper, and whether ZooKeeper still hears
    them."""
    if f in PROCESS:
        yield from ((node, False) for node in value.nodes or () if node in keepers)
    if f != "partition" or value.grudge is UNSET:
        return
    cut = {(a, b) for a, others in value.grudge.items() for b in others}
    for node, own in keepers.items():
        if own and all((node, k) in cut or (k, node) in cut for k in own):
            yield node, not all((k, node) in cut for k in own)


def _add_still(found: Findings, away: Away, look: Op, wait_s: float) -> None:
    text = (
        f"{away.node} is active in op #{look.index} at {seconds(look.time_ns)}, though away since "
        f"{seconds(away.begin_ns)} ({away.text}), more than {wait_s:g} s"
    )
    found.add_anomaly("still-active", text, away.op, look)
