"""Translation of a simulated run into steps for real servers: faults at moments in place of times.

What makes a simulated run red is the order in which a few messages took effect. The steps hold back
the later message of each constraint (harness/search/constraints.py) with a rule of its replica's
proxy, wait until the earlier one was answered, and release it. A message whose connection was lost
is held back too, and its connection is cut. Calls begin and end in the order of the simulated run.

Pauses, cut links, lost packets and slow fetches of replicas only delay messages, and constraints
replace them, unless a session ends meanwhile. Faults of ZooKeeper's servers by which messages were
lost are replaced by the cuts. Kills and restarts of replicas, stopped fetches, and other faults of
ZooKeeper's servers stay, at their places between the messages. A replica that is started is not
waited for, because what it sends before it answers may be held back.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.core.op import Call, Json, Kind
from harness.generators.script import Do, Joined, ScriptStep
from harness.generators.steps import NEMESIS_NUMBER
from harness.run.scripted import ScriptedRun
from harness.run.stepwise import node_step, rule_step
from harness.search.constraints import Constraint
from harness.search.message_log import NUMBERED, KeyMessage
from harness.search.played_run import (
    NEVER_NS,
    STARTS,
    PlayedRun,
    SimulatedCall,
    calls_that_send,
    edge_of,
    ends_session,
    nodes_of,
    of_keepers,
    outlasted,
    spans_of,
    table_of,
)
from harness.spec.option import Chooser, On
from harness.spec.run_options import OPTIONS
from nemesis.message_rules import NAME

AWAITED: Final = frozenset({"assign", "commit", "fail", "lose", "number", "part"})
"""Messages that every call or fault which begins later waits for."""
MERGED: Final = re.compile(r"_(\d+)_(?!\1_)\d+_[1-9]\d*$")
"""The end of the name of a part that was merged from several, which depends on the parts that were
there."""
STOPPED: Final = "stop-fetches-one"
TIME_LIMIT_S: Final = 120


@dataclass(frozen=True, slots=True)
class Translation:
    """A script for real servers, and the constraints that it enforces."""

    run: ScriptedRun
    constraints: Sequence[Constraint]


def steps_of(red: PlayedRun, constraints: Sequence[Constraint]) -> Sequence[ScriptStep]:
    """Return the steps that play a run under these constraints."""
    lost = {m.name: m for m in red.messages if m.lost}
    held = {one.later.name: one.later for one in constraints if one.earlier} | lost
    held |= {one.earlier.name: one.earlier for one in constraints if one.earlier and one.sent}
    awaited = _awaited(red, constraints, held)
    replicas = sorted({message.node for message in red.messages})
    steps: list[ScriptStep] = [
        *(_installed("hold", message, replicas) for message in _last_first(held)),
        *(_installed("count", m, replicas) for m in _last_first(awaited) if _unrepeated(m)),
    ]
    events: list[tuple[int, int, Sequence[ScriptStep]]] = [
        *_calls_events(red),
        *_sessions_events(red),
    ]
    counts: dict[str, list[ScriptStep]] = {}
    """Rules that are installed before a held message is released, by its name."""
    for message in awaited.values():
        if _unrepeated(message):
            continue
        if released := _looked_for(message, held, lost):
            counts.setdefault(released, []).append(_installed("count", message, replicas))
        else:
            events.append(_counted_again(message, awaited, replicas))
    listens = _listening(red, held)
    places: Mapping[str, int] = {message.name: at for at, message in enumerate(red.messages)}
    sent_ns = {
        one.earlier.name: one.later.effect_ns - 1
        for one in reversed(constraints)
        if one.earlier and one.sent
    }
    for name, message in (*held.items(), *awaited.items()):
        nodes, place = _nodes(message, replicas), places[name]
        wait = [*listens.get(name, ()), rule_step("await", name, nodes)]
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
            own += [*counts.get(name, ()), rule_step("release", name, nodes)]
        events.append((message.effect_ns, place, own))
    events.sort(key=lambda event: event[:2])
    return _trimmed([*steps, *(step for _, _, some in events for step in some)])


def _awaited(
    red: PlayedRun, constraints: Sequence[Constraint], held: Mapping[str, KeyMessage]
) -> Mapping[str, KeyMessage]:
    """Return the messages that the script waits for and does not hold back, by name."""
    awaited = {m.name: m for c in constraints if (m := c.earlier) and m.name not in held}
    for message in red.messages:
        alone = message.what in AWAITED and message.name not in held and not message.lost
        if alone and _found_later(message, red.calls):
            awaited[message.name] = message
    return awaited


def _looked_for(
    message: KeyMessage, held: Mapping[str, KeyMessage], lost: Collection[str]
) -> str | None:
    """Return the held message of a replica after whose release another looks at its queue, so that
    its rule must be there before: an OPTIMIZE looks once, milliseconds later."""
    before = [
        one
        for one in held.values()
        if one.effect_ns < message.sent_ns and one.node == message.part and one.name not in lost
    ]
    return max(before, key=lambda one: one.effect_ns).name if before else None


def _listening(
    red: PlayedRun, held: Mapping[str, KeyMessage]
) -> Mapping[str, Sequence[ScriptStep]]:
    """Return steps that come before a held message is awaited. A replica that becomes active during
    a call takes queries by then, as simulated ones do as soon as they are started: OPTIMIZE returns
    at once, and its client asks every replica for its parts. A server of 18.16 takes none before it
    is active or has given up to be."""
    return {
        message.name: [node_step("listens", message.node)]
        for message in outlasted(red)
        if message.what == "active" and message.name in held and not message.lost
    }


def _counted_again(
    message: KeyMessage, awaited: Mapping[str, KeyMessage], replicas: Sequence[str]
) -> tuple[int, int, Sequence[ScriptStep]]:
    """Return when to install the rule that counts a message that is like others before it, which do
    not count: once the one before it was awaited, whose rule matches it as well; or as late as
    possible."""
    install = _installed("count", message, replicas)
    name, _, _ = message.name.partition(" #")
    before = awaited.get(name if message.number == 2 else f"{name} #{message.number - 1}")
    if before is None:
        return message.sent_ns - 1, 0, [install]
    remove = rule_step("release", before.name, _nodes(before, replicas))
    return before.effect_ns + 1, 0, [remove, install]


def _last_first(messages: Mapping[str, KeyMessage]) -> Sequence[KeyMessage]:
    """Return messages in the order in which their rules are installed: of those that are known by
    their number the last one first. A proxy obeys the first rule that matches, and the rule of the
    second block number matches the third as well."""
    return sorted(messages.values(), key=lambda m: -m.number if m.what in NUMBERED else 0)


def _found_later(message: KeyMessage, calls: Sequence[SimulatedCall]) -> bool:
    """Return whether a call or a fault begins later that may find what a message has changed, and
    that no call's end tells to wait for it."""
    if message.what in ("assign", "fail", "lose"):
        return any(message.effect_ns < call.begin_ns for call in calls)
    if message.what == "part":
        return not MERGED.search(message.part) and any(
            message.effect_ns < call.begin_ns and message.node in nodes_of(call.call)
            for call in calls
        )
    ends_ns = min((call.end_ns for call in calls_that_send(message, calls)), default=NEVER_NS)
    return any(message.effect_ns < call.begin_ns < ends_ns for call in calls)


