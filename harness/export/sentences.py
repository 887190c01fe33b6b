"""The steps of a reproduction as sentences for a reader."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from harness.export.faults import BREAK_STORE, FAULT_TEXTS, PROXY_TEXTS, FaultCommand
from harness.export.play import AwaitedClient, PlayedCall, PlayStep, Sleep
from harness.export.proxies import rule_text
from harness.export.stores import store_rule_text
from workloads.scenarios.steps import Ended, HasRows, Lacks, Repeats, Shows

_CONDITIONS: Final[Mapping[type, str]] = {
    Ended: "succeeds",
    Shows: "returns what was inserted",
    Lacks: "lacks a row",
    Repeats: "returns a row twice",
    HasRows: "changes",
}
"""What a call that is repeated waits for."""


def sentences(steps: Iterable[PlayStep]) -> Sequence[str]:
    """Return the sentences of steps."""
    return [text for step in steps for text in _TABLE[type(step)](step)]


def _call(played: PlayedCall) -> Sequence[str]:
    more = "" if played.wait else "the next step does not wait for it"
    if played.until:
        more = f"repeated until it {_CONDITIONS[type(played.until.seen)]}"
    out = []
    for one in played.sent:
        settings = ", ".join(f"{name} = {value}" for name, value in one.settings.items())
        notes = "; ".join(filter(None, [settings, more]))
        out.append(f"{one.node}: `{one.text}`{f' ({notes})' if notes else ''}")
    return out


def _fault_text(command: FaultCommand) -> str:
    if command.name == "arm":
        return rule_text(command.arguments[0])
    if command.name == BREAK_STORE:
        return store_rule_text(command.arguments[0])
    return {**FAULT_TEXTS, **PROXY_TEXTS}[command.name]


_TABLE: Final[Mapping[type, Callable[[Any], Sequence[str]]]] = {
    PlayedCall: _call,
    FaultCommand: lambda command: [f"{command.node}: {_fault_text(command)}"],
    Sleep: lambda pause: [f"wait {pause.seconds:g} s"],
    AwaitedClient: lambda _: ["wait for the statement that is still running"],
}
