"""Translation of a simulated run into steps for real servers: faults at moments in place of times.

What makes a simulated run red is the order in which a few messages took effect. A *constraint* is
that one message takes effect after another of another replica, or after a client's call. The order
of most messages is that of any run; so the script is also run without its faults under other seeds,
and a constraint is

1. an order of two conflicting messages that is rare there, or not the usual one and about the same
   parts, or
2. an order of two conflicting messages of which the first is held back by another constraint: what
   usually follows from their times does not follow then.

The steps hold back the later message of each constraint with a rule of its replica's proxy, wait
until the earlier one was answered, and release it. Calls begin and end in the order of the
simulated run. Pauses, cut links, lost packets and slow fetches of replicas only delay messages, and
constraints replace them. Kills and restarts of replicas, stopped fetches, and faults of ZooKeeper's
servers stay, at their places between the messages.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from harness.core.history import History
from harness.core.op import Call, Json, Kind, Process
from harness.generators.script import Do, Joined, ScriptStep
from harness.generators.steps import NEMESIS_NUMBER
from harness.run.message_log import KeyMessage
from harness.run.scripted import ScriptedRun
from harness.run.stepwise import rule_step
from nemesis.message_rules import NAME

USUAL: Final = 0.75
"""Share of the other runs in which an order is the usual one."""
RARE: Final = 0.25
"""Share below which an order is rare. Others that are not usual, such as which of two replicas is
the first to fetch, are constraints only if they are about the parts of a rare one."""
AWAITED: Final = frozenset({"number", "commit", "part"})
"""Messages that every call which begins later waits for."""
DELAYS: Final = frozenset({"pause", "partition", "loss", "slow-fetches", "clock-skew"})
"""Faults that only delay messages; those of ZooKeeper's servers stay."""
REAL: Final = frozenset({"kill", "restart", "stop-fetches", "pause", "partition"})
"""Faults that real servers have too."""
TIME_LIMIT_S: Final = 60
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
        """Return the time after which nothing belongs to the script."""
        return max([0, *(call.end_ns for call in self.calls if not call.call.nemesis)])


@dataclass(frozen=True, slots=True)
class Constraint:
    """The message `later` takes effect after `earlier`."""

    earlier: KeyMessage
    later: KeyMessage
    why: str

    def __str__(self) -> str:
        return f"{self.earlier.name} < {self.later.name} ({self.why})"


@dataclass(frozen=True, slots=True)
class Translation:
    """A script for real servers, and the constraints that it enforces."""

    run: ScriptedRun
    constraints: Sequence[Constraint]


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
        if one.node != other.node and one.conflicts(other)
    ]
    usual = UsualOrder(others)
    shares = {
        (one.name, other.name): (usual(one.name, other.name), one, other)
        for one, other in pairs
        if other.effect_ns <= red.end_ns
    }
    rare = {m.part for share, *both in shares.values() if share < RARE for m in both}
    found = {
        names: Constraint(one, other, "unusual order")
        for names, (share, one, other) in shares.items()
        if share < (USUAL if {one.part, other.part} <= rare else RARE)
    }
    held: set[str] = {constraint.later.name for constraint in found.values()}
    for one, other in pairs:  # in ZooKeeper's order, so that once is enough
        if one.effect_ns > red.end_ns:
            continue
        if one.name in held and (one.name, other.name) not in found and other.what != "number":
            found[one.name, other.name] = Constraint(one, other, "the first is held back")
            held.add(other.name)
    return _reduced(list(found.values()))


class UsualOrder:
    """How often one message takes effect before another in other runs."""

    def __init__(self, others: Sequence[PlayedRun]) -> None:
        self._places = [
            {message.name: at for at, message in enumerate(run.messages)} for run in others
        ]

    def __call__(self, earlier: str, later: str) -> float:
        """Return the share of those runs in which both are sent; 0 if there is none."""
        both = [places for places in self._places if earlier in places and later in places]
        first = sum(places[earlier] < places[later] for places in both)
        return first / len(both) if both else 0.0


