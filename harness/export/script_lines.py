"""The steps of a reproduction as lines of a shell script, a table from the kind of step to its
lines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from harness.clients.sent_statement import SentStatement
from harness.export.faults import FaultCommand
from harness.export.play import AwaitedClient, AwaitedState, PlayedCall, PlayStep, Sleep
from workloads.scenarios.steps import Ended, HasRows, Lacks, Repeats, Shows

_CONDITIONS: Final[Mapping[type, Callable[[Any], str]]] = {
    Ended: lambda _: "ok",
    Shows: lambda seen: " ".join(["shows", *map(str, sorted(seen.values))]),
    Lacks: lambda seen: f"lacks {seen.value}",
    Repeats: lambda seen: f"repeats {seen.value}",
    HasRows: lambda seen: "some" if seen.some else "none",
}
"""Words for the conditions of a call that is repeated, as the shell's function `seen` takes
them."""


def script_lines(steps: Iterable[PlayStep]) -> Sequence[str]:
    """Return the lines of steps."""
    return [line for step in steps for line in _TABLE[type(step)](step)]


def call_line(played: PlayedCall, repeat: str = "") -> str:
    """Return the words that make a call: variables, what repeats it, a number, and its
    statements."""
    call = played.call
    words = [
        f"client={played.by} node={call.node} key={'' if call.key is None else call.key}",
        f"values={quote(' '.join(map(str, played.values)))} seconds={played.timeout_s:.0f}",
        f"ends={played.ends} {repeat}call {played.number} {call.f}",
    ]
    statements = [
        f"{'' if one.node == call.node else f'@{one.node} '}"
        f"{quote(settings_of(one))} {quote(one.text)}"
        for one in played.sent
    ]
    return " \\\n    ".join([" ".join(words), *statements])


def fault_line(command: FaultCommand) -> str:
    """Return the line that makes or ends a fault."""
    words = " ".join([command.name, command.node, *map(quote, command.arguments)])
    return f"{words} || return" if command.name.startswith("await_") else words


def _call(played: PlayedCall) -> Sequence[str]:
    repeat = ""
    if until := played.until:
        condition = quote(_CONDITIONS[type(until.seen)](until.seen))
        repeat = f"until_seen {until.tries} {until.pause_s:g} {condition} "
    line = call_line(played, repeat)
    return [f"{line} || return"] if played.wait else [f"{line} &", f"begun {played.by} $!"]


_TABLE: Final[Mapping[type, Callable[[Any], Sequence[str]]]] = {
    PlayedCall: _call,
    FaultCommand: lambda command: [fault_line(command)],
    AwaitedState: lambda awaited: [
        f"await_shown {awaited.shown.node} {awaited.seconds:g} \\\n    "
        f"{quote(awaited.shown.sql)} || return"
    ],
    Sleep: lambda pause: [f"sleep {pause.seconds:g}"],
    AwaitedClient: lambda awaited: [f"join {awaited.by} || return"],
}


def settings_of(statement: SentStatement) -> str:
    """Return the settings of a statement as the parameters of an address."""
    return urlencode({name: str(value) for name, value in statement.settings.items()})


def quote(text: str) -> str:
    """Return a word for the shell, with double quotes where they suffice."""
    if "'" in text and not set(text) & set('"$`\\!'):
        return f'"{text}"'
    return "'" + text.replace("'", "'\\''") + "'"
