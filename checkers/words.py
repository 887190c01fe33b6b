"""How ops and faults are put into words, the same in every checker."""

from collections.abc import Sequence

from harness.core.history import History
from harness.core.op import Op

FEW = 3
"""Witnesses of one kind that a verdict carries."""


def seconds(time_ns: int) -> str:
    """Time since the run began: "8.114 s"."""
    return f"{time_ns / 1e9:.3f} s"


def milliseconds(time_ns: int) -> str:
    """A duration: "45,012 ms"; below 10 ms with its microseconds: "0.317 ms"."""
    ms = time_ns / 1e6
    return f"{ms:,.0f} ms" if ms >= 10 else f"{ms:.3f} ms"


def number(count: int, one: str, many: str = "") -> str:
    """ "1 value", "1,989 reads"; `many` is `one` with an s unless given."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(values: Sequence[object], most: int = 5) -> str:
    """ "3, 4, 5", and how many more."""
    shown = ", ".join(str(value) for value in values[:most])
    return shown + (f" and {len(values) - most:,} more" if len(values) > most else "")


def during(history: History, time_ns: int) -> str:
    """The faults of a moment; "" without any. Those in force: ", during partition {ch1 zk1 | ch2
    ch3}"; those invoked and not yet verified, which may be in force: ", while kill ch2 was being
    injected (verified at 2.489 s)"."""
    in_force = [f"{fault.name} {fault.text}".strip() for fault in history.faults_at(time_ns)]
    begun = [
        f"{fault.name} {fault.text} was being injected (verified at {seconds(fault.begin_ns)})"
        for fault in history.faults_unverified_at(time_ns)
    ]
    return (f", during {' and '.join(in_force)}" if in_force else "") + (
        f", while {' and '.join(begun)}" if begun else ""
    )


def on_key(op: Op) -> str:
    """ " of key 2"."""
    return "" if op.key is None else f" of key {op.key}"


def where(op: Op) -> str:
    """ " on ch2"."""
    return "" if op.node is None else f" on {op.node}"


def insert_began(history: History, value: int, invoke: Op) -> str:
    """A step of a witness."""
    return (
        f"op #{invoke.index} insert {value}{where(invoke)} began at "
        f"{seconds(invoke.time_ns)}{during(history, invoke.time_ns)}"
    )


def insert_acknowledged(history: History, value: int, ack: Op) -> str:
    """A step of a witness."""
    return (
        f"op #{ack.index} insert {value}{where(ack)} was acknowledged at "
        f"{seconds(ack.time_ns)}{during(history, ack.time_ns)}"
    )


def read_answered(history: History, invoke: Op, end: Op, found: str) -> str:
    """A step of a witness; `found` is such as "without 417"."""
    count = len(end.value) if isinstance(end.value, tuple) else 0
    return (
        f"op #{invoke.index} {invoke.f}{where(invoke)} began at {seconds(invoke.time_ns)} and "
        f"returned {number(count, 'value')} at {seconds(end.time_ns)} (op #{end.index}) {found}"
        f"{during(history, invoke.time_ns)}"
    )