def _reduced(constraints: Sequence[Constraint]) -> Sequence[Constraint]:
    """Return the constraints without those that follow from others."""
    after: dict[str, set[str]] = {}
    for one in constraints:
        after.setdefault(one.earlier.name, set()).add(one.later.name)

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
    held = {one.later.name: one.later for one in constraints}
    awaited = {m.name: m for c in constraints if (m := c.earlier).name not in held}
    begins = sorted((c.begin_ns, place) for place, c in enumerate(red.calls))
    last_begin_ns = begins[-1][0] if begins else 0
    for message in red.messages:
        alone = message.what in AWAITED and message.name not in held
        if alone and message.effect_ns < last_begin_ns:
            awaited[message.name] = message
    steps: list[ScriptStep] = [
        *(_installed("hold", message) for message in held.values()),
        *(_installed("count", message) for message in awaited.values()),
    ]
    events: list[tuple[int, int, Sequence[ScriptStep]]] = []
    for place, call in enumerate(red.calls):
        wait = call.call.nemesis
        ends = (Kind.OK,) if call.kind is Kind.OK else (Kind.OK, Kind.FAIL, Kind.INFO)
        events.append((call.begin_ns, place, [Do(call.call, call.by, ends, wait)]))
        if not wait:
            events.append((min(call.end_ns, red.end_ns + 1), place, [Joined(call.by)]))
    places: Mapping[str, int] = {message.name: at for at, message in enumerate(red.messages)}
    for name, message in (*held.items(), *awaited.items()):
        own = [rule_step("await", message.name, message.node, **_count(message))]
        if message.effect_ns > red.end_ns:
            own = []  # it may never come, and nothing waits for it
        if name in held:
            own.append(rule_step("release", message.name, message.node))
        events.append((message.effect_ns, places[name], own))
    events.sort(key=lambda event: event[:2])
    return _trimmed([*steps, *(step for _, _, some in events for step in some)])


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


def _count(message: KeyMessage) -> dict[str, Json]:
    return {"messages": message.number} if message.what == "number" and message.number > 1 else {}


def _installed(do: str, message: KeyMessage) -> Do:
    fields: dict[str, Json] = {"channel": "zookeeper", "side": "request", "op": "write"}
    alone: dict[str, Json] = {"alone": True} if do == "hold" else {}
    return rule_step(do, message.name, message.node, **{**fields, **message.rule, **alone})


def translated(
    script: ScriptedRun, red: PlayedRun, constraints: Sequence[Constraint]
) -> Translation:
    """Return the script of a simulated run for real servers."""
    kept = [call for call in red.calls if not call.call.nemesis or stays(call.call)]
    families = [
        str(call.call.value["name"])
        for call in kept
        if isinstance(call.call.value, dict) and call.call.nemesis and "name" in call.call.value
    ]
    nemesis = ",".join(dict.fromkeys((NAME, *families)))
    options = {n: v for n, v in script.options.items() if n not in SIMULATED}
    options |= {"cluster": "docker", "nemesis": nemesis, "time-limit": str(TIME_LIMIT_S)}
    if options.get("read") in ("server", "linearizable", "thesis"):
        options["read"] = "sequential"
    steps = steps_of(replace(red, calls=kept), constraints)
    return Translation(ScriptedRun(options, (), tuple(steps)), constraints)


def stays(call: Call) -> bool:
    """Return whether a fault stays one in the script for real servers."""
    return call.f not in DELAYS or (call.f in REAL and _of_keepers(call.value))


def _of_keepers(value: object) -> bool:
    return isinstance(value, Mapping) and "zk" in str(value.get("nodes", value.get("order", "")))


def without_rule(run: ScriptedRun, name: str) -> ScriptedRun:
    """Return a script for real servers without the steps of a rule."""
    steps = [step for step in run.steps if rule_of(step) != name]
    return replace(run, steps=tuple(steps))


def rule_of(step: ScriptStep) -> str | None:
    """Return the name of the rule of a step; None if it has none."""
    if isinstance(step, Do) and step.call.f == NAME and isinstance(step.call.value, Mapping):
        return str(step.call.value["rule"])
    return None
