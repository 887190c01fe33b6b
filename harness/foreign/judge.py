"""The verdict on a file that was read."""

import re
import time
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Final, Literal, TypeAlias

import pyporcupine

from checkers.words import number
from harness.core.verdict import Status
from harness.foreign.calls import FINDS, TXN
from harness.foreign.formats import Model
from harness.foreign.record import Malformed, Reading, cut

Consistency: TypeAlias = Literal["linearizable", "sequential"]
TIME_S: Final = 60.0
MEMORY_MB: Final = pyporcupine.MEMORY_MB
REFUSED_MAX: Final = 20
"""Rows that the checker refuses are told one by one, up to this many."""
_ROW: Final = re.compile(r"\brow (\d{1,9})\b")
OBSERVES: Final = FINDS | {"acquire", "release"}
"""What is an observation even without an output: a read found None, a lock was free or held."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of each file."""

    model: Model
    consistency: Consistency = "linearizable"
    initial: int | str | bool | EllipsisType | None = ...
    """...: the model's own."""
    time_s: float = TIME_S
    """For all files together, beside what it takes to read them."""
    memory_mb: float = MEMORY_MB
    """For all keys of a file together."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is concluded of one file."""

    path: str
    status: Status
    """UNKNOWN where the file could not be read as a whole."""
    reading: Reading = field(default_factory=Reading)
    objects: tuple[pyporcupine.ObjectResult, ...] = ()
    took_s: float = 0.0
    reason: str = ""
    """Why the file is UNKNOWN though none of its keys is."""

    @property
    def read(self) -> bool:
        """Whether there is a history to judge."""
        return not self.reading.malformed

    @property
    def telling(self) -> list[pyporcupine.ObjectResult]:
        """The keys that decide: INVALID or UNKNOWN as the file is."""
        return [one for one in self.objects if one.status == self.status.value]


def judge(path: str, reading: Reading, question: Question) -> Judged:
    """Return the verdict on one file.

    It is UNKNOWN when a line is malformed, when a key is out of budget, and when no operation says
    anything that an order of the operations could contradict: VALID needs something checked.
    """
    if reading.malformed:
        return Judged(path, Status.UNKNOWN, reading)
    began = time.perf_counter()
    try:
        result = _check(reading.operations, question)
    except pyporcupine.HistoryError as error:
        return Judged(path, Status.UNKNOWN, _refused(reading, question, error))
    objects, took_s = tuple(result.objects), time.perf_counter() - began
    status, reason = Status(result.status), ""
    if status is Status.VALID and not any(map(_observes, reading.operations)):
        status, reason = Status.UNKNOWN, _nothing_checked(reading)
    return Judged(path, status, reading, objects, took_s, reason)


def _observes(operation: pyporcupine.Operation) -> bool:
    """Whether an operation returned and says something that another order would contradict: what
    it found, or that it held a lock. A write says nothing until somebody reads it."""
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


def _check(operations: list[pyporcupine.Operation], question: Question) -> pyporcupine.Result:
    return pyporcupine.check(
        operations,
        question.model,
        consistency=question.consistency,
        initial=question.initial,
        time_s=question.time_s,
        memory_mb=question.memory_mb,
    )


def _refused(reading: Reading, question: Question, error: pyporcupine.HistoryError) -> Reading:
    """The reading with every row that the checker refuses, found by leaving each out in turn."""
    left, lines = list(reading.operations), list(reading.lines)
    told = Reading(malformed=[])
    brief = Question(question.model, question.consistency, question.initial, time_s=0.001)
    last: pyporcupine.HistoryError | None = error
    while last is not None and len(told.malformed) < REFUSED_MAX:
        row = _ROW.match(str(last))
        assert row is not None, "the text of a HistoryError begins with its row"
        at = int(row[1])
        told.malformed.append(_malformed(str(last), lines, lines[at][0]))
        del left[at], lines[at]
        last = None
        try:
            _check(left, brief)
        except pyporcupine.HistoryError as another:
            last = another
    told.malformed.sort(key=lambda bad: bad.line)
    return told


def _malformed(text: str, lines: list[tuple[int, int | None]], line: int) -> Malformed:
    text = _ROW.sub(lambda row: _line(row, lines), text)
    said = re.match(r"^line \d+: (?:(.*?) is (.*), expected (.*)|(.*))$", text, re.S)
    assert said is not None, "the text of a HistoryError begins with its row"
    if said[1] is None:
        return Malformed(line, "the operation", said[4], "an order that is possible")
    bad = Malformed(line, said[1], cut(said[2]), said[3])
    return (
        replace(bad, mend="correct it, or judge with another --model") if bad.field == "f" else bad
    )


def _line(row: re.Match[str], lines: list[tuple[int, int | None]]) -> str:
    """Name a row by its line. A value may look like a row, so there need not be such a line."""
    at = int(row[1])
    return f"line {lines[at][0]}" if at < len(lines) else row[0]
