"""Judges an invariant of a file's history."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import pyporcupine
from pyporcupine.importers.finals import name_finals
from pyporcupine.importers.record import Reading

from harness.core.verdict import Status
from harness.importers.judge import MEMORY_MB, TIME_S, FileVerdict, refused_rows

WITH_FINAL_READS: Final = "pn-counter"
"""Invariant that judges final reads alone."""


@dataclass(frozen=True, slots=True)
class InvariantParameters:
    """Parameters of the check of each file by an invariant."""

    model: str
    """One of `pyporcupine.INVARIANTS`."""
    initial: int | None = None
    """The value before the first addition, or the sum of all accounts; None if nobody stated it."""
    negative_balances: bool = False
    linearizable: bool = False
    time_s: float = TIME_S
    """Time budget for all files together, without the time to read them."""
    memory_mb: float = MEMORY_MB
    """Memory budget for one file."""


def judge_invariant(path: str, reading: Reading, parameters: InvariantParameters) -> FileVerdict:
    """Return the verdict on one file. It is UNKNOWN when a line is malformed, when nothing was
    checked or evidence is missing, and when a budget runs out."""
    if parameters.model == WITH_FINAL_READS:
        reading = name_finals(reading)
    if reading.malformed:
        return FileVerdict(path, Status.UNKNOWN, reading)

    def check(operations: Sequence[pyporcupine.Operation]) -> pyporcupine.InvariantResult:
        return pyporcupine.check_invariant(
            operations,
            cast(Any, parameters.model),  # the type that lists the names is the stub's own
            initial=parameters.initial,
            negative_balances=parameters.negative_balances,
            linearizable=parameters.linearizable,
            time_s=parameters.time_s,
            memory_mb=parameters.memory_mb,
        )

    began = time.perf_counter()
    try:
        result = check(reading.operations)
    except pyporcupine.HistoryError as error:
        return FileVerdict(path, Status.UNKNOWN, refused_rows(reading, check, error))
    took_s = time.perf_counter() - began
    reason = result.reason.replace("initial=", "--initial ")
    return FileVerdict(path, Status(result.status), reading, (), took_s, reason, invariant=result)
