"""Translation of a simulated run into steps for real servers: faults at moments in place of times.

What makes a simulated run red is the order in which a few messages took effect. A *constraint* is
that one message takes effect after another of another replica, or after a client's call. The order
of most messages is that of any run; so the script is also run without its faults under other seeds,
and a constraint is

1. an order of two conflicting messages that is rare there, or not the usual one and about the same
   parts, or
2. an order of two conflicting messages of which the first is held back by another constraint: what
   usually follows from their times does not follow then.

3. A part that a replica announces while a select of its own is between the choice of parts and the
   look for the last one, if that is rare: the select is sent, the part is announced, the select
   goes on.

The steps hold back the later message of each constraint with a rule of its replica's proxy, wait
until the earlier one was answered, and release it. A message whose connection was lost is held back
too, and its connection is cut. Calls begin and end in the order of the simulated run.

Pauses, cut links, lost packets and slow fetches of replicas only delay messages, and constraints
replace them, unless a session ends meanwhile. Faults of ZooKeeper's servers by which messages were
lost are replaced by the cuts. Kills and restarts of replicas, stopped fetches, and other faults of
ZooKeeper's servers stay, at their places between the messages. A replica that is started is not
waited for, because what it sends before it answers may be held back.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Final

from harness.core.history import History
from harness.core.op import Call, Json, Kind, Process
from harness.generators.script import Do, Joined, ScriptStep
from harness.generators.steps import NEMESIS_NUMBER
from harness.run.message_log import NUMBERED, SERIAL, KeyMessage
from harness.run.scripted import ScriptedRun
from harness.run.stepwise import node_step, rule_step
from nemesis.message_rules import NAME

USUAL: Final = 0.75
"""Share of the other runs in which an order is the usual one."""
RARE: Final = 0.25
"""Share below which an order is rare. Others that are not usual, such as which of two replicas is
the first to fetch, are constraints only if they are about the parts of a rare one."""
AWAITED: Final = frozenset({"assign", "commit", "fail", "lose", "number", "part"})
"""Messages that every call or fault which begins later waits for."""
OF_CALLS: Final = frozenset({"number", "commit", "select"})
"""Messages that a client's call sends before it ends."""
DELAYS: Final = frozenset({"pause", "partition", "loss", "slow-fetches", "clock-skew"})
"""Faults that only delay messages; those of ZooKeeper's servers stay."""
REAL: Final = frozenset({"kill", "restart", "stop-fetches", "pause", "partition"})
"""Faults that real servers have too."""
STARTS: Final = frozenset({"kill", "restart"})
"""Faults at whose end, or at once, a server is started."""
NODE: Final = re.compile(r"\b(?:ch|zk)\d+\b")
MERGED: Final = re.compile(r"_[1-9]\d*$")
"""The end of the name of a part that was merged, which depends on the parts that were there."""
TIME_LIMIT_S: Final = 120
SIMULATED: Final = frozenset({"bug", "cluster", "nemesis", "protocol", "seed", "time-limit"})
"""Options that only a simulated run has, or that the translation chooses."""
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


@dataclass(frozen=True, slots=True)
class Constraint:
    """The message `later` takes effect after `earlier`."""

    earlier: KeyMessage
    later: KeyMessage
    why: str
    sent: bool = False
    """True if it takes effect after `earlier` was sent, which may take effect later."""

    def __str__(self) -> str:
        sent = " is sent" if self.sent else ""
        return f"{self.earlier.name}{sent} < {self.later.name} ({self.why})"


@dataclass(frozen=True, slots=True)
class Translation:
    """A script for real servers, and the constraints that it enforces."""

    run: ScriptedRun
    constraints: Sequence[Constraint]


def _starts(calls: Sequence[SimulatedCall]) -> Sequence[tuple[str, int]]:
    """Return the replicas that faults start, and when."""
    return [
        (node, call.begin_ns)
        for call in calls
        if call.call.f in STARTS and _edge(call.call) != "begin"
        for node in sorted(_nodes_of(call.call))
    ]


