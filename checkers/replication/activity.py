"""Checks that a replica's `is_active` disappears when the replica is away for a session, and
returns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from checkers.conclusion import conclude, mapping_of
from checkers.phrasing import FEW, number, seconds
from checkers.quiescence import quiescence_of
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict

OBSERVE, FINAL = "observe-active", "final-active"
PROCESS = ("kill", "pause")
"""Faults that stop a process for a time."""


@dataclass(frozen=True, slots=True)
class Away:
    """A time in which a replica could not reach ZooKeeper at all."""

    node: str
    begin_ns: int
    end_ns: int
    heard: bool
    """True if ZooKeeper hears the replica, which hears nobody. Then it keeps the session until the
    replica gives it up."""
    op: int
    text: str


class Activity:
    """Judges the calls "observe-active" and, at rest, "final-active": {"active": {node: whether
    its is_active is there}, "keepers": {node: [the ZooKeeper servers it may read through]}}.

    A replica that was killed, paused, or cut off from all its ZooKeeper servers, is gone
    `timeout_s` + `slack_s` later: a look that begins after that and ends before the fault does
    must not show it ("still-active"). A new leader gives every session its whole timeout again:
    so no look is judged for another timeout after a fault of ZooKeeper's own servers has begun or
    ended, nor while one goes on that may depose a leader at any time or slows its clock. At rest
    every replica is there ("not-back").
    """

    name = "activity"

    def __init__(self, *, timeout_s: float, slack_s: float) -> None:
        self.timeout_s = timeout_s
        self.slack_s = slack_s

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a look at a replica that was away long enough."""
        looks = [
            pair
            for pair in history.pairs
            if pair.invoke.f in (OBSERVE, FINAL) and pair.kind is Kind.OK and pair.end is not None
        ]
        keepers = _keepers(looks)
        aways = list(_aways(history, keepers))
        wait_s = self.timeout_s + self.slack_s
        unrest = _unrest(history, keepers, round((wait_s + self.timeout_s) * 1e9))
        gone, broken = 0, []
        for away in aways:
            from_ns = away.begin_ns + round((wait_s + self.timeout_s * away.heard) * 1e9)
            for pair in looks:
                assert pair.end is not None, "a look that was answered"
                if pair.invoke.time_ns < from_ns or pair.end.time_ns > away.end_ns:
                    continue
                if any(
                    begin <= pair.end.time_ns and pair.invoke.time_ns < end for begin, end in unrest
                ):
                    continue
                gone += 1
                if _active(pair.end).get(away.node):
                    broken.append(_still(away, pair.end, wait_s))
                    break
        final = [pair.end for pair in looks if pair.invoke.f == FINAL and pair.end is not None]
        if final and quiescence_of(history).reached:
            broken += [
                _anomaly("not-back", f"{node} is not active at rest", final[-1], ())
                for node, there in _active(final[-1]).items()
                if not there
            ]
        summary = f"{number(len(aways), 'time')} away, {number(gone, 'look')} in which it was gone"
        return Verdict(
            checker=self.name,
            status=conclude(broken, checked=gone),
            summary=broken[0].text
            if broken
            else summary
            if gone
            else f"{summary}: no replica was away for longer than a session, while somebody looked",
            checked=gone,
            anomalies=tuple(broken[:FEW]),
            figures={"looks": len(looks), "away": len(aways), "judged": gone},
        )


def _active(op: Op) -> Mapping[str, bool]:
    found = mapping_of(op).get("active")
    return found if isinstance(found, Mapping) else {}


def _keepers(looks: list[Pair]) -> dict[str, frozenset[str]]:
    for pair in looks:
        assert pair.end is not None, "a look that was answered"
        found = mapping_of(pair.end).get("keepers")
        if isinstance(found, Mapping):
            return {str(node): frozenset(own) for node, own in found.items()}
    return {}


def _aways(history: History, keepers: Mapping[str, frozenset[str]]) -> Iterable[Away]:
    """Yield the times away: from the begin of a verified fault to the call that ended it, or that
    started a process which another fault had ended."""
    ends, faults = _ends(history), _faults(history)
    for op, value in faults:
        if op.kind is not Kind.OK or value.get("edge") != "begin":
            continue
        # To the call of its end, not to its return: the replica may be back before that.
        end_ns = ends.get(value.get("fault"), history[-1].time_ns)
        for node, heard in _struck(value, op.f, keepers):
            starts = _starts(faults, node, op.time_ns) if op.f in PROCESS else ()
            until_ns = min((end_ns, *starts))
            yield Away(node, op.time_ns, until_ns, heard, op.index, str(value.get("text", "")))