def _unrepeated(message: KeyMessage) -> bool:
    """Return whether the rule of a message may be there from the beginning, because nothing before
    it is like it. A server that waits for others looks at their queues whenever it wants."""
    return message.what != "look" and (message.number == 1 or message.what in NUMBERED)


def _calls_events(red: PlayedRun) -> Sequence[tuple[int, int, Sequence[ScriptStep]]]:
    """Return the begins and ends of calls and faults."""
    events: list[tuple[int, int, Sequence[ScriptStep]]] = []
    restless = {(m.lost_ns, m.node) for m in red.messages if m.lost_ns is not None}
    restless |= {(m.effect_ns, m.node) for m in red.messages if m.what == "gone"}
    """Replicas that lost their session or were started, and when: the next call waits for them."""
    for place, call in enumerate(red.calls):
        ends = (Kind.OK,) if call.kind is Kind.OK else (Kind.OK, Kind.FAIL, Kind.INFO)
        own, nodes = call.call, nodes_of(call.call)
        if own.nemesis:
            if own.f in STARTS and not of_keepers(own.value):
                if edge_of(own) != "begin":
                    restless |= {(call.begin_ns, node) for node in nodes}
                own = Call(f=own.f, value={**table_of(own), "answers": False}, nemesis=True)
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
            begin_ns < message.effect_ns < end_ns and ends_session(call, message.node)
            for call, begin_ns, end_ns in spans_of(red.calls)
        )
    ]  # fmt: skip


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
    lacking = {one.later.node for one in constraints if one.earlier is None}
    red = replace(red, calls=[*_stopped_fetches(sorted(lacking)), *red.calls])
    families = [
        str(call.call.value["name"])
        for call in red.calls
        if isinstance(call.call.value, dict) and call.call.nemesis and "name" in call.call.value
    ]
    nemesis = ",".join(dict.fromkeys((NAME, *families)))
    options = {
        name: value
        for name, value in script.options.items()
        if OPTIONS[name].option.on is not On.SIMULATED
        and Chooser.TRANSLATION not in OPTIONS[name].option.chosen_by
    }
    options |= {"cluster": "docker", "nemesis": nemesis, "time-limit": str(TIME_LIMIT_S)}
    if options.get("read") in ("server", "sync", "linearizable", "thesis"):
        options["read"] = "sequential"
    steps = steps_of(red, constraints)
    return Translation(ScriptedRun(options, (), tuple(steps)), constraints)


def _stopped_fetches(nodes: Sequence[str]) -> Sequence[SimulatedCall]:
    """Return the fault that keeps parts from these replicas. To hold back what they announce would
    end their sessions."""
    if not nodes:
        return ()
    value: dict[str, Json] = {"fault": 0, "edge": "begin", "name": STOPPED, "nodes": [*nodes]}
    call = Call(f="stop-fetches", value=value, nemesis=True)
    return [SimulatedCall(NEMESIS_NUMBER, call, -1, 0, Kind.OK)]


def without_rules(run: ScriptedRun, names: Collection[str]) -> ScriptedRun:
    """Return a script for real servers without the steps of some rules."""
    steps = [step for step in run.steps if rule_of(step) not in names]
    return replace(run, steps=tuple(steps))


def alike(run: ScriptedRun, name: str) -> Sequence[str]:
    """Return the rules that real servers will not meet either if they do not meet this one: if it
    counts a message by its number, all that do so for messages of its kind."""
    counted = [
        (str(value["rule"]), str(value["rule"]).split()[1:2])
        for step in run.steps
        if rule_of(step) and isinstance(step, Do) and isinstance(value := step.call.value, Mapping)
        if value["do"] == "count" and "skip" in value
    ]
    kinds = [kind for rule, kind in counted if rule == name]
    return [rule for rule, kind in counted if kind in kinds] or [name]


def rule_of(step: ScriptStep) -> str | None:
    """Return the name of the rule of a step; None if it has none."""
    if isinstance(step, Do) and step.call.f == NAME and isinstance(step.call.value, Mapping):
        return str(step.call.value["rule"]) if "rule" in step.call.value else None
    return None
