"""Reads Jepsen's `history.edn`: maps of :process, :type, :f and :value, in one vector or in
sequence, on any number of lines. This file finds the forms; `edn_syntax` turns tokens into
values."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final

from pyporcupine.bounded_json import OutOfBoundsError
from pyporcupine.importers.calls import process_of
from pyporcupine.importers.edn_syntax import FORM_BYTES_MAX, TOKEN, Builder, values_of
from pyporcupine.importers.record import NOT_THERE, Event, EventKind, Malformed, shown

_KINDS: Final = {f":{kind.value}": kind for kind in EventKind}
_LINE_OF_MAP: Final = r"\n(?=[ \t,]{%d}(?:#[\w./-]++)?\{)"
_OPENING_BRACKET: Final = re.compile(r"(?:[\s,]++|;[^\n]*+(?:\n|\Z))*+([\[(])")


def read_edn(text: str, f: str | None = None) -> tuple[list[Event], list[Malformed]]:
    """Return the events of clients, in the order of the file, and what is wrong with other forms.

    Skips the operations of the nemesis. `f` is that of maps without :f.
    """
    events: list[Event] = []
    malformed: list[Malformed] = []
    for line, form, builder in _forms(text):
        try:
            values = builder.values()
        except ValueError as error:
            malformed.append(Malformed(line, "the form", shown(form), f"EDN ({error})"))
            continue
        for value in values:
            made = _event(line, form, value, f)
            if isinstance(made, Malformed):
                malformed.append(made)
            elif made is not None:
                events.append(made)
    return events, malformed


def edn_value(text: str) -> Any:
    """Return the value of one form. Raises ValueError."""
    values = values_of(text)
    if len(values) != 1:
        raise ValueError(f"{len(values)} forms are there, expected one")
    return values[0]


def _event(line: int, form: str, value: Any, default: str | None) -> Event | Malformed | None:
    if not isinstance(value, dict):
        return Malformed(line, "the form", shown(form), "a map with :process, :type, :f and :value")
    if default is not None:
        value = {":f": f":{default}", **value}
    process, kind, f = value.get(":process"), value.get(":type"), value.get(":f")
    if process == ":nemesis":
        return None
    for name in (":process", ":type", ":f"):
        if value.get(name) is None:
            return Malformed(line, name, NOT_THERE, "it in every map")
    number = process_of(process, line)
    if isinstance(number, Malformed):
        return number
    if not isinstance(kind, str) or kind not in _KINDS:
        return Malformed(line, ":type", shown(kind), "one of " + ", ".join(_KINDS))
    if not isinstance(f, str) or not f.startswith(":"):
        return Malformed(line, ":f", shown(f), "a keyword such as :read")
    final = value.get(":final?") is True
    return Event(line, number, _KINDS[kind], f[1:], value.get(":value"), value.get(":key"), final)


def _forms(text: str) -> Iterator[tuple[int, str, Builder]]:
    """Yield each form's first line, its text (for errors) and its value.

    The vector or list around the forms is removed. A line on which a map begins in the column of
    the first map starts a new form, however the one before was closed, so that a broken form costs
    no other.
    """
    text = _blank_outer_brackets(text)
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    begin, line, depth, column = -1, 0, 0, -1
    builder = Builder()
    tokens = TOKEN.finditer(text)
    while token := next(tokens, None):
        kind, symbol, at = token.lastgroup, token[0], token.start()
        if kind in ("space", "comment"):
            continue
        if begin < 0 or kind == "tag" or symbol == "{":
            here = bisect_right(starts, at)
            if begin >= 0 and here > line and at - starts[here - 1] == column:
                yield line, text[begin : min(at, begin + 200)].rstrip(), builder
                begin, depth = -1, 0
            if begin < 0:
                begin, line, builder = at, here, Builder()
                if column < 0:
                    column = at - starts[here - 1]
        builder.feed(kind, symbol)
        if at - begin > FORM_BYTES_MAX:
            large = f"it has more than {FORM_BYTES_MAX:,} characters"
            builder.refuse(OutOfBoundsError(large))
        if builder.out_of_bounds:
            yield line, text[begin : begin + 200], builder
            begin, depth = -1, 0
            following = re.compile(_LINE_OF_MAP % column).search(text, at)
            tokens = TOKEN.finditer(text, following.end() if following else len(text))
            continue
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        if depth <= 0 and builder.complete:
            yield line, text[begin : min(token.end(), begin + 200)], builder
            begin, depth = -1, 0
    if begin >= 0:
        yield line, text[begin : begin + 200].rstrip(), builder


def _blank_outer_brackets(text: str) -> str:
    """Replace the brackets around all forms by spaces, so that lines and columns stay."""
    first = _OPENING_BRACKET.match(text)
    if not first:
        return text
    start = first.start(1)
    body = text[start + 1 :]
    end = body.rstrip()
    if end.endswith("]" if first[1] == "[" else ")"):
        body = end[:-1]
    return text[:start] + " " + body
