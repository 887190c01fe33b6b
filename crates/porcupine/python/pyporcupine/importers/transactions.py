"""Turns events into transactions: lists of appends or writes, and of reads."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, get_args

from pyporcupine._pyporcupine import Transaction
from pyporcupine.importers.calls import TXN, MatchedCall, match
from pyporcupine.importers.record import Event, EventKind, Malformed, Reading, shown

TransactionModel: TypeAlias = Literal["list-append", "rw-register"]
TRANSACTION_MODELS: Final[tuple[TransactionModel, ...]] = get_args(TransactionModel)
_NAMES: Final = {":append": "append", ":r": "r", ":read": "r", "read": "r",
                 ":w": "w", ":write": "w", "write": "w"}  # fmt: skip
_READ: Final = "r"


def transactions(events: Sequence[Event]) -> Reading:
    """Return the transactions of events in order of time. Times are positions in that order.

    A failed transaction is kept, because nobody may read what it wrote. What a transaction read
    that did not commit says nothing.
    """
    reading = Reading()
    kept = list[Event]()
    for event in events:
        micro_ops = _micro_ops(event)
        if event.f != TXN:
            expected = f'"{TXN}", a transaction'
            reading.malformed.append(Malformed(event.line, "f", shown(event.f), expected))
        elif isinstance(micro_ops, Malformed):
            reading.malformed.append(micro_ops)
        else:
            kept.append(replace(event, value=micro_ops))
    if reading.malformed:
        return reading
    for call in match(kept, reading.malformed):
        reading.transactions.append(_transaction(call))
        reading.lines.append((call.invoke.line, None if call.end is None else call.end.line))
    reading.malformed.sort(key=lambda bad: bad.line)
    return reading


def _transaction(call: MatchedCall) -> Transaction:
    called, returned = call.at
    invoke, end = call.invoke, call.end
    if end is not None and end.kind is EventKind.OK:
        return Transaction(invoke.process, end.value, call=called, ret=returned)
    unread = [(f, key, None if f == _READ else value) for f, key, value in invoke.value]
    kind: Literal["info", "fail"] = "info" if end is None else "fail"
    return Transaction(invoke.process, unread, call=called, ret=returned, outcome=kind)


def _micro_ops(event: Event) -> list[tuple[Any, Any, Any]] | Malformed:
    """Return the micro-operations of an event; an end may lack them if it is no ok."""
    if event.value is None and event.kind in (EventKind.INFO, EventKind.FAIL):
        return []
    expected = "a list of micro-operations such as [:append 4 2] and [:r 5 nil]"
    if not isinstance(event.value, list):
        if event.kind in (EventKind.INFO, EventKind.FAIL):
            return []  # an error in place of the transaction
        return Malformed(event.line, "value", shown(event.value), expected)
    found = list[tuple[Any, Any, Any]]()
    for step in event.value:
        if not isinstance(step, list) or not 2 <= len(step) <= 3 or not isinstance(step[0], str):
            return Malformed(event.line, "a micro-operation", shown(step), "such as [:r 5 nil]")
        name = _NAMES.get(step[0], step[0])
        if len(step) == 2 and name != _READ:
            return Malformed(event.line, "a micro-operation", shown(step), "such as [:append 4 2]")
        found.append((name, step[1], step[2] if len(step) == 3 else None))
    return found
