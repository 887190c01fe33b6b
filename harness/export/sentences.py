"""The steps of a reproduction as sentences for a reader."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from harness.clients.sent_statement import SentStatement
from harness.export.faults import ARM, BREAK_STORE, FAULT_TEXTS, PROXY_TEXTS, FaultCommand
from harness.export.final_calls import FinalCalls
from harness.export.play import AwaitedClient, AwaitedState, PlayedCall, PlayStep, Sleep
from harness.export.proxies import rule_text
from harness.export.stores import store_rule_text
from workloads.scenarios.steps import Ended, HasRows, Lacks, Repeats, Shows

_CONDITIONS: Final[Mapping[type, Callable[[Any], str]]] = {
    Ended: lambda _: "succeeds",
    Shows: lambda seen: f"returns {', '.join(map(str, sorted(seen.values)))}",
    Lacks: lambda seen: f"lacks {seen.value}",
    Repeats: lambda seen: f"returns {seen.value} twice",
    HasRows: lambda seen: "returns a row" if seen.some else "returns no row",
}
"""What a call that is repeated waits for."""
_FEW: Final = 3
"""Number of sentences that differ in numbers alone and are all written."""
_NUMBER: Final = re.compile(r"\d+")


def sentences(steps: Iterable[PlayStep]) -> Sequence[str]:
    """Return the sentences of steps. Of many that differ in numbers alone there are the first and
    the last."""
    out: list[str] = []
    written = (text for step in steps for text in _TABLE[type(step)](step))
    for _, alike in groupby(written, lambda text: _NUMBER.sub("#", text)):
        first, *more = alike
        is_long = len(more) >= _FEW
        out += (
            [first, f"{len(more)} more of these, up to {more[-1]}"] if is_long else [first, *more]
        )
    return out


def final_sentences(final: FinalCalls, is_told: Callable[[SentStatement], bool]) -> Sequence[str]:
    """Return the sentences of what is asked at rest, of the statements that are told."""
    asked: dict[str, dict[str, None]] = {}
    for look in final.looks:
        for one in filter(is_told, look.sent):
            text = _statement_text(one)
            asked.setdefault(text, {})[one.node] = None
    if final.objects:
        asked[f"`{final.objects.referred}`"] = {"each replica": None}
        asked[f"`{final.objects.listed}`"] = {"any replica, before and after that": None}
    return [
        "wait until no replica has anything left to do",
        *(f"{', '.join(nodes)}: {text}" for text, nodes in asked.items()),
    ]


def _call(played: PlayedCall) -> Sequence[str]:
    more = "" if played.wait else "the next step does not wait for it"
    if played.until:
        more = f"repeated until it {_CONDITIONS[type(played.until.seen)](played.until.seen)}"
    return [f"{one.node}: {_statement_text(one, more)}" for one in played.sent]


def _statement_text(statement: SentStatement, more: str = "") -> str:
    settings = ", ".join(f"{name} = {value}" for name, value in statement.settings.items())
    notes = "; ".join(filter(None, [settings, more]))
    return f"`{statement.text}`{f' ({notes})' if notes else ''}"


def _fault_text(command: FaultCommand) -> str:
    if command.name == ARM:
        return rule_text(command.arguments[0])
    if command.name == BREAK_STORE:
        return store_rule_text(command.arguments[0])
    return {**FAULT_TEXTS, **PROXY_TEXTS}[command.name]


_TABLE: Final[Mapping[type, Callable[[Any], Sequence[str]]]] = {
    PlayedCall: _call,
    FaultCommand: lambda command: [f"{command.node}: {_fault_text(command)}"],
    AwaitedState: lambda awaited: [
        f"{awaited.shown.node}: wait until `{awaited.shown.sql}` returns 1"
    ],
    Sleep: lambda pause: [f"wait {pause.seconds:g} s"],
    AwaitedClient: lambda _: ["wait for the statement that is still running"],
}
