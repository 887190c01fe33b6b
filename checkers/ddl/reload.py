"""Checks configuration reloads of a running server: what it shows, against what was written."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from checkers.availability.downtime import outages
from checkers.conclusion import conclude
from checkers.phrasing import FEW, number, seconds
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


class Reload:
    """Each node's generations of a configuration, written by `write` (value: the generation, ever
    larger), or broken by `write-broken`; read as {"cluster": c, "macro": m, "uptime_s": u}, -1
    where the server shows none, and "zookeeper": z, "zookeeper_hot": whether the server reloads
    that one.

    stale: a read shows an older generation than the newest whose write ended before an
    acknowledged reload, or `poll_s` before the read, as long as the file was whole throughout;
    future: one that was not written; backwards: an older one than a read that had ended before
    this one began; reloaded: the one of ZooKeeper changed on a server that keeps it until it
    restarts; restarted: the server is younger than a fault of its node, or than the run. One
    write of a node is in flight at a time. A node that a fault has struck is not judged for
    staleness any more."""

    name = "reload"

    def __init__(self, *, poll_s: float = 6.0) -> None:
        self._poll_ns = round(poll_s * 1e9)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a read that had to show a generation."""
        faults = outages(history)
        nodes: dict[str, _Generations] = {}
        struck_ns: dict[str, float] = {}
        due: dict[int, tuple[Op, int, int]] = {}
        wrong: list[tuple[str, Pair, str]] = []
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
                wrong += _read(node, pair, -1 if touched else must, shown, touched=touched)
            else:
                _ended(node, op, must)
        kinds = Counter(kind for kind, _, _ in wrong)
        return Verdict(
            checker=self.name,
            status=conclude(wrong, checked=checked),
            summary=_summary(kinds, checked),
            checked=checked,
            anomalies=tuple(_anomaly(*one) for one in wrong[:FEW]),
            figures={"anomalies": dict(kinds), "faults": len(faults)},
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


def _read(
    node: _Generations, pair: Pair, must: int, before: int, *, touched: bool
) -> list[tuple[str, Pair, str]]:
    """Return the anomalies of a read. `before` is the newest generation that reads had shown when
    this one began."""
    assert pair.end is not None, "only answered reads are judged"
    value = pair.end.value
    answer = value if isinstance(value, Mapping) else {}
    shows = {what: at for what, at in answer.items() if isinstance(at, int)}
    if not {"cluster", "macro", "uptime_s"} <= shows.keys():
        raise HistoryError(
            f"op #{pair.end.index}: an ok read has value {value!r}; expected the numbers cluster, "
            "macro and uptime_s"
        )
    out: list[tuple[str, Pair, str]] = []
    written = max((generation for generation, _ in node.written), default=-1)
    hot = "zookeeper" in shows and bool(shows.get("zookeeper_hot"))
    reloaded = ("cluster", "macro", "zookeeper") if hot else ("cluster", "macro")
    for what in reloaded:
        shown = shows[what]
        if shown < must:
            out.append(("stale", pair, f"the {what} of generation {shown}, {must} expected"))
        if shown > written:
            out.append(("future", pair, f"the {what} of generation {shown}, not written yet"))
    if not hot and "zookeeper" in shows:
        kept = shows["zookeeper"] if touched or node.zookeeper is None else node.zookeeper
        if shows["zookeeper"] != kept:
            text = f"ZooKeeper's root of generation {shows['zookeeper']}, {kept} until a restart"
            out.append(("reloaded", pair, text))
        node.zookeeper = shows["zookeeper"]
    both = min(shows[what] for what in reloaded)
    if both < before and not touched:
        out.append(("backwards", pair, f"generation {both}, {before} was seen before"))
    node.shown = max(node.shown, both)
    # Seconds are whole, and the server is older than the run.
    if shows["uptime_s"] + 1 < pair.invoke.time_ns / 1e9 and not touched:
        out.append(("restarted", pair, f"the server is up for {shows['uptime_s']} s"))
    return out


def _generation(op: Op) -> int:
    if not isinstance(op.value, int):
        raise HistoryError(f"op #{op.index}: a {op.f} of {op.value!r}, expected a generation")
    return op.value


def _summary(kinds: Mapping[str, int], checked: int) -> str:
    if kinds:
        return ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))
    reads = number(checked, "read")
    return f"{reads} showed what was written, without a restart" if checked else "nothing was due"


def _anomaly(kind: str, pair: Pair, shown: str) -> Anomaly:
    assert pair.end is not None, "only answered reads are judged"
    return Anomaly(
        kind=kind,
        text=f"op #{pair.end.index} {pair.invoke.f} on {pair.invoke.node} at "
        f"{seconds(pair.invoke.time_ns)} shows {shown}",
        ops=(pair.invoke.index, pair.end.index),
        time_ns=pair.invoke.time_ns,
    )