def _becomes_active(message: KeyMessage, node: str, start_ns: int) -> bool:
    return (message.what, message.node) == ("active", node) and message.effect_ns > start_ns


def expected(red: PlayedRun) -> PlayedRun:
    """Return what of a run real servers repeat: the faults that stay, and the messages without
    those by which replicas become active again after faults that go."""
    calls = [call for call in red.calls if not call.call.nemesis or stays(call.call, red)]
    nodes = {node for node, _ in _starts(calls)}
    nodes |= {message.node for message in red.messages if message.lost_ns is not None}
    nodes |= {node for call in calls if _edge(call.call) for node in _nodes_of(call.call)}
    messages = [m for m in red.messages if m.what not in SERIAL or m.node in nodes]
    return PlayedRun(calls, messages)


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
        elif not healed:
            by = NEMESIS_NUMBER if isinstance(op.process, str) else op.process % workers
            call = Call(f=op.f, value=op.value, key=op.key, node=op.node, nemesis=nemesis)
            begun[op.process] = len(found)
            found.append(SimulatedCall(by, call, op.time_ns, NEVER_NS, Kind.INFO))
    return found


def constraints_of(red: PlayedRun, others: Sequence[PlayedRun]) -> Sequence[Constraint]:
    """Return the constraints of a run; `others` are runs of its script without its faults, under
    other seeds."""
    pairs = [
        (one, other)
        for one, other in combinations(red.messages, 2)
        if one.conflicts(other)
        and one.rule and other.rule and one.lost != "request" and other.lost != "request"
        # A ZooKeeper server that lags answers a select by an old state: the fault stays.
        and one.effect_ns <= other.effect_ns
        and not _ordered_by_calls(one, other, red.calls)
        and not (other.what in OF_CALLS and other.effect_ns > red.end_ns)  # of final reads
    ]  # fmt: skip
    usual = UsualOrder(others)
    shares = {
        (one.name, other.name): (usual(one.name, other.name), one, other)
        for one, other in pairs
        if one.effect_ns <= red.end_ns
    }
    rare = {m.part for share, *both in shares.values() if share < RARE for m in both}
    found = {
        names: Constraint(one, other, "unusual order")
        for names, (share, one, other) in shares.items()
        if share < (USUAL if {one.part, other.part} <= rare else RARE)
        and (other.effect_ns <= red.end_ns or usual.sent(other.name) > USUAL)
    }
    within = [
        (select, part)
        for part, select in pairs
        if (part.what, select.what) == ("part", "select") and part.node == select.node
        and _begin_ns(select, red) < part.effect_ns
        and usual.within(select.name, part.name) < RARE
    ]  # fmt: skip
    found |= {
        (part.name, select.name): Constraint(part, select, "within a select")
        for select, part in within
    }
    held: set[str] = {constraint.later.name for constraint in found.values()}
    for one, other in pairs:  # in ZooKeeper's order, so that once is enough
        if one.effect_ns > red.end_ns:
            continue
        if one.name in held and (one.name, other.name) not in found and other.what != "number":
            found[one.name, other.name] = Constraint(one, other, "the first is held back")
            held.add(other.name)
    return [
        *_reduced(list(found.values())),
        *(Constraint(select, part, "within a select", sent=True) for select, part in within),
    ]


def _ordered_by_calls(one: KeyMessage, other: KeyMessage, calls: Sequence[SimulatedCall]) -> bool:
    """Return whether the call that sends the second message begins after the end of the one that
    sends the first."""
    ends_ns = [call.end_ns for call in _calls_of(one, calls)]
    begins_ns = [call.begin_ns for call in _calls_of(other, calls)]
    return bool(ends_ns and begins_ns) and max(ends_ns) < min(begins_ns)


def _calls_of(message: KeyMessage, calls: Sequence[SimulatedCall]) -> Sequence[SimulatedCall]:
    """Return the calls of which one sends a message; none if a call does not send it."""
    if message.what not in OF_CALLS:
        return ()
    return [
        call
        for call in calls
        if call.call.node == message.node and not call.call.nemesis
        and call.begin_ns <= message.sent_ns and message.effect_ns <= call.end_ns
    ]  # fmt: skip


