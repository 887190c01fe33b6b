"""The JSON objects in the files of a report of etcd's robustness tests.

Each file has one object after the other: on a line each (etcd 3.6) or indented (since 3.7), so that
an object begins wherever a line begins with a brace.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from pyporcupine.bounded_json import check_size, decode, refuse_surrogates
from pyporcupine.importers.edn_syntax import FORM_BYTES_MAX
from pyporcupine.importers.record import NOT_THERE, shown

ABSENT: Final = "(absent)"
"""Value of a key that does not exist."""
_FILE: Final = re.compile(r"^\0(.*)\n", re.M)
_OBJECT: Final = re.compile(r"^(?=\{)", re.M)


class FormError(ValueError):
    """A field that is not as expected: its name, what is there, and what was expected."""


def texts_of(report: str) -> Iterator[tuple[str, int, str]]:
    """Yield the text of each object of a report, with its file and the line where it begins."""
    _, *parts = _FILE.split(report)
    for file, content in zip(parts[::2], parts[1::2], strict=True):
        line = 1
        for text in _OBJECT.split(content):
            if text.strip():
                yield file, line, text
            line += text.count("\n")


def parse(text: str) -> Any:
    """Return the value of an object's text. Raises FormError."""
    try:
        check_size(len(text), FORM_BYTES_MAX)
        value = decode(json.loads, text)
        refuse_surrogates(text, value)
    except ValueError as error:
        raise FormError("the line", shown(text), f"a JSON object ({error})") from None
    return value


def value_of(holder: dict[str, Any]) -> str:
    """Return the value of a put or of a key that was found; of a long one its hash."""
    value = holder.get("Value") or {}
    if not isinstance(value, dict):
        raise FormError("Value", shown(value), "an object with Value or Hash")
    return f"hash {value['Hash']}" if value.get("Hash") else str(value.get("Value", ""))


def key_of(holder: dict[str, Any], name: str) -> str:
    """Return the name of a key."""
    if not isinstance(key := holder.get(name), str):
        raise FormError(name, shown(key), "the name of a key")
    return key


def object_of(holder: Any, name: str) -> dict[str, Any]:
    """Return an object within another."""
    found = holder.get(name, NOT_THERE) if isinstance(holder, dict) else NOT_THERE
    if not isinstance(found, dict):
        raise FormError(name, shown(found), "an object")
    return found


def objects_of(holder: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects, which Go writes as null, or leaves out, if it is empty."""
    found = holder.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise FormError(name, shown(found), "a list of objects")
    return found


def int_of(holder: Any, name: str, absent: int | None = None) -> int:
    """Return a number; `absent` if it is left out and that is given."""
    default = NOT_THERE if absent is None else absent
    found = holder.get(name, default) if isinstance(holder, dict) else NOT_THERE
    if not isinstance(found, int) or isinstance(found, bool):
        raise FormError(name, shown(found), "a whole number")
    return found
