"""Puts ops and faults into words, the same in every checker."""

from collections.abc import Sequence

from harness.core.history import History
from harness.core.op import Op

FEW = 3
"""Maximum number of witnesses of one kind in a verdict."""


def seconds(time_ns: int) -> str:
    """Return a time since the start of the run: "8.114 s"."""
    return f"{time_ns / 1e9:.3f} s"


def milliseconds(time_ns: int) -> str:
    """Return a duration: "45,012 ms"; below 10 ms with its microseconds: "0.317 ms"."""
    ms = time_ns / 1e6
    return f"{ms:,.0f} ms" if ms >= 10 else f"{ms:.3f} ms"


def number(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: "1 value", "1,989 reads". `many` defaults to `one` with an
    s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(values: Sequence[object], most: int = 5) -> str:
    """Return the first values, and how many more there are: "3, 4, 5 and 2 more"."""
    shown = ", ".join(str(value) for value in values[:most])
    return shown + (f" and {len(values) - most:,} more" if len(values) > most else "")


def during(history: History, time_ns: int) -> str:
    """Describe the faults at a moment; "" without any. Faults in force read ", during partition
    {ch1 zk1 | ch2 ch3}". Faults invoked and not yet verified may be in force and read ", while kill
    ch2 was being injected (verified at 2.489 s)"."""
    in_force = [f"{fault.name} {fault.text}".strip() for fault in history.faults_at(time_ns)]
    begun = [
        f"{fault.name} {fault.text} was being injected (verified at {seconds(fault.begin_ns)})"
        for fault in history.faults_unverified_at(time_ns)
    ]
    return (f", during {' and '.join(in_force)}" if in_force else "") + (
        f", while {' and '.join(begun)}" if begun else ""
    )


def on_key(op: Op) -> str:
    """Return the key of an op: " of key 2"."""
    return "" if op.key is None else f" of key {op.key}"


def where(op: Op) -> str:
    """Return the node of an op: " on ch2"."""
    return "" if op.node is None else f" on {op.node}"


def insert_began(history: History, value: int, invoke: Op) -> str:
    """Describe the begin of an insert as a step of a witness."""
    return (
        f"op #{invoke.index} insert {value}{where(invoke)} began at "
        f"{seconds(invoke.time_ns)}{during(history, invoke.time_ns)}"
    )


def insert_acknowledged(history: History, value: int, ack: Op) -> str:
    """Describe an acknowledgement as a step of a witness."""
    return (
        f"op #{ack.index} insert {value}{where(ack)} was acknowledged at "
        f"{seconds(ack.time_ns)}{during(history, ack.time_ns)}"
    )


def read_answered(history: History, invoke: Op, end: Op, found: str) -> str:
    """Describe a read as a step of a witness; `found` is a text such as "without 417"."""
    count = len(end.value) if isinstance(end.value, tuple) else 0
    return (
        f"op #{invoke.index} {invoke.f}{where(invoke)} began at {seconds(invoke.time_ns)} and "
        f"returned {number(count, 'value')} at {seconds(end.time_ns)} (op #{end.index}) {found}"
        f"{during(history, invoke.time_ns)}"
    )