class UsualOrder:
    """How often one message takes effect before another in other runs."""

    def __init__(self, others: Sequence[PlayedRun]) -> None:
        self._runs = others
        self._messages = [{message.name: message for message in run.messages} for run in others]

    def __call__(self, earlier: str, later: str) -> float:
        """Return the share of those runs in which both are sent; 0 if there is none."""
        both = self._of(earlier, later)
        return sum(one.state < other.state for one, other in both) / len(both) if both else 0.0

    def sent(self, name: str) -> float:
        """Return the share of those runs in which a message is sent."""
        return sum(name in run for run in self._messages) / max(1, len(self._messages))

    def within(self, select: str, part: str) -> float:
        """Return the share of those in which a part is announced while a select is under way."""
        both = [
            _begin_ns(named[select], run) < named[part].effect_ns < named[select].effect_ns
            for run, named in zip(self._runs, self._messages, strict=True)
            if select in named and part in named
        ]
        return sum(both) / len(both) if both else 0.0

    def _of(self, first: str, second: str) -> Sequence[tuple[KeyMessage, KeyMessage]]:
        runs = self._messages
        return [(run[first], run[second]) for run in runs if first in run and second in run]


def _begin_ns(select: KeyMessage, run: PlayedRun) -> int:
    """Return when the call that sends a message has begun; its parts are chosen later, and may be
    chosen before the message is sent."""
    begins_ns = [call.begin_ns for call in _calls_of(select, run.calls)]
    return max(begins_ns, default=select.sent_ns)


def _reduced(constraints: Sequence[Constraint]) -> Sequence[Constraint]:
    """Return the constraints without those that follow from others."""
    after: dict[str, set[str]] = {}
    for one in constraints:
        after.setdefault(one.earlier.name, set()).add(one.later.name)
    serial = sorted(
        {one.later.name: one.later for one in constraints if one.later.what in SERIAL}.values(),
        key=lambda message: (message.node, message.state),
    )
    for message, following in pairwise(serial):  # of one thread
        if message.node == following.node:
            after.setdefault(message.name, set()).add(following.name)

    def reaches(start: str, goal: str, without: tuple[str, str]) -> bool:
        left, seen = [start], {start}
        while left:
            name = left.pop()
            for following in after.get(name, ()):
                if (name, following) == without or following in seen:
                    continue
                if following == goal:
                    return True
                seen.add(following)
                left.append(following)
        return False

    return [
        one
        for one in constraints
        if not reaches(one.earlier.name, one.later.name, (one.earlier.name, one.later.name))
    ]


def steps_of(red: PlayedRun, constraints: Sequence[Constraint]) -> Sequence[ScriptStep]:
    """Return the steps that play a run under these constraints."""
    lost = {m.name: m for m in red.messages if m.lost}
    held = {one.later.name: one.later for one in constraints} | lost
    held |= {one.earlier.name: one.earlier for one in constraints if one.sent}
    awaited = {m.name: m for c in constraints if (m := c.earlier).name not in held}
    for message in red.messages:
        alone = message.what in AWAITED and message.name not in held and not message.lost
        if alone and _found_later(message, red.calls):
            awaited[message.name] = message
    replicas = sorted({message.node for message in red.messages})
    steps: list[ScriptStep] = [
        *(_installed("hold", message, replicas) for message in held.values()),
        *(_installed("count", m, replicas) for m in awaited.values() if _unrepeated(m)),
    ]
    events: list[tuple[int, int, Sequence[ScriptStep]]] = [
        *_calls_events(red),
        *_sessions_events(red),
    ]
    events += [
        (message.sent_ns - 1, 0, [_installed("count", message, replicas)])
        for message in awaited.values()
        if not _unrepeated(message)  # those before it do not count
    ]
    places: Mapping[str, int] = {message.name: at for at, message in enumerate(red.messages)}
    sent_ns = {
        one.earlier.name: one.later.effect_ns - 1 for one in reversed(constraints) if one.sent
    }
    for name, message in (*held.items(), *awaited.items()):
        nodes, place = _nodes(message, replicas), places[name]
        wait = [rule_step("await", name, nodes)]
        if message.effect_ns > red.end_ns:
            wait = []  # it may never come, and nothing waits for it
        own = list(wait)
        if name in sent_ns:
            events.append((sent_ns[name], place, wait))
            own = []
        if name in lost:
            assert message.lost_ns is not None, "a lost message has the time of its loss"
            # What ends because of the loss ends after it.
            events.append((message.lost_ns - 1, place, [*own, rule_step("cut", name, nodes)]))
            continue
        if name in held:
            own.append(rule_step("release", name, nodes))
        events.append((message.effect_ns, place, own))
    events.sort(key=lambda event: event[:2])
    return _trimmed([*steps, *(step for _, _, some in events for step in some)])


