"""What happened in a simulated run of a script, and what of it real servers repeat."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.core.history import History
from harness.core.link_quality import LinkFault
from harness.core.op import EXTEND, Call, Json, Kind, Process
from harness.generators.steps import NEMESIS_NUMBER
from harness.search.message_log import SERIAL, KeyMessage

OF_CALLS: Final = frozenset({"number", "commit", "select"})
"""Messages that a client's call sends before it ends."""
DELAYS: Final = frozenset({"pause", "partition", "slow-fetches", "clock-skew", *LinkFault})
"""Faults that only delay messages; those of ZooKeeper's servers stay."""
REAL: Final = frozenset({"kill", "restart", "stop-fetches", "pause", "partition"})
"""Faults that real servers have too."""
ENDS_SESSIONS: Final = frozenset({"kill", "partition", "pause"})
"""Faults that keep a replica from its ZooKeeper server."""
STARTS: Final = frozenset({"kill", "restart"})
"""Faults at whose end, or at once, a server is started."""
NODE: Final = re.compile(r"\b(?:ch|zk)\d+\b")
NEVER_NS: Final = 10**18
"""End of a call that did not end."""


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """A call or fault of the script, as it was made."""

    by: int
    call: Call
    begin_ns: int
    end_ns: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """What happened in a simulated run of a script."""

    calls: Sequence[SimulatedCall]
    messages: Sequence[KeyMessage]
    """In ZooKeeper's order."""

    @property
    def end_ns(self) -> int:
        """Return the time after which nothing belongs to the script: calls have ended, and replicas
        that a fault has started are active."""
        active = [
            min((m.effect_ns for m in self.messages if _becomes_active(m, node, ns)), default=0)
            for node, ns in _starts(self.calls)
        ]
        return max([0, *active, *(call.end_ns for call in self.calls if not call.call.nemesis)])


def calls_of(history: History, workers: int) -> Sequence[SimulatedCall]:
    """Return the calls and faults of a history up to its heal; `workers` as in `script_of`."""
    found: list[SimulatedCall] = []
    begun: dict[Process, int] = {}
    """Place of each process' call in flight."""
    healed = False
    for op in history:
        nemesis = isinstance(op.process, str)
        healed = healed or (nemesis and op.f == "heal")
        if op.kind is not Kind.INVOKE:
            place = begun.pop(op.process, None)
            if place is not None:
                found[place] = replace(found[place], end_ns=op.time_ns, kind=op.kind)
        elif not healed and op.f != EXTEND:
            by = NEMESIS_NUMBER if isinstance(op.process, str) else op.process % workers
            call = Call(f=op.f, value=op.value, key=op.key, node=op.node, nemesis=nemesis)
            begun[op.process] = len(found)
            found.append(SimulatedCall(by, call, op.time_ns, NEVER_NS, Kind.INFO))
    return found


def expected(red: PlayedRun) -> PlayedRun:
    """Return what of a run real servers repeat: the faults that stay, and the messages without
    those by which replicas become active again after faults that go."""
    calls = [call for call in red.calls if not call.call.nemesis or stays(call.call, red)]
    nodes = {node for node, _ in _starts(calls)}
    nodes |= {message.node for message in red.messages if message.lost_ns is not None}
    nodes |= {node for call in calls if edge_of(call.call) for node in nodes_of(call.call)}
    messages = [m for m in red.messages if m.what not in SERIAL or m.node in nodes]
    return PlayedRun(calls, messages)


def stays(call: Call, red: PlayedRun) -> bool:
    """Return whether a fault stays one in the script for real servers."""
    spans = [s for s in spans_of(red.calls) if _fault(s[0]) == _fault(call)]
    _, begin_ns, end_ns = spans[0] if spans else (call, 0, 0)
    keepers = of_keepers(call.value)
    if keepers and any(m.lost_ns and begin_ns <= m.lost_ns <= end_ns for m in red.messages):
        return False
    if call.f not in DELAYS:
        return True
    gone = [m for m in red.messages if m.what == "gone" and begin_ns < m.effect_ns < end_ns]
    return call.f in REAL and (keepers or any(ends_session(spans[0][0], m.node) for m in gone))


def ends_session(fault: Call, node: str) -> bool:
    """Return whether the session of a replica expires while a fault lasts."""
    if fault.f not in ENDS_SESSIONS or node not in nodes_of(fault):
        return False
    grudge = table_of(fault).get("grudge")
    if not isinstance(grudge, Mapping):
        return True
    cut = [{one, *_named(others)} for one, others in grudge.items()]
    return any(node in both and any(other.startswith("zk") for other in both) for both in cut)


def outlasted(run: PlayedRun) -> Sequence[KeyMessage]:
    """Return the messages by which replicas become active again and the ends of sessions, during
    which a call that ends ok is in flight."""
    return [
        message
        for message in run.messages
        if message.what in ("active", "gone")
        and any(
            call.begin_ns < message.effect_ns < call.end_ns
            for call in run.calls
            if call.kind is Kind.OK and not call.call.nemesis
        )
    ]


def of_keepers(value: object) -> bool:
    """Return whether a fault's value names a ZooKeeper server."""
    if not isinstance(value, Mapping):
        return False
    named = str(value.get("nodes", value.get("order", "")))
    return "zk" in named or value.get("role") == "zookeeper"


def _starts(calls: Sequence[SimulatedCall]) -> Sequence[tuple[str, int]]:
    """Return the replicas that faults start, and when."""
    return [
        (node, call.begin_ns)
        for call in calls
        if call.call.f in STARTS and edge_of(call.call) != "begin"
        for node in sorted(nodes_of(call.call))
    ]


def _becomes_active(message: KeyMessage, node: str, start_ns: int) -> bool:
    return (message.what, message.node) == ("active", node) and message.effect_ns > start_ns


def calls_that_send(message: KeyMessage, calls: Sequence[SimulatedCall]) -> Sequence[SimulatedCall]:
    """Return the calls of which one sends a message; none if a call does not send it."""
    if message.what not in OF_CALLS:
        return ()
    return [
        call
        for call in calls
        if call.call.node == message.node and not call.call.nemesis
        and call.begin_ns <= message.sent_ns and message.effect_ns <= call.end_ns
    ]  # fmt: skip


def spans_of(calls: Sequence[SimulatedCall]) -> Sequence[tuple[Call, int, int]]:
    """Return each fault that has an end, with the times of its begin and end."""
    ends = {_fault(c.call): c.begin_ns for c in reversed(calls) if edge_of(c.call) == "end"}
    return [
        (one.call, one.begin_ns, ends.get(_fault(one.call), NEVER_NS))
        for one in calls
        if edge_of(one.call) == "begin"
    ]


def table_of(fault: Call) -> Mapping[str, Json]:
    """Return the value of a fault."""
    assert isinstance(fault.value, Mapping), "the value of a fault is a table"
    return fault.value


def edge_of(call: Call) -> object:
    """Return the edge of a fault; None for a client's call."""
    return table_of(call)["edge"] if call.nemesis else None


def _fault(call: Call) -> tuple[str, object]:
    return call.f, table_of(call).get("fault")


def nodes_of(call: Call) -> set[str]:
    """Return the servers that a call or a fault names."""
    if not call.nemesis:
        return {call.node} if call.node else set()
    return _named({k: v for k, v in table_of(call).items() if k != "name"})


def _named(value: object) -> set[str]:
    return set(NODE.findall(str(value)))
