"""Jepsen's `history.edn`: maps of :process, :type, :f and :value, in one vector or one after the
other, on any number of lines. `edn_format` reads the forms; this file finds them.

A file is read in one piece, which is ten times faster than form by form; only where that fails
is each form read by itself, to say which one is wrong.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final

import edn_format
from edn_format import Keyword

from harness.core.op import Kind
from harness.foreign.calls import process_of
from harness.foreign.record import Event, Malformed, shown

FIELDS: Final = ("process", "type", "f", "value", "key")
_TAG: Final = re.compile(r"#([A-Za-z][\w.*+!?$%&=<>/-]*)")
_READ: Final = frozenset({"inst", "uuid"})
_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\\n]|\n(?!\s*(?:\#[\w.]+)?\{:))*") | (?P<comment>;[^\n]*)
    | (?P<char>\\(?:u[\da-fA-F]{4}|[a-z]+|.))
    | (?P<open>[({\[]) | (?P<close>[)}\]]) | (?P<discard>\#_) | (?P<space>[\s,]+)
    | (?P<other>(?:[^\s,;"(){}\[\]\\#]|\#(?!_))+) | (?P<odd>.)""",
    re.X | re.S,
)


def read_edn(text: str) -> tuple[list[Event], list[Malformed]]:
    """The events of clients, in the order of the file; what the nemesis did is passed over."""
    for tag in set(_TAG.findall(text)) - _READ:
        edn_format.add_tag(tag, _untagged)
    forms = list(_forms(text))
    events: list[Event] = []
    malformed: list[Malformed] = []
    for (line, form), value in zip(forms, _values(forms), strict=True):
        made = _event(line, form, value)
        if isinstance(made, Malformed):
            malformed.append(made)
        elif made is not None:
            events.append(made)
    return events, malformed


def plain(value: Any) -> Any:
    """A form without EDN's own types: keywords are texts such as ":a", sets are sorted lists."""
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, Keyword):
        return f":{value.name}"
    if isinstance(value, frozenset | set):
        items = [plain(item) for item in value]
        return sorted(items, key=lambda item: (str(type(item)), item))
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | edn_format.ImmutableList):
        return [plain(item) for item in value]
    return value


def edn_value(text: str) -> Any:
    """One form; raises ValueError."""
    values = _loads_all(text)
    if len(values) != 1:
        raise ValueError(f"{len(values)} forms, expected one")
    return plain(values[0])


def _untagged(value: Any) -> Any:
    """What a tag without a meaning here, such as #jepsen.history.Op, is put on."""
    return value


def _loads_all(text: str) -> list[Any]:
    try:
        return list(edn_format.loads_all(text, write_ply_tables=False))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except Exception as error:  # the parser raises whatever its parts do
        raise ValueError(str(error) or type(error).__name__) from None


def _values(forms: list[tuple[int, str]]) -> list[Any]:
    """The value of each form, or the ValueError."""
    try:
        values = _loads_all("\n".join(form for _, form in forms))
    except ValueError:
        values = []
    return values if len(values) == len(forms) else [_value(form) for _, form in forms]


def _value(form: str) -> Any:
    try:
        values = _loads_all(form)
    except ValueError as error:
        return error
    return values[0] if len(values) == 1 else ValueError(f"{len(values)} forms in one place")


def _event(line: int, form: str, value: Any) -> Event | Malformed | None:
    if isinstance(value, ValueError):
        expected = f"EDN (the parser says: {shown(str(value))})"
        return Malformed(line, "the form", shown(form), expected)
    if not isinstance(value, Mapping):
        return Malformed(line, "the form", shown(form), "a map with :process, :type, :f and :value")
    fields = {name: value.get(Keyword(name)) for name in FIELDS}
    process, kind, f = fields["process"], fields["type"], fields["f"]
    if process == Keyword("nemesis"):
        return None
    for name in ("process", "type", "f"):
        if fields[name] is None:
            return Malformed(line, f":{name}", "not there", "it in every map")
    number = process_of(plain(process), line)
    if isinstance(number, Malformed):
        return number
    kinds = {Keyword(kind.value): kind for kind in Kind}
    if kind not in kinds:
        expected = "one of " + ", ".join(f":{k.value}" for k in Kind)
        return Malformed(line, ":type", shown(plain(kind)), expected)
    if not isinstance(f, Keyword):
        return Malformed(line, ":f", shown(plain(f)), "a keyword such as :read")
    key = plain(fields["key"])
    return Event(line, number, kinds[kind], f.name, plain(fields["value"]), key)


def _forms(text: str) -> Iterator[tuple[int, str]]:
    """The maps of a file with their first lines. The vector or list around them is taken off.

    A line on which a map begins in the column of the first starts a new form, however the one
    before was closed, so that a broken one costs no other. No text goes on over such a line.
    """
    text = _outer_off(text)
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    begin, line, depth, column = -1, 0, 0, -1
    for token in _TOKEN.finditer(text):
        kind, said, at = token.lastgroup, token[0], token.start()
        tag = kind == "other" and said.startswith("#") and not said.startswith("##")
        here = bisect_right(starts, at) if begin < 0 or tag or said == "{" else line
        if begin >= 0 and here > line and at - starts[here - 1] == column:
            yield line, text[begin:at].rstrip()
            begin, depth = -1, 0
        if kind in ("space", "comment"):
            continue
        if begin < 0:
            begin, line = at, here
            if column < 0:
                column = at - starts[here - 1]
        depth += (kind == "open") - (kind == "close")
        if depth <= 0 and not tag and kind != "discard":
            if not text.startswith("#_", begin):
                yield line, text[begin : token.end()]
            begin, depth = -1, 0
    if begin >= 0:
        yield line, text[begin:].rstrip()


def _outer_off(text: str) -> str:
    """With spaces for the brackets around everything, so that lines and columns stay."""
    first = re.match(r"(?:[\s,]|;[^\n]*\n)*([\[(])", text)
    if not first:
        return text
    start = first.start(1)
    body = text[start + 1 :]
    end = body.rstrip()
    if end.endswith("]" if first[1] == "[" else ")"):
        body = end[:-1]
    return text[:start] + " " + body
