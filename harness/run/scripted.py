"""Scripted runs: options, and every call and fault at its time, as a TOML file.

    [options]
    cluster = "sim"
    seed = "0x7"
    time-limit = "1.2"

    [script]
    calls = [
      { at = 0.1, fault = "partition", value = { fault = 1, edge = "begin", … } },
      { at = 0.3, by = 0, on = "ch1", f = "insert", key = 0, value = 1 },
      { at = 0.7, by = 1, on = "ch2", f = "read", key = 0 },
    ]

`options` are those of `harness run` by their long names. `at` is in seconds since the run began. A
call without `fault` is made by the client with the number `by`, which may call every replica. What
comes after the script is that of every run: heal, wait for quiescence, final reads.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from harness.core.bounded_json import MAX_DEPTH, loads, open_regular
from harness.core.errors import UsageError
from harness.core.history import History
from harness.core.op import NEMESIS, Call, Json, Kind, Value
from harness.core.ranges import shortened
from harness.generators.script import TimedCall
from harness.generators.steps import NEMESIS_NUMBER, nanoseconds

BYTES_MAX: Final = 16 << 20
"""Maximum size of a file."""
CLIENTS_MAX: Final = 1_000
FIELDS: Final = ("at", "by", "on", "f", "key", "fault", "value", "json")


@dataclass(frozen=True)
class ScriptedRun:
    """Options of a run and the calls and faults that it makes."""

    options: Mapping[str, str | tuple[str, ...]]
    """Options of `harness run` by their long names; one that may be repeated has a tuple."""
    calls: tuple[TimedCall, ...]
    """Calls and faults in order of time."""

    @cached_property
    def clients(self) -> int:
        """Number of clients, at least 1."""
        return max([0, *(one.by for one in self.calls)]) + 1

    @property
    def faults(self) -> tuple[TimedCall, ...]:
        """Return the calls of the nemesis."""
        return tuple(one for one in self.calls if one.by == NEMESIS_NUMBER)

    @property
    def text(self) -> str:
        """Return the file, without comments. Equal runs have equal texts."""
        options = [f"{name} = {_toml(value)}" for name, value in sorted(self.options.items())]
        calls = [f"  {_line(one)}," for one in self.calls]
        return "\n".join(["[options]", *options, "", "[script]", "calls = [", *calls, "]", ""])


def commented(run: ScriptedRun, comments: Sequence[str]) -> str:
    """Return the file with these lines above it."""
    return "".join(f"# {line}".rstrip() + "\n" for line in comments) + "\n" + run.text


def script_of(history: History, workers: int) -> tuple[TimedCall, ...]:
    """Return the calls and faults of a history up to its heal; `workers` is the number of clients'
    workers, those of the final reads included, by which a retired process is renumbered."""
    calls: list[TimedCall] = []
    for op in history:
        if op.process == NEMESIS and op.f == "heal":
            break
        if op.kind is not Kind.INVOKE:
            continue
        nemesis = op.process == NEMESIS
        by = NEMESIS_NUMBER if isinstance(op.process, str) else op.process % workers
        call = Call(f=op.f, value=op.value, key=op.key, node=op.node, nemesis=nemesis)
        calls.append(TimedCall(op.time_ns, by, call))
    return tuple(calls)


def read_script(path: Path) -> ScriptedRun:
    """Read a file. Raises UsageError, with the file and the place in it."""
    try:
        with open_regular(path) as file:
            raw = file.read(BYTES_MAX + 1)
        if len(raw) > BYTES_MAX:
            raise UsageError(f"script {path}: more than {BYTES_MAX:,} bytes; expected less")
        values = tomllib.loads(raw.decode())
    except OSError as error:
        raise UsageError(f"script {path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"script {path}: is no TOML: {error}") from error
    try:
        return _run_of(values)
    except UsageError as error:
        raise UsageError(f"script {path}: {error}") from None


def _run_of(values: Mapping[str, Any]) -> ScriptedRun:
    if set(values) != {"options", "script"} or not all(
        isinstance(v, dict) for v in values.values()
    ):
        raise UsageError(f"tables {' '.join(values) or 'none'}: expected [options] and [script]")
    calls = values["script"].get("calls")
    if set(values["script"]) != {"calls"} or not isinstance(calls, list):
        raise UsageError(f"[script] has {' '.join(values['script'])}: expected calls, a list")
    options: dict[str, str | tuple[str, ...]] = {}
    for name, value in values["options"].items():
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            options[name] = tuple(value)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            options[name] = str(value)
        else:
            raise UsageError(f"option {name} = {shortened(value)}: expected text or a list of it")
    timed = [_call_of(at, one) for at, one in enumerate(calls, 1)]
    for at, (before, after) in enumerate(pairwise(timed), 2):
        if after.at_ns < before.at_ns:
            raise UsageError(
                f"call {at}: at = {after.at_ns / 1e9:g} is before the call above it; expected "
                "calls in order of time"
            )
    return ScriptedRun(options, tuple(timed))


def _call_of(number: int, raw: object) -> TimedCall:
    def refuse(what: str, expected: str) -> UsageError:
        return UsageError(f"call {number}: {what}: expected {expected}")

    if not isinstance(raw, dict):
        raise refuse(shortened(raw), "a table such as { at = 0.3, by = 0, on = …, f = … }")
    for name in raw:
        if name not in FIELDS:
            raise refuse(f"{name} is unknown", f"some of {' '.join(FIELDS)}")
    at, nemesis = raw.get("at"), "fault" in raw
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= 604_800:
        raise refuse(f"at = {shortened(at)}", "seconds from 0 to 604,800")
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
    call = Call(f=f, value=value, key=key, node=node, nemesis=nemesis)
    return TimedCall(nanoseconds(at), by, call)


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


def _line(one: TimedCall) -> str:
    """Return a call as a table on one line."""
    call = one.call
    fields: dict[str, str] = {"at": seconds_text(one.at_ns)}
    if call.nemesis:
        fields["fault"] = _toml(call.f)
    else:
        fields |= {"by": str(one.by)}
    if call.node is not None:
        fields["on"] = _toml(call.node)
    if not call.nemesis:
        fields["f"] = _toml(call.f)
    if call.key is not None:
        fields["key"] = str(call.key)
    if call.value is not None:
        plain = not _has_null(call.value)
        fields |= {"value": _toml(call.value)} if plain else {"json": _toml(_json(call.value))}
    return f"{{ {', '.join(f'{name} = {text}' for name, text in fields.items())} }}"


def seconds_text(ns: int) -> str:
    """Return nanoseconds as seconds, exactly and without trailing zeros: "0.0125"."""
    whole, rest = divmod(ns, 1_000_000_000)
    return f"{whole}.{f'{rest:09d}'.rstrip('0') or '0'}"


def _has_null(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_has_null(entry) for entry in value.values())
    return value is None or (isinstance(value, list | tuple) and any(map(_has_null, value)))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _toml(value: Value | Json | tuple[str, ...]) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(name)} = {_toml(entry)}" for name, entry in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(entry) for entry in value)}]"
    # TOML's basic strings are JSON's, except that DEL is escaped too.
    return _json(value).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)
