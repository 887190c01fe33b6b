"""Judges a file that was read."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import EllipsisType
from typing import Any, Final, Literal, TypeAlias

import pyporcupine
from pyporcupine.importers.calls import READ_LIKE, TXN
from pyporcupine.importers.drains import expand_drains
from pyporcupine.importers.formats import Model
from pyporcupine.importers.record import Key, Malformed, Reading, cut

from checkers.phrasing import number
from harness.core.errors import UsageError
from harness.core.verdict import Status, worst
from harness.importers.initial_values import doubt

Consistency: TypeAlias = Literal["linearizable", "sequential"]
TIME_S: Final = 60.0
MEMORY_MB: Final = pyporcupine.MEMORY_MB
WITH_DRAINS: Final = ("queue", "fifo-queue")
"""Models of objects that histories may drain."""
REFUSED_MAX: Final = 20
"""Maximum number of rows for which the checker's refusal is reported."""
BROKEN_MAX: Final = 5
"""Maximum number of broken promises that a reason names."""
_ROW: Final = re.compile(r"\brow (\d{1,9})\b")
OBSERVES: Final = READ_LIKE | {"acquire", "release"}
"""Operations that observe something even without an output: a read found None, a lock was free or
held."""


@dataclass(frozen=True, slots=True)
class CheckParameters:
    """Parameters of the check of each file."""

    model: Model | pyporcupine.Model[Any]
    """The name of a model of the checker, or one of the user's own."""
    consistency: Consistency = "linearizable"
    initial: int | str | bool | EllipsisType | None = ...
    """Initial value of an object; ... means the model's own."""
    time_s: float = TIME_S
    """Time budget for all files together, without the time to read them."""
    memory_mb: float = MEMORY_MB
    """Memory budget for all keys of one file together."""


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The verdict on one file."""

    path: str
    status: Status
    """UNKNOWN if the file could not be read as a whole."""
    reading: Reading = field(default_factory=Reading)
    objects: tuple[pyporcupine.ObjectResult, ...] = ()
    took_s: float = 0.0
    reason: str = ""
    """Reason why the file is UNKNOWN although none of its keys is."""
    doubts: Mapping[Key, str] = field(default_factory=dict)
    """Keys that are UNKNOWN although the checker found them INVALID, and why: the violation rests
    on an initial value that nobody stated."""
    isolation: pyporcupine.TransactionsResult | None = None
    """The anomalies, if the file has transactions."""
    invariant: pyporcupine.InvariantResult | None = None
    """The findings, if an invariant was judged."""

    def status_of(self, result: pyporcupine.ObjectResult) -> Status:
        """Return the status of one key."""
        return Status.UNKNOWN if result.key in self.doubts else Status(result.status)

    def reason_of(self, result: pyporcupine.ObjectResult) -> str:
        """Return the reason for the status of one key."""
        return self.doubts.get(result.key, result.reason)

    @property
    def read(self) -> bool:
        """Return whether the file was read as a whole, so that it can be judged."""
        return not self.reading.malformed

    @property
    def deciding(self) -> list[pyporcupine.ObjectResult]:
        """Return the keys that decide the file's status: those with the same status."""
        return [one for one in self.objects if self.status_of(one) is self.status]


def judge(path: str, reading: Reading, parameters: CheckParameters) -> FileVerdict:
    """Return the verdict on one file.

    It is UNKNOWN when a line is malformed, when a key is out of budget, and when no operation says
    anything that an order of the operations could contradict: VALID needs something checked. It is
    INVALID when the file itself shows that a promise was broken, such as one of watches.
    """
    if parameters.model in WITH_DRAINS:
        reading = expand_drains(reading)
    if reading.malformed:
        return FileVerdict(path, Status.UNKNOWN, reading)
    began = time.perf_counter()
    try:
        result = _check(reading.operations, parameters)
    except pyporcupine.ModelError as error:
        raise UsageError(f"{path}: {error}") from error
    except pyporcupine.HistoryError as error:
        brief = CheckParameters(
            parameters.model, parameters.consistency, parameters.initial, time_s=0.001
        )
        refused = refused_rows(reading, lambda left: _check(left, brief), error)
        return FileVerdict(path, Status.UNKNOWN, refused)
    status, reason = Status(result.status), ""
    doubts = _doubts(reading.operations, result, parameters)
    if doubts:
        others = [Status(one.status) for one in result.objects if one.key not in doubts]
        status = worst([Status.UNKNOWN, *others])
    objects, took_s = tuple(result.objects), time.perf_counter() - began
    if status is Status.VALID and not any(map(_observes, reading.operations)):
        status, reason = Status.UNKNOWN, _nothing_checked(reading)
    if reading.broken:
        status, reason = Status.INVALID, _broken(reading.broken)
    return FileVerdict(path, status, reading, objects, took_s, reason, doubts)


def reads_of(parameters: object) -> frozenset[str]:
    """Return the operations of a model of the user's own whose end says what they found."""
    model = parameters.model if isinstance(parameters, CheckParameters) else None
    return frozenset(getattr(model, "reads", ()))


