"""Reads a JSON array of Jepsen's events: objects with process, type, f and value, as elle-cli and
other tools write them."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from pyporcupine.bounded_json import decode, refuse_surrogates
from pyporcupine.events import event_of
from pyporcupine.importers.calls import process_of
from pyporcupine.importers.record import Event, Malformed, shown
from pyporcupine.importers.rows import DECODER, refused

_BETWEEN: Final = re.compile(r"\s*(,?)\s*(\]?)")


def read_json_events(text: str, f: str | None = None) -> tuple[list[Event], list[Malformed]]:
    """Return the events of clients, in the order of the file, and what is wrong with others.

    Skips the events of the nemesis. `f` is that of events without one.
    """
    events: list[Event] = []
    malformed: list[Malformed] = []
    try:
        elements = decode(lambda whole: list(_elements(whole)), text)
        refuse_surrogates(text, [element for _, element in elements])
    except ValueError as error:
        at = text.count("\n", 0, getattr(error, "pos", 0)) + 1
        return [], [refused(at, text.split("\n")[at - 1], error)]
    for line, element in elements:
        if f is not None and isinstance(element, dict):
            element = {"f": f, **element}
        made = _event(line, element)
        if isinstance(made, Malformed):
            malformed.append(made)
        elif made is not None:
            events.append(made)
    return events, malformed


def _elements(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the line and the value of each element. Raises ValueError."""
    line, counted, at, is_first = 1, 0, text.index("[") + 1, True
    while True:
        between = _BETWEEN.match(text, at)
        assert between is not None, "the pattern matches nothing at all"
        at = between.end()
        if between[2]:
            break
        if not is_first and not between[1]:
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        line, counted = line + text.count("\n", counted, at), at
        value, at = DECODER.raw_decode(text, at)
        yield line, value
        is_first = False
    if text[at:].strip():
        raise json.JSONDecodeError("Extra data", text, at)


def _event(line: int, element: Any) -> Event | Malformed | None:
    if not isinstance(element, dict):
        return Malformed(
            line, "the element", shown(element), "an object of process, type, f, value"
        )
    if element.get("process") in ("nemesis", ":nemesis"):
        return None
    made = event_of(line, element)
    if isinstance(made, Malformed):
        return made
    process = process_of(made.process, line)
    return process if isinstance(process, Malformed) else made