def _found_later(message: KeyMessage, calls: Sequence[SimulatedCall]) -> bool:
    """Return whether a call or a fault begins later that may find what a message has changed, and
    that no call's end tells to wait for it."""
    if message.what in ("assign", "fail", "lose"):
        return any(message.effect_ns < call.begin_ns for call in calls)
    if message.what == "part":
        return not MERGED.search(message.part) and any(
            message.effect_ns < call.begin_ns and message.node in _nodes_of(call.call)
            for call in calls
        )
    ends_ns = min((call.end_ns for call in _calls_of(message, calls)), default=NEVER_NS)
    return any(message.effect_ns < call.begin_ns < ends_ns for call in calls)


def _unrepeated(message: KeyMessage) -> bool:
    return message.number == 1 or message.what in NUMBERED


def _calls_events(red: PlayedRun) -> Sequence[tuple[int, int, Sequence[ScriptStep]]]:
    """Return the begins and ends of calls and faults."""
    events: list[tuple[int, int, Sequence[ScriptStep]]] = []
    restless = {(m.lost_ns, m.node) for m in red.messages if m.lost_ns is not None}
    restless |= {(m.effect_ns, m.node) for m in red.messages if m.what == "gone"}
    """Replicas that lost their session or were started, and when: the next call waits for them."""
    for place, call in enumerate(red.calls):
        ends = (Kind.OK,) if call.kind is Kind.OK else (Kind.OK, Kind.FAIL, Kind.INFO)
        own, nodes = call.call, _nodes_of(call.call)
        if own.nemesis:
            if own.f in STARTS and not _of_keepers(own.value):
                if _edge(own) != "begin":
                    restless |= {(call.begin_ns, node) for node in nodes}
                own = Call(f=own.f, value={**_table(own), "answers": False}, nemesis=True)
            events.append((call.begin_ns, place, [Do(own, call.by, ends)]))
            continue
        over = {one for one in restless if one[0] < call.begin_ns and one[1] in nodes}
        restless -= over
        waits = [node_step("answers", node) for node in sorted({node for _, node in over})]
        if call.kind is not Kind.OK:
            waits = []  # it may have failed because the replica was not ready
        events.append((call.begin_ns, place, [*waits, Do(own, call.by, ends, wait=False)]))
        events.append((min(call.end_ns, red.end_ns + 1), place, [Joined(call.by)]))
    return events


def _sessions_events(red: PlayedRun) -> Sequence[tuple[int, int, Sequence[ScriptStep]]]:
    """Return the ends of sessions that a fault brings about."""
    return [
        (message.effect_ns, 0, [node_step("expired", message.node)])
        for message in red.messages
        if message.what == "gone" and message.effect_ns <= red.end_ns
        and any(
            begin_ns < message.effect_ns < end_ns and message.node in _nodes_of(call)
            for call, begin_ns, end_ns in _spans(red.calls)
        )
    ]  # fmt: skip


def _spans(calls: Sequence[SimulatedCall]) -> Sequence[tuple[Call, int, int]]:
    """Return each fault that has an end, with the times of its begin and end."""
    ends = {_fault(c.call): c.begin_ns for c in reversed(calls) if _edge(c.call) == "end"}
    return [
        (one.call, one.begin_ns, ends.get(_fault(one.call), NEVER_NS))
        for one in calls
        if _edge(one.call) == "begin"
    ]