def _faults(history: History) -> list[tuple[Op, Mapping[str, Any]]]:
    """Return the ops of the nemesis, and the value of each with what its fault struck. Only the
    answer to a fault's begin names the leader or follower that it found; no end does."""
    struck: dict[object, Mapping[str, Any]] = {}
    for op in history.nemesis:
        value = mapping_of(op)
        if op.kind is Kind.OK and value.get("edge") in ("begin", "once"):
            found = {key: value[key] for key in ("nodes", "grudge") if key in value}
            struck[value.get("fault")] = found
    values = ((op, mapping_of(op)) for op in history.nemesis)
    return [(op, {**value, **struck.get(value.get("fault"), {})}) for op, value in values]


def _starts(
    faults: Iterable[tuple[Op, Mapping[str, Any]]], node: str, after_ns: int
) -> Iterable[int]:
    """Yield the times at which the nemesis was asked to start a process of this node."""
    for op, value in faults:
        begins = op.f == "restart" or (op.f == "kill" and value.get("edge") == "end")
        if begins and node in _nodes(value) and op.time_ns > after_ns:
            yield op.time_ns


def _ends(history: History) -> dict[object, int]:
    """Return when each fault was ended, by its number. A heal ends all."""
    out: dict[object, int] = {}
    begun: list[object] = []
    for op in history.nemesis:
        value = mapping_of(op)
        if op.kind is Kind.OK and value.get("edge") == "begin":
            begun.append(value.get("fault"))
        if op.kind is Kind.INVOKE and value.get("edge") == "end":
            out.setdefault(value.get("fault"), op.time_ns)
        if op.kind is Kind.INVOKE and value.get("edge") == "heal":
            for number_ in begun:
                out.setdefault(number_, op.time_ns)
    return out


def _unrest(
    history: History, keepers: Mapping[str, frozenset[str]], lasting_ns: int
) -> list[tuple[int, int]]:
    """Return when sessions may live longer: for some time after each begin and end of a fault of
    ZooKeeper's servers, and during faults that are neither of a process nor a cut. A fault that
    did not record its targets may have affected them."""
    servers = frozenset().union(*keepers.values()) if keepers else frozenset[str]()
    ends = _ends(history)
    out = []
    for op, value in _faults(history):
        grudge = value.get("grudge")
        cuts = grudge.items() if isinstance(grudge, Mapping) else ()
        apart = any(a in servers and b in servers for a, others in cuts for b in others)
        unnamed = "edge" in value and value.keys().isdisjoint(("nodes", "grudge"))
        if apart or not servers.isdisjoint(_nodes(value)) or unnamed:
            brief = op.f in (*PROCESS, "restart", "partition", "heal")
            until_ns = op.time_ns if brief else ends.get(value.get("fault"), op.time_ns)
            out.append((op.time_ns, max(op.time_ns, until_ns) + lasting_ns))
    return out


def _nodes(value: Mapping[str, Any]) -> list[str]:
    return [str(node) for node in value.get("nodes") or ()]


def _struck(
    value: Mapping[str, Any], f: str, keepers: Mapping[str, frozenset[str]]
) -> Iterable[tuple[str, bool]]:
    """Yield the replicas that the fault cuts off from ZooKeeper, and whether ZooKeeper still hears
    them."""
    if f in PROCESS:
        yield from ((node, False) for node in _nodes(value) if node in keepers)
    grudge = value.get("grudge")
    if f != "partition" or not isinstance(grudge, Mapping):
        return
    cut = {(a, str(b)) for a, others in grudge.items() for b in others}
    for node, own in keepers.items():
        if own and all((node, k) in cut or (k, node) in cut for k in own):
            yield node, not all((k, node) in cut for k in own)


def _still(away: Away, op: Op, wait_s: float) -> Anomaly:
    return _anomaly(
        "still-active",
        f"{away.node} is active in op #{op.index} at {seconds(op.time_ns)}, though away since "
        f"{seconds(away.begin_ns)} ({away.text}), more than {wait_s:g} s",
        op,
        (away.op,),
    )


def _anomaly(kind: str, text: str, op: Op, more: tuple[int, ...]) -> Anomaly:
    return Anomaly(kind=kind, text=text, ops=tuple(sorted({*more, op.index})), time_ns=op.time_ns)
