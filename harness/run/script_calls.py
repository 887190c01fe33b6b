"""Calls and faults as tables of a script's TOML file."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from harness.core.bounded_json import MAX_DEPTH, loads
from harness.core.errors import UsageError
from harness.core.op import Call, Json, Value
from harness.core.ranges import shortened
from harness.generators.steps import NEMESIS_NUMBER

CLIENTS_MAX: Final = 1_000
_JSON: Final = json.JSONEncoder(ensure_ascii=False)
CALL_FIELDS: Final = ("by", "on", "f", "key", "fault", "value", "json")


def call_of(number: int, raw: Mapping[str, Any], fields: tuple[str, ...]) -> tuple[int, Call]:
    """Return the client and the call of a table with some of these fields. Raises UsageError, which
    names the call by its number."""

    def refuse(what: str, expected: str) -> UsageError:
        return UsageError(f"call {number}: {what}: expected {expected}")

    for name in raw:
        if name not in fields:
            raise refuse(f"{name} is unknown", f"some of {' '.join(fields)}")
    nemesis = "fault" in raw
    by = raw.get("by", NEMESIS_NUMBER if nemesis else None)
    if isinstance(by, bool) or not isinstance(by, int) or nemesis == (0 <= by < CLIENTS_MAX):
        raise refuse(f"by = {shortened(by)}", f"a client from 0 to {CLIENTS_MAX - 1}, or a fault")
    f, node, key = raw.get("fault", raw.get("f")), raw.get("on"), raw.get("key")
    if not isinstance(f, str) or ("fault" in raw and "f" in raw):
        raise refuse(f"f = {shortened(f)}", "the name of a call in f, or of a fault in fault")
    if not isinstance(node, str) and not (nemesis and node is None):
        raise refuse(f"on = {shortened(node)}", "the name of a replica")
    if key is not None and (isinstance(key, bool) or not isinstance(key, int)):
        raise refuse(f"key = {shortened(key)}", "a number")
    value = _value_of(number, raw)
    if nemesis and not (isinstance(value, dict) and "edge" in value):
        raise refuse(f"value = {shortened(value)}", "the table of a fault, with its edge")
    return by, Call(f=f, value=value, key=key, node=node, nemesis=nemesis)


def _value_of(number: int, raw: Mapping[str, Any]) -> Value:
    value = raw.get("value")
    if "json" in raw:
        try:
            value = loads(str(raw["json"]))
        except ValueError as error:
            raise UsageError(f"call {number}: json is no JSON: {error}") from error
    if isinstance(value, list):
        value = tuple(value)
    numbers = isinstance(value, tuple) and all(type(entry) is int for entry in value)
    if not (value is None or type(value) is int or numbers or isinstance(value, dict)):
        raise UsageError(
            f"call {number}: value = {shortened(value)}: expected a number, a list of numbers or a "
            "table"
        )
    if isinstance(value, dict) and not _is_json(value, MAX_DEPTH):
        raise UsageError(f"call {number}: value: expected text, numbers, lists and tables in it")
    return value


def _is_json(value: object, depth: int) -> bool:
    """Return whether a value has no dates, which only TOML has, and is not nested too deeply."""
    if depth == 0:
        return False
    if isinstance(value, dict):
        return all(_is_json(entry, depth - 1) for entry in value.values())
    if isinstance(value, list):
        return all(_is_json(entry, depth - 1) for entry in value)
    return value is None or isinstance(value, str | int | float)


def call_fields(by: int, call: Call) -> dict[str, str]:
    """Return the fields of a call's table, as TOML."""
    fields = {"fault": toml(call.f)} if call.nemesis else {"by": str(by)}
    if call.node is not None:
        fields["on"] = toml(call.node)
    if not call.nemesis:
        fields["f"] = toml(call.f)
    if call.key is not None:
        fields["key"] = str(call.key)
    if call.value is not None:
        plain = not _has_null(call.value)
        fields |= {"value": toml(call.value)} if plain else {"json": toml(_JSON.encode(call.value))}
    return fields


def line_of(fields: Mapping[str, str]) -> str:
    """Return a table on one line."""
    return f"{{ {', '.join(f'{name} = {text}' for name, text in fields.items())} }}"


def seconds_text(ns: int) -> str:
    """Return nanoseconds as seconds, exactly and without trailing zeros: "0.0125"."""
    whole, rest = divmod(ns, 1_000_000_000)
    return f"{whole}.{f'{rest:09d}'.rstrip('0') or '0'}"


def _has_null(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_has_null(entry) for entry in value.values())
    return value is None or (isinstance(value, list | tuple) and any(map(_has_null, value)))


def toml(value: Value | Json | tuple[str, ...]) -> str:
    """Return a value as TOML."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(name)} = {toml(entry)}" for name, entry in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(entry) for entry in value)}]"
    # TOML's basic strings are JSON's, except that DEL is escaped too.
    return _JSON.encode(value).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml(name)