def draw_file(one: FileVerdict, parameters: CheckParameters, to: Path) -> None:
    """Draw the history of a file that was read. Decides it again, with the same budgets. Raises
    UsageError if the page cannot be written."""
    if not one.read:
        return
    with writing_picture(to):
        pyporcupine.visualize(
            one.reading.operations,
            parameters.model,
            path=to,
            consistency=parameters.consistency,
            initial=parameters.initial,
            time_s=parameters.time_s,
            memory_mb=parameters.memory_mb,
            title=one.path,
        )


@contextmanager
def writing_picture(to: Path) -> Iterator[None]:
    """Raise UsageError if the picture cannot be written."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"--picture {str(to)!r}: {error}; expected a file to write") from error


def _doubts(
    operations: Sequence[pyporcupine.Operation],
    result: pyporcupine.Result,
    parameters: CheckParameters,
) -> dict[Key, str]:
    """Return the keys that are INVALID only with an initial value that is assumed, and why. All
    keys together have as much time as the check had."""
    model = parameters.model
    if parameters.initial is not ... or result.status != Status.INVALID.value:
        return {}
    if not isinstance(model, str):
        return {}
    until = time.monotonic() + parameters.time_s

    def check(part: Sequence[pyporcupine.Operation], initial: Any) -> str:
        left_s = until - time.monotonic()
        if left_s <= 0:
            return Status.UNKNOWN.value
        return str(_check(part, replace(parameters, initial=initial, time_s=left_s)).status)

    parts: dict[Key, list[pyporcupine.Operation]] = {
        one.key: [] for one in result.objects if one.status == Status.INVALID.value
    }
    for operation in operations:
        if operation.key in parts:
            parts[operation.key].append(operation)
    doubts = {key: doubt(part, model, check) for key, part in parts.items()}
    return {key: why for key, why in doubts.items() if why}


def _observes(operation: pyporcupine.Operation) -> bool:
    """Return whether an operation returned and says something that another order would contradict:
    what it found, or that it held a lock. A write says nothing until somebody reads it."""
    if operation.ret is None:
        return False
    if operation.f == TXN:
        # A read that found nil says nothing.
        steps = operation.output or operation.value
        return any(step[0] == "read" and step[2] is not None for step in steps)
    return operation.output is not None or operation.f in OBSERVES


def _nothing_checked(reading: Reading) -> str:
    if reading.operations:
        return (
            "nothing was checked: no operation that returned says what it found "
            f"({number(len(reading.operations), 'operation')}, {reading.lost} never returned)"
        )
    return f"nothing was checked: {number(reading.left_out, 'call')}, and none of them happened"


def _broken(promises: Sequence[str]) -> str:
    more = len(promises) - BROKEN_MAX
    return "; ".join([*promises[:BROKEN_MAX], *([f"and {more:,} more"] if more > 0 else [])])


def _check(
    operations: Sequence[pyporcupine.Operation], parameters: CheckParameters
) -> pyporcupine.Result:
    return pyporcupine.check(
        list(operations),
        parameters.model,
        consistency=parameters.consistency,
        initial=parameters.initial,
        time_s=parameters.time_s,
        memory_mb=parameters.memory_mb,
    )


def refused_rows(
    reading: Reading,
    check: Callable[[Sequence[pyporcupine.Operation]], object],
    error: pyporcupine.HistoryError,
) -> Reading:
    """Return a reading with every row that the checker refuses, found by removing one row after the
    other and calling `check` again."""
    left, lines = list(reading.operations), list(reading.lines)
    refused = Reading(malformed=[], format=reading.format)
    last: pyporcupine.HistoryError | None = error
    while last is not None and len(refused.malformed) < REFUSED_MAX:
        row = _ROW.match(str(last))
        assert row is not None, "the text of a HistoryError begins with its row"
        at = int(row[1])
        refused.malformed.append(_malformed(str(last), lines, lines[at][0]))
        del left[at], lines[at]
        last = None
        try:
            check(left)
        except pyporcupine.HistoryError as another:
            last = another
    refused.malformed.sort(key=lambda bad: bad.line)
    return refused


def _malformed(text: str, lines: list[tuple[int, int | None]], line: int) -> Malformed:
    text = _ROW.sub(lambda row: _line(row, lines), text)
    match = re.match(r"^line \d+: (?:(.*?) is (.*), expected (.*)|(.*))$", text, re.S)
    assert match is not None, "the text of a HistoryError begins with its row"
    if match[1] is None:
        return Malformed(line, "the operation", match[4], "an order that is possible")
    bad = Malformed(line, match[1], cut(match[2]), match[3])
    return (
        replace(bad, mend="correct it, or judge with another --model") if bad.field == "f" else bad
    )


def _line(row: re.Match[str], lines: list[tuple[int, int | None]]) -> str:
    """Describe a row by its line. A value may look like a row, so there need not be such a line."""
    at = int(row[1])
    return f"line {lines[at][0]}" if at < len(lines) else row[0]