def _table(fault: Call) -> Mapping[str, Json]:
    assert isinstance(fault.value, Mapping), "the value of a fault is a table"
    return fault.value


def _edge(call: Call) -> object:
    return _table(call)["edge"] if call.nemesis else None


def _fault(call: Call) -> tuple[str, object]:
    return call.f, _table(call).get("fault")


def _nodes_of(call: Call) -> set[str]:
    """Return the servers that a call or a fault names."""
    if not call.nemesis:
        return {call.node} if call.node else set()
    return set(NODE.findall(str({k: v for k, v in _table(call).items() if k != "name"})))


def _trimmed(steps: Sequence[ScriptStep]) -> Sequence[ScriptStep]:
    """Return the steps without waits for a client that has no call in flight."""
    out: list[ScriptStep] = []
    busy: Counter[int] = Counter()
    for step in steps:
        if isinstance(step, Joined) and step.by is not None:
            if not busy.pop(step.by, 0):
                continue
        elif isinstance(step, Do) and not step.call.nemesis:
            busy[step.by] += 1
        out.append(step)
    return out


def _nodes(message: KeyMessage, replicas: Sequence[str]) -> str | list[str]:
    return list(replicas) if message.anybody else message.node


def _installed(do: str, message: KeyMessage, replicas: Sequence[str]) -> Do:
    fields: dict[str, Json] = {"channel": "zookeeper", "side": "request", "op": "write"}
    if do == "hold":
        fields["alone"] = True
        fields["side"] = message.lost or "request"
    if message.number > 1 and message.what in NUMBERED:
        fields["skip"] = message.number - 1
    return rule_step(do, message.name, _nodes(message, replicas), **{**fields, **message.rule})


def translated(
    script: ScriptedRun, red: PlayedRun, constraints: Sequence[Constraint]
) -> Translation:
    """Return the script for real servers of what is expected of a simulated run."""
    families = [
        str(call.call.value["name"])
        for call in red.calls
        if isinstance(call.call.value, dict) and call.call.nemesis and "name" in call.call.value
    ]
    nemesis = ",".join(dict.fromkeys((NAME, *families)))
    options = {n: v for n, v in script.options.items() if n not in SIMULATED}
    options |= {"cluster": "docker", "nemesis": nemesis, "time-limit": str(TIME_LIMIT_S)}
    if options.get("read") in ("server", "sync", "linearizable", "thesis"):
        options["read"] = "sequential"
    steps = steps_of(red, constraints)
    return Translation(ScriptedRun(options, (), tuple(steps)), constraints)


def stays(call: Call, red: PlayedRun) -> bool:
    """Return whether a fault stays one in the script for real servers."""
    spans = [s for s in _spans(red.calls) if _fault(s[0]) == _fault(call)]
    _, begin_ns, end_ns = spans[0] if spans else (call, 0, 0)
    keepers = _of_keepers(call.value)
    if keepers and any(m.lost_ns and begin_ns <= m.lost_ns <= end_ns for m in red.messages):
        return False
    if call.f not in DELAYS:
        return True
    gone = [m for m in red.messages if m.what == "gone" and begin_ns < m.effect_ns < end_ns]
    return call.f in REAL and (keepers or any(m.node in _nodes_of(spans[0][0]) for m in gone))


def _of_keepers(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    named = str(value.get("nodes", value.get("order", "")))
    return "zk" in named or value.get("role") == "zookeeper"


def without_rule(run: ScriptedRun, name: str) -> ScriptedRun:
    """Return a script for real servers without the steps of a rule."""
    steps = [step for step in run.steps if rule_of(step) != name]
    return replace(run, steps=tuple(steps))


def rule_of(step: ScriptStep) -> str | None:
    """Return the name of the rule of a step; None if it has none."""
    if isinstance(step, Do) and step.call.f == NAME and isinstance(step.call.value, Mapping):
        return str(step.call.value["rule"]) if "rule" in step.call.value else None
    return None
