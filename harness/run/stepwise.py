"""Steps of scripted runs: each begins when the one before it is over.

    steps = [
      { hold = "read", on = "ch2", op = "get", words = ["/quorum/last_part"], alone = true },
      { by = 0, on = "ch1", f = "insert", key = 0, value = 1, wait = false },
      { await = "read", on = "ch2" },
      { by = 1, on = "ch3", f = "read", key = 0, ends = ["ok", "fail"] },
      { release = "read", on = "ch2" },
      { join = 0 },
      { answers = "ch1" },
      { fault = "kill", value = { fault = 1, edge = "begin", name = …, nodes = ["ch1"] } },
      { rest = 7.0 },
      { by = 0, on = "ch1", f = "insert", key = 0, value = 2, until = "ok" },
    ]

hold, count, await,          do that with a rule of a replica's proxy, or of each of several
release, cut                 (nemesis/message_rules.py, compose/images/pod/pod_proxy.py), whose name
                             follows
answers, listens, expired    wait until a replica answers and takes inserts; until it answers; until
                             its ZooKeeper session has ended
a call of a client           wait = false: the next step begins with it; ends: the ends that it may
                             have, any other breaks the script off; until: it is repeated until it
                             ends ok ("ok"), or returns all of these values
fault                        a fault begins, or ends
join                         wait for the calls of a client, or of "all"
rest                         a pause in seconds
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.core.errors import UsageError
from harness.core.op import Call, Json, Kind
from harness.core.ranges import shortened
from harness.generators.script import Do, Joined, Rest, ScriptStep, Until
from harness.generators.steps import NEMESIS_NUMBER
from harness.run.script_calls import CALL_FIELDS, call_fields, call_of, line_of, toml
from nemesis.message_rules import ACTIONS, NAME, RULE_FIELDS, STATES
from workloads.scenarios.steps import Ended, Shows

RULE_DEFAULTS: Final[Mapping[str, Json]] = {
    "channel": "zookeeper",
    "side": "request",
    "op": "write",
}
UNTIL_PAUSE_S: Final = 0.1
UNTIL_TRIES: Final = 600
ENDS: Final = (Kind.OK, Kind.FAIL, Kind.INFO)


def rule_step(do: str, name: str, node: str | list[str], **rule: Json) -> Do:
    """Return a step with a rule of a proxy, or of several."""
    return _own_step(
        {"do": do, "node": [*node] if isinstance(node, list) else node, "rule": name, **rule}
    )


def node_step(do: str, node: str) -> Do:
    """Return a step that waits for a state of a replica."""
    return _own_step({"do": do, "node": node})


def _own_step(plan: dict[str, Json]) -> Do:
    value: dict[str, Json] = {"edge": "once", "name": NAME, **plan}
    return Do(Call(f=NAME, value=value, nemesis=True), by=NEMESIS_NUMBER)


def steps_calls(steps: Sequence[ScriptStep]) -> Sequence[tuple[int, Call]]:
    """Return the client and the call of each step that has one."""
    own = [step for step in steps if isinstance(step, Do | Until)]
    return [(NEMESIS_NUMBER if one.call.nemesis else one.by, one.call) for one in own]


def steps_in(raw: Sequence[object]) -> tuple[ScriptStep, ...]:
    """Return the steps of a file. Raises UsageError."""
    return tuple(_step_of(number, one) for number, one in enumerate(raw, 1))


def steps_text(steps: Sequence[ScriptStep]) -> list[str]:
    """Return each step as a table on one line."""
    return [_line(step) for step in steps]


def _step_of(number: int, raw: object) -> ScriptStep:
    if not isinstance(raw, dict):
        raise UsageError(f"step {number}: {shortened(raw)}: expected a table")
    if raw.keys() == {"join"}:
        by = raw["join"]
        if by == "all" or (type(by) is int and by >= 0):
            return Joined(None if by == "all" else by)
        raise UsageError(f'step {number}: join = {shortened(by)}: expected a client, or "all"')
    if raw.keys() == {"rest"}:
        seconds = raw["rest"]
        if type(seconds) in (int, float) and 0 <= seconds <= 3_600:
            return Rest(float(seconds))
        raise UsageError(f"step {number}: rest = {shortened(seconds)}: expected 0 to 3,600 seconds")
    state = next((name for name in STATES if raw.keys() == {name}), None)
    if state is not None and isinstance(raw[state], str):
        return node_step(state, raw[state])
    action = next((name for name in ACTIONS if name in raw), None)
    if action is not None and "f" not in raw:
        return _rule_of(number, action, raw)
    own = {name: raw[name] for name in ("wait", "ends", "until") if name in raw}
    by, call = call_of(number, {n: v for n, v in raw.items() if n not in own}, CALL_FIELDS)
    if "until" in own:
        return Until(call, _condition(number, own["until"]), by, UNTIL_TRIES, UNTIL_PAUSE_S)
    ends = own.get("ends", ["ok"])
    if not isinstance(ends, list) or not ends or not set(ends) <= set(ENDS):
        raise UsageError(f"step {number}: ends = {shortened(ends)}: expected some of ok fail info")
    wait = own.get("wait", True)
    if not isinstance(wait, bool):
        raise UsageError(f"step {number}: wait = {shortened(wait)}: expected true or false")
    return Do(call, by, tuple(Kind(end) for end in ends), wait)


def _condition(number: int, raw: object) -> Shows | Ended:
    if raw == "ok":
        return Ended()
    if isinstance(raw, list) and all(type(value) is int for value in raw):
        return Shows(frozenset(raw))
    raise UsageError(f'step {number}: until = {shortened(raw)}: expected "ok", or values')


def _rule_of(number: int, action: str, raw: Mapping[str, Any]) -> Do:
    name, node = raw[action], raw.get("on")
    known = {action, "on", *(RULE_FIELDS if action in ("hold", "count") else ("messages",))}
    for field in raw:
        if field not in known:
            raise UsageError(f"step {number}: {field} is unknown: expected {' '.join(known)}")
    nodes = node if isinstance(node, list) else [node]
    if not isinstance(name, str) or not nodes or not all(isinstance(one, str) for one in nodes):
        raise UsageError(
            f"step {number}: {action}: expected the name of a rule, and a replica or a list of them"
        )
    rule: dict[str, Json] = {field: raw[field] for field in raw if field not in (action, "on")}
    if action in ("hold", "count"):
        rule = {**RULE_DEFAULTS, **rule}
    return rule_step(
        action, name, [str(one) for one in nodes] if node is nodes else str(node), **rule
    )


def _line(step: ScriptStep) -> str:
    if isinstance(step, Joined):
        return line_of({"join": toml("all" if step.by is None else step.by)})
    if isinstance(step, Rest):
        return line_of({"rest": toml(step.seconds)})
    assert isinstance(step, Do | Until), "steps that depend on the run are not in files"
    value = step.call.value
    if step.call.f == NAME and isinstance(value, Mapping):
        if value["do"] in STATES:
            return line_of({str(value["do"]): toml(value["node"])})
        fields = {str(value["do"]): toml(value["rule"]), "on": toml(value["node"])}
        fields |= {
            name: toml(entry)
            for name, entry in value.items()
            if name in (*RULE_FIELDS, "messages") and RULE_DEFAULTS.get(name) != entry
        }
        return line_of(fields)
    fields = call_fields(step.by, step.call)
    if isinstance(step, Until):
        seen = step.seen
        fields["until"] = toml(sorted(seen.values) if isinstance(seen, Shows) else "ok")
    else:
        if step.ends != (Kind.OK,):
            fields["ends"] = toml([end.value for end in step.ends])
        if not step.wait:
            fields["wait"] = "false"
    return line_of(fields)
