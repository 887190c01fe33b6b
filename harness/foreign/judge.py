"""The verdict on a file that was read."""

import re
import time
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Final, Literal, TypeAlias

import pyporcupine

from harness.core.verdict import Status
from harness.foreign.formats import Model
from harness.foreign.record import Malformed, Reading

Consistency: TypeAlias = Literal["linearizable", "sequential"]
REFUSED_MAX: Final = 20
"""Rows that the checker refuses are told one by one, up to this many."""
_ROW: Final = re.compile(r"\brow (\d+)\b")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of each file."""

    model: Model
    consistency: Consistency = "linearizable"
    initial: int | str | bool | EllipsisType | None = ...
    """...: the model's own."""
    time_s: float | None = None
    """For each key, as `memory_mb` is."""
    memory_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What is concluded of one file."""

    path: str
    status: Status
    """UNKNOWN where the file could not be read as a whole."""
    reading: Reading = field(default_factory=Reading)
    objects: tuple[pyporcupine.ObjectResult, ...] = ()
    took_s: float = 0.0

    @property
    def read(self) -> bool:
        """Whether there is a history to judge."""
        return not self.reading.malformed

    @property
    def telling(self) -> list[pyporcupine.ObjectResult]:
        """The keys that decide: INVALID or UNKNOWN as the file is."""
        return [one for one in self.objects if one.status == self.status.value]


def judge(path: str, reading: Reading, question: Question) -> Judged:
    """VALID needs an operation; UNKNOWN when a line is malformed or a key is out of budget."""
    if reading.malformed:
        return Judged(path, Status.UNKNOWN, reading)
    began = time.perf_counter()
    try:
        result = _check(reading.operations, question)
    except pyporcupine.HistoryError as error:
        return Judged(path, Status.UNKNOWN, _refused(reading, question, error))
    status = Status(result.status) if reading.operations else Status.UNKNOWN
    return Judged(path, status, reading, tuple(result.objects), time.perf_counter() - began)


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
        row = _ROW.search(str(last))
        if row is None:
            raise last
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
    text = _ROW.sub(lambda row: f"line {lines[int(row[1])][0]}", text)
    said = re.match(r"^line \d+: (?:(.*?) is (.*), expected (.*)|(.*))$", text, re.S)
    assert said is not None, "the text of a HistoryError begins with its row"
    if said[1] is None:
        return Malformed(line, "the operation", said[4], "an order that is possible")
    bad = Malformed(line, said[1], said[2], said[3])
    return (
        replace(bad, mend="correct it, or judge with another --model") if bad.field == "f" else bad
    )
