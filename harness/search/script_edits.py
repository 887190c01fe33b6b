"""Edits of scripted runs: less time, fewer calls and servers, other names; and their sizes. All are
pure functions."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

import msgspec
from msgspec.structs import replace as replace_struct

from harness.core.op import Call, Json
from harness.generators.script import TimedCall
from harness.generators.steps import NEMESIS_NUMBER
from harness.run.script_calls import seconds_text
from harness.run.scripted import ScriptedRun
from harness.spec.option import Chooser
from harness.spec.run_options import OPTIONS


class Sizes(msgspec.Struct, frozen=True, rename={"calls": "operations"}):
    """Size of a scripted run."""

    calls: int
    """Number of clients' calls."""
    faults: int
    """Number of faults that begin."""
    seconds: float
    nodes: int


def sizes_of(run: ScriptedRun, nodes: int) -> Sizes:
    """Return the size of a run on this many servers."""
    edges = [one.call.value for one in run.faults]
    begun = sum(isinstance(v, Mapping) and v.get("edge") != "end" for v in edges)
    return Sizes(len(run.calls) - len(run.faults), begun, length_ns(run) / 1e9, nodes)


def length_ns(run: ScriptedRun) -> int:
    """Return the time limit of a run."""
    return round(float(str(run.options["time-limit"])) * 1e9)


def encoded_script(run: ScriptedRun) -> bytes:
    """Return bytes that are equal for equal runs only."""
    return msgspec.json.encode((sorted(run.options.items()), run.calls))


def until(run: ScriptedRun, end_ns: int) -> ScriptedRun:
    """Return the run without what begins at `end_ns` or later."""
    calls = tuple(one for one in run.calls if one.at_ns < end_ns)
    return limited(replace(run, calls=calls), end_ns)


def limited(run: ScriptedRun, end_ns: int) -> ScriptedRun:
    """Return the run with another time limit, of 1 ms at least."""
    return replace(run, options={**run.options, "time-limit": seconds_text(max(end_ns, 10**6))})


def rounded_up(ns: int) -> int:
    """Return the next whole millisecond after a time."""
    return (ns // 10**6 + 1) * 10**6


def gaps(run: ScriptedRun) -> list[int]:
    """Return the nanoseconds before each call, and those from the last one to the time limit."""
    times = [0, *(one.at_ns for one in run.calls), length_ns(run)]
    return [max(0, after - before) for before, after in pairwise(times)]


def with_gaps(run: ScriptedRun, gaps: Sequence[int]) -> ScriptedRun:
    """Return the run with other gaps."""
    calls, time_ns = [], 0
    for one, gap in zip(run.calls, gaps, strict=False):
        time_ns += gap
        calls.append(replace_struct(one, at_ns=time_ns))
    return limited(replace(run, calls=tuple(calls)), time_ns + gaps[-1])


def without(run: ScriptedRun, dropped: set[int]) -> ScriptedRun:
    """Return the run without the calls at these places."""
    calls = tuple(one for at, one in enumerate(run.calls) if at not in dropped)
    return replace(run, calls=calls)


def grouped(
    run: ScriptedRun, key_of: Callable[[TimedCall], Hashable | None]
) -> Sequence[Sequence[int]]:
    """Return the places of calls with the same key, a group each, in order of their first call."""
    groups: dict[Hashable, list[int]] = {}
    for at, one in enumerate(run.calls):
        key = key_of(one)
        if key is not None:
            groups.setdefault(key, []).append(at)
    return list(groups.values())


def fault_of(one: TimedCall) -> Hashable | None:
    """Return what the calls of one fault share."""
    value = one.call.value
    if one.by != NEMESIS_NUMBER or not isinstance(value, Mapping):
        return None
    return one.call.f, str(value.get("fault"))


def key_of(one: TimedCall) -> Hashable | None:
    """Return the key of a client's call."""
    return one.call.key


def client_of(one: TimedCall) -> Hashable | None:
    """Return who makes a client's call."""
    return None if one.by == NEMESIS_NUMBER else one.by


def kind_of(one: TimedCall) -> Hashable | None:
    """Return the f of a client's call."""
    return None if one.by == NEMESIS_NUMBER else one.call.f


def node_of(one: TimedCall) -> Hashable | None:
    """Return the node of a client's call."""
    return None if one.by == NEMESIS_NUMBER else one.call.node


def renumbered(run: ScriptedRun, numbers: Mapping[int, int]) -> ScriptedRun:
    """Return the run with other numbers of clients."""
    calls = (replace_struct(one, by=numbers.get(one.by, one.by)) for one in run.calls)
    return replace(run, calls=tuple(calls))


def mapped(run: ScriptedRun, change: Callable[[Call], Call]) -> ScriptedRun:
    """Return the run with every client's call changed."""
    calls = (
        one if one.call.nemesis else replace_struct(one, call=change(one.call)) for one in run.calls
    )
    return replace(run, calls=tuple(calls))


def without_server(run: ScriptedRun, flag: str, prefix: str, number: int, gone: int) -> ScriptedRun:
    """Return the run without a server, `gone` of `number`, whose successors move up."""
    names = {f"{prefix}{at}": f"{prefix}{at - (at > gone)}" for at in range(1, number + 1)}
    lost = f"{prefix}{gone}"
    calls = []
    for one in run.calls:
        if one.call.node == lost:
            continue
        node = None if one.call.node is None else names.get(one.call.node, one.call.node)
        value = one.call.value
        if one.call.nemesis and isinstance(value, Mapping):
            value = cast(Mapping[str, Json], renamed(value, names, lost))
            if value.get("nodes") == [] or value.get("grudge") == {}:
                continue
        calls.append(replace_struct(one, call=replace_struct(one.call, node=node, value=value)))
    options = {**run.options, flag: str(number - 1)}
    return replace(run, options=options, calls=tuple(calls))


def renamed(value: object, names: Mapping[str, str], lost: str | None = None) -> object:
    """Return a fault's value with other names of servers, and without one of them."""
    if isinstance(value, Mapping):
        kept = {k: v for k, v in value.items() if lost not in (k, v)}
        named = {names.get(k, k): renamed(v, names, lost) for k, v in kept.items()}
        # A server of a grudge that drops nobody's packets is none.
        return {k: v for k, v in named.items() if v != [] or k in ("nodes", "order")}
    if isinstance(value, list):
        return [renamed(entry, names, lost) for entry in value if entry != lost]
    return names.get(value, value) if isinstance(value, str) else value


def simplified(options: Mapping[str, str | tuple[str, ...]]) -> dict[str, str | tuple[str, ...]]:
    """Return the options without those that a script replaces."""
    return {
        name: value
        for name, value in options.items()
        if Chooser.SCRIPT not in OPTIONS[name].option.chosen_by
    }
