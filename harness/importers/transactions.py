"""Judges a file with a history of transactions."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyporcupine
from pyporcupine.importers.record import Malformed, Reading
from pyporcupine.importers.transactions import TransactionModel

from harness.core.verdict import Status
from harness.importers.judge import MEMORY_MB, TIME_S, FileVerdict

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
        result = pyporcupine.check_transactions(
            reading.transactions,
            parameters.model,
            consistency=parameters.consistency,
            writes_follow_reads=parameters.writes_follow_reads,
            sequential_keys=parameters.sequential_keys,
            linearizable_keys=parameters.linearizable_keys,
            time_s=parameters.time_s,
            memory_mb=parameters.memory_mb,
        )
    except pyporcupine.HistoryError as error:
        bad = _refused(reading, str(error))
        return FileVerdict(path, Status.UNKNOWN, Reading(malformed=[bad], format=reading.format))
    took_s = time.perf_counter() - began
    status, reason = Status(result.status), _reason(result)
    return FileVerdict(path, status, reading, (), took_s, reason, isolation=result)


def in_words(reading: Reading, anomaly: pyporcupine.Anomaly) -> Sequence[str]:
    """Return the transactions of an anomaly, each with its lines in the file, then what they show
    together."""
    named = {int(at) for at in _NAMED.findall(anomaly.text)}
    shown = [f"T{at} is {_shown(reading, at)}" for at in sorted(named & _positions(reading))]
    return [*shown, *anomaly.text.split("; ")]


def _positions(reading: Reading) -> set[int]:
    return set(range(len(reading.transactions)))


def _shown(reading: Reading, at: int) -> str:
    call, end = reading.lines[at]
    where = f"line {call}" if call == end else f"lines {call}–{'' if end is None else end}"
    one = reading.transactions[at]
    steps = ", ".join(_step(*step) for step in one.micro_ops)
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
