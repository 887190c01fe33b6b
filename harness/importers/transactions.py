"""Judges a file with a history of transactions."""

import re
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import pyporcupine
from pyporcupine.importers.record import Malformed, Reading
from pyporcupine.importers.transactions import TransactionModel

from harness.core.verdict import Status
from harness.importers.judge import MEMORY_MB, TIME_S, FileVerdict, writing_picture

SERIALIZABLE: Final = "serializable"
_NAMED: Final = re.compile(r"\bT(\d+)\b")
_ROW: Final = re.compile(r"^row (\d+): (.*)$", re.S)


@dataclass(frozen=True, slots=True)
class TransactionParameters:
    """Parameters of the check of each file of transactions."""

    model: TransactionModel
    consistency: str = SERIALIZABLE
    writes_follow_reads: bool = True
    sequential_keys: bool = False
    linearizable_keys: bool = False
    time_s: float = TIME_S
    """Time budget for all files together, without the time to read them."""
    memory_mb: float = MEMORY_MB
    """Memory budget for one file."""


def judge_transactions(
    path: str, reading: Reading, parameters: TransactionParameters
) -> FileVerdict:
    """Return the verdict on one file. It is UNKNOWN when a line is malformed, when a budget runs
    out before an anomaly is found, and when no transaction that committed read anything."""
    if reading.malformed:
        return FileVerdict(path, Status.UNKNOWN, reading)
    began = time.perf_counter()
    try:
        result = pyporcupine.check_transactions(reading.transactions, **_arguments(parameters))
    except pyporcupine.HistoryError as error:
        bad = _refused(reading, str(error))
        return FileVerdict(path, Status.UNKNOWN, Reading(malformed=[bad], format=reading.format))
    took_s = time.perf_counter() - began
    status, reason = Status(result.status), _reason(result)
    return FileVerdict(path, status, reading, (), took_s, reason, isolation=result)


def draw_transactions(one: FileVerdict, parameters: TransactionParameters, to: Path) -> None:
    """Draw the transactions of a file that was read. Judges it again, with the same budgets. Raises
    UsageError if the page cannot be written."""
    if not one.read:
        return
    arguments = _arguments(parameters)
    with writing_picture(to):
        pyporcupine.visualize_transactions(
            one.reading.transactions, path=to, title=one.path, **arguments
        )


def _arguments(parameters: TransactionParameters) -> dict[str, Any]:
    """Return the arguments of the judge that have the names of its parameters."""
    return {field.name: getattr(parameters, field.name) for field in fields(parameters)}


def smallest_part(reading: Reading, result: pyporcupine.TransactionsResult) -> Sequence[str]:
    """Return the transactions of the witness, each with its lines in the file and the operations
    that belong to it."""
    pieces = zip(result.witness, result.witness_ops, strict=True)
    return [f"T{at} is {_shown(reading, at, set(ops))}" for at, ops in pieces]


def in_words(reading: Reading, anomaly: pyporcupine.Anomaly) -> Sequence[str]:
    """Return the transactions of an anomaly, each with its lines in the file, then what they show
    together."""
    named = {int(at) for at in _NAMED.findall(anomaly.text)}
    shown = [f"T{at} is {_shown(reading, at)}" for at in sorted(named & _positions(reading))]
    return [*shown, *anomaly.text.split("; ")]


def _positions(reading: Reading) -> set[int]:
    return set(range(len(reading.transactions)))


def _shown(reading: Reading, at: int, ops: Container[int] | None = None) -> str:
    """Return a transaction in words: all of its operations, or those at these positions."""
    call, end = reading.lines[at]
    where = f"line {call}" if call == end else f"lines {call}–{'' if end is None else end}"
    one = reading.transactions[at]
    kept = [step for at, step in enumerate(one.micro_ops) if ops is None or at in ops]
    steps = ", ".join(_step(*step) for step in kept)
    ended = {"ok": "", "info": ", outcome unknown", "fail": ", failed"}[one.outcome]
    return f"{where}, process {one.process}: {steps}{ended}"


def _step(f: str, key: object, value: object) -> str:
    if f != "r":
        return f"{f} {key} {value}"
    return f"r {key}" if value is None else f"r {key} → {value}"


def _reason(result: pyporcupine.TransactionsResult) -> str:
    if not result.violated:
        return result.reason
    text = f"{result.reason}; violated: {', '.join(result.violated)}"
    return f"{text}, and so {', '.join(result.also_violated)}" if result.also_violated else text


def _refused(reading: Reading, text: str) -> Malformed:
    match = _ROW.match(text)
    assert match is not None, "the text of a HistoryError begins with its row"
    line = reading.lines[int(match[1])][0]
    told = re.sub(r"\brow (\d+)\b", lambda row: f"line {reading.lines[int(row[1])][0]}", match[2])
    found, _, expected = told.partition(", expected ")
    field, _, value = found.partition(" is ")
    if not value or found.startswith("it "):
        field, value = "the transaction", f"wrong, as {found}"
    return Malformed(line, field, value, expected)
