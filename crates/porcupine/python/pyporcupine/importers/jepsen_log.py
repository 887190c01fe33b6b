r"""Reads the operations in a Jepsen log: lines with process, type, f and value, whatever comes
before them on the line and whatever other lines stand between them.

INFO  jepsen.util - 3  :invoke  :cas  [3 0]
INFO\t[jepsen worker 3] jepsen.util: 3\t:invoke\t:cas\t[3 0]

The first is the form of before September 2016; the second one is that of a test's own jepsen.log
since then. Its logger is jepsen.print since March 2026. The history.txt beside it has the
operations alone: 3\t:invoke\t:cas\t[3 0]
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from pyporcupine.importers.calls import process_of
from pyporcupine.importers.edn import edn_value
from pyporcupine.importers.edn_syntax import integer
from pyporcupine.importers.record import NOT_THERE, Event, EventKind, Malformed, shown

_OPERATION: Final = re.compile(
    r"jepsen\.(?:util|print)"
    r"(?::\s+(?=\S+\s+:(?:invoke|ok|fail|info)\b)|\s+(?:-\s+)?)"
    r"(?P<operation>(?::nemesis|-?\d+)\s+:.*|\S+\s+:invoke.*)$"
)
_LINE: Final = re.compile(r"\s*(?::nemesis|-?\d+)\s+:(?:invoke|ok|fail|info)\b")
_FIELDS: Final = re.compile(
    r"(?P<process>\S+)\s+:(?P<type>\S+)(?:\s+:(?P<f>[^\s:]\S*))?(?:\s+(?P<value>.*))?$"
)
_KINDS: Final = {kind.value: kind for kind in EventKind}
_INT: Final = re.compile(r"-?[0-9]+")
_CLIENT: Final = re.compile(r"-?[0-9]{1,18}")
_INTS: Final = re.compile(r"\[(-?[0-9]+) (-?[0-9]+)\]")


def read_jepsen_log(text: str) -> tuple[list[Event], list[Malformed]]:
    """Return the events of clients, and what is wrong with the other lines about clients.

    Skips the nemesis and all other lines.
    """
    lines = enumerate(map(_OPERATION.search, text.split("\n")), 1)
    return _events((number, found["operation"]) for number, found in lines if found)


def read_history_txt(text: str) -> tuple[list[Event], list[Malformed]]:
    """Return the same of Jepsen's history.txt, each line of which is an operation."""
    return _events((at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip())


def is_history_txt(text: str) -> bool:
    """Return whether a text begins with an operation of Jepsen's history.txt."""
    return _LINE.match(text) is not None


def _events(operations: Iterable[tuple[int, str]]) -> tuple[list[Event], list[Malformed]]:
    events: list[Event] = []
    malformed: list[Malformed] = []
    for number, operation in operations:
        if operation.startswith(":nemesis"):
            continue
        made = _event(number, operation.rstrip())
        if isinstance(made, Malformed):
            malformed.append(made)
        else:
            events.append(made)
    return events, malformed


def _event(line: int, operation: str) -> Event | Malformed:
    fields = _FIELDS.match(operation)
    if fields is None:
        return Malformed(line, "the line", shown(operation), "process :type :f value")
    client = fields["process"]
    process = process_of(int(client) if _CLIENT.fullmatch(client) else client, line)
    if isinstance(process, Malformed):
        return process
    kind = _KINDS.get(fields["type"])
    if kind is None:
        expected = "one of " + ", ".join(f":{name}" for name in _KINDS)
        return Malformed(line, "type", shown(fields["type"]), expected)
    if fields["f"] is None:
        return Malformed(line, "f", NOT_THERE, "a keyword such as :read")
    ended_badly = kind in (EventKind.FAIL, EventKind.INFO)
    try:
        value = _value(fields["value"] or "nil")
    except ValueError as error:
        if not ended_badly:  # else it may be any message
            expected = f"EDN ({error})"
            return Malformed(line, "value", shown(fields["value"]), expected)
        value = None
    return Event(line, process, kind, fields["f"], value)


def _value(text: str) -> Any:
    if text == "nil":
        return None
    if _INT.fullmatch(text):
        return integer(text)
    if pair := _INTS.fullmatch(text):
        return [integer(pair[1]), integer(pair[2])]
    # A value may be followed by an error, a tab apart.
    return edn_value(text.split("\t")[0])
