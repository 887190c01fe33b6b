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

In place of calls with times, a script may have steps, each of which begins when the one before it
is over; harness/run/stepwise.py says which.

`options` are those of `harness run` by their long names. `at` is in seconds since the run began. A
call without `fault` is made by the client with the number `by`, which may call every replica. What
comes after the script is that of every run: heal, wait for quiescence, final reads. A file with
`faults` in place of `calls` has those of the nemesis alone; the workload makes its own calls.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from harness.core.bounded_json import open_regular
from harness.core.errors import HarnessError, UsageError
from harness.core.op import EXTEND, NEMESIS, Call, Kind, Op
from harness.core.protocols import Generator
from harness.core.ranges import shortened
from harness.generators.script import ScriptStep, TimedCall, script, timetable
from harness.generators.steps import NEMESIS_NUMBER, nanoseconds
from harness.run.script_calls import CALL_FIELDS, call_fields, call_of, line_of, seconds_text, toml
from harness.run.stepwise import steps_calls, steps_in, steps_text

BYTES_MAX: Final = 16 << 20
"""Maximum size of a file."""
FIELDS: Final = ("at", *CALL_FIELDS)
FORMS: Final = ("calls", "faults", "steps")
"""Lists of which [script] has one."""


@dataclass(frozen=True)
class ScriptedRun:
    """Options of a run and the calls and faults that it makes."""

    options: Mapping[str, str | tuple[str, ...]]
    """Options of `harness run` by their long names; one that may be repeated has a tuple."""
    calls: tuple[TimedCall, ...]
    """Calls and faults in order of time."""
    steps: tuple[ScriptStep, ...] = ()
    """Steps in place of times."""
    faults_alone: bool = False
    """True if the calls are the nemesis' alone, and clients make those of the workload."""

    @cached_property
    def made(self) -> Sequence[tuple[int, Call]]:
        """The client of each call and fault, and the call."""
        return steps_calls(self.steps) if self.steps else [(c.by, c.call) for c in self.calls]

    @cached_property
    def clients(self) -> int:
        """Number of clients, at least 1."""
        return max([0, *(by for by, _ in self.made)]) + 1

    @property
    def generator(self) -> Generator:
        """Return the generator that plays it."""
        return script(self.steps) if self.steps else timetable(self.calls)

    @property
    def faults(self) -> tuple[TimedCall, ...]:
        """Return the calls of the nemesis."""
        return tuple(one for one in self.calls if one.by == NEMESIS_NUMBER)

    @property
    def text(self) -> str:
        """Return the file, without comments. Equal runs have equal texts."""
        options = [f"{name} = {toml(value)}" for name, value in sorted(self.options.items())]
        name, lines = "steps", steps_text(self.steps)
        if not self.steps:
            name = "faults" if self.faults_alone else "calls"
            lines = [_line(one) for one in self.calls]
        calls = [f"  {line}," for line in lines]
        return "\n".join(["[options]", *options, "", "[script]", f"{name} = [", *calls, "]", ""])


def commented(run: ScriptedRun, comments: Sequence[str]) -> str:
    """Return the file with these lines above it."""
    return "".join(f"# {line}".rstrip() + "\n" for line in comments) + "\n" + run.text


def write_script(path: Path, run: ScriptedRun, comments: Sequence[str]) -> str:
    """Write the file with these lines above it, and return its text. Raises HarnessError."""
    text = commented(run, comments)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error.strerror}") from error
    return text


def script_of(history: Iterable[Op], workers: int) -> tuple[TimedCall, ...]:
    """Return the calls and faults of a history up to its heal; `workers` is the number of clients'
    workers, those of the final reads included, by which a retired process is renumbered."""
    calls: list[TimedCall] = []
    for op in history:
        if op.process == NEMESIS and op.f == "heal":
            break
        if op.kind is not Kind.INVOKE or op.f == EXTEND:
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
        text = raw.decode()
    except OSError as error:
        raise UsageError(f"script {path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"script {path}: is no TOML: {error}") from error
    try:
        return script_text(text)
    except UsageError as error:
        raise UsageError(f"script {path}: {error}") from None


def script_text(text: str) -> ScriptedRun:
    """Return the run of a file's text. Raises UsageError, with the place in it."""
    try:
        return _run_of(tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is no TOML: {error}") from error


def _run_of(values: Mapping[str, Any]) -> ScriptedRun:
    if set(values) != {"options", "script"} or not all(
        isinstance(v, dict) for v in values.values()
    ):
        raise UsageError(f"tables {' '.join(values) or 'none'}: expected [options] and [script]")
    form, calls = next(iter(values["script"].items()), ("", None))
    if len(values["script"]) != 1 or form not in FORMS or not isinstance(calls, list):
        raise UsageError(
            f"[script] has {' '.join(values['script'])}: expected calls, faults or steps, a list"
        )
    options: dict[str, str | tuple[str, ...]] = {}
    for name, value in values["options"].items():
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            options[name] = tuple(value)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            options[name] = str(value)
        else:
            raise UsageError(f"option {name} = {shortened(value)}: expected text or a list of it")
    if form == "steps":
        return ScriptedRun(options, (), steps_in(calls))
    timed = [_call_of(at, one) for at, one in enumerate(calls, 1)]
    for at, (before, after) in enumerate(pairwise(timed), 2):
        if after.at_ns < before.at_ns:
            raise UsageError(
                f"call {at}: at = {after.at_ns / 1e9:g} is before the call above it; expected "
                "calls in order of time"
            )
    if form == "faults" and any(one.by != NEMESIS_NUMBER for one in timed):
        raise UsageError("a call of a client among the faults: expected faults alone, or calls")
    return ScriptedRun(options, tuple(timed), faults_alone=form == "faults")


def _call_of(number: int, raw: object) -> TimedCall:
    if not isinstance(raw, dict):
        raise UsageError(
            f"call {number}: {shortened(raw)}: expected a table such as "
            "{ at = 0.3, by = 0, on = …, f = … }"
        )
    at = raw.get("at")
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= 604_800:
        raise UsageError(f"call {number}: at = {shortened(at)}: expected seconds from 0 to 604,800")
    by, call = call_of(number, raw, FIELDS)
    return TimedCall(nanoseconds(at), by, call)


def _line(one: TimedCall) -> str:
    """Return a call as a table on one line."""
    return line_of({"at": seconds_text(one.at_ns), **call_fields(one.by, one.call)})
