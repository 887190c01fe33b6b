"""Calls and their ends, matched by process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyporcupine import Operation

from harness.core.op import Kind
from harness.foreign.record import Event, Malformed, Reading, shown

FINDS: Final = frozenset({"read", "get", "dequeue"})
"""The value of their end is what they found; that of their call says nothing."""
CAS: Final = "cas"


@dataclass(frozen=True, slots=True)
class Call:
    """A call, and how it ended as far as is known."""

    invoke: Event
    end: Event | None = None
    """An ok, or a fail; None: it never returned."""
    at: tuple[int, int | None] = (0, None)
    """Their places among all events."""


def operations(events: Sequence[Event], *, failed_cas_found_another: bool = True) -> Reading:
    """The operations of events in order of time. Times are places in that order.

    An info says nothing: the operation may take effect at any time after its call, or never. A
    failed call is left out, for it certainly did not happen; but a cas whose end repeats its pair
    was refused because it found another value, which is an observation (unless told otherwise).
    """
    reading = Reading()
    for call in _matched(events, reading.malformed):
        operation = _operation(call, failed_cas_found_another)
        if operation is None:
            reading.left_out += 1
            continue
        reading.operations.append(operation)
        reading.lines.append((call.invoke.line, None if call.end is None else call.end.line))
    reading.malformed.sort(key=lambda bad: bad.line)
    return reading


def _matched(events: Sequence[Event], malformed: list[Malformed]) -> list[Call]:
    """In order of call."""
    calls: list[Call] = []
    flying: dict[int, int] = {}
    retired: set[int] = set()
    for at, event in enumerate(events):
        found = f"{event.kind} of process {event.process}"
        if event.kind is Kind.INVOKE:
            if event.process in flying:
                before = calls[flying[event.process]].invoke.line
                over = "an info retires its process: give it a new number after that"
                mend = over if event.process in retired else "a process has one call in flight"
                expected = f"the end of its call on line {before} first"
                malformed.append(Malformed(event.line, "type", found, expected, mend))
                continue
            flying[event.process] = len(calls)
            calls.append(Call(event, at=(at, None)))
        elif event.process not in flying or event.process in retired:
            expected = "a call of this process before it"
            mend = "add the call, or remove the end"
            malformed.append(Malformed(event.line, "type", found, expected, mend))
        elif event.f != (invoke := calls[flying[event.process]].invoke).f:
            expected = f"{invoke.f!r}, as in its call on line {invoke.line}"
            malformed.append(Malformed(event.line, "f", repr(event.f), expected))
        elif event.kind is Kind.INFO:
            retired.add(event.process)
        else:
            place = flying.pop(event.process)
            calls[place] = Call(invoke, event, (calls[place].at[0], at))
    return calls


def _operation(call: Call, failed_cas_found_another: bool) -> Operation | None:
    invoke, end = call.invoke, call.end
    value: Any = None if invoke.f in FINDS else invoke.value
    output: Any = None
    if end is not None:
        failed = end.kind is Kind.FAIL
        if failed:
            observed = invoke.f == CAS and end.value == invoke.value
            if not (observed and failed_cas_found_another):
                return None
        if invoke.f == CAS:
            output = not failed
        elif invoke.f in FINDS:
            output = end.value
        elif value is None:
            value = end.value  # what is done is drawn by the client in some tests
    start, stop = call.at
    return Operation(
        invoke.process, invoke.f, invoke.key, value, call=start, ret=stop, output=output
    )


def process_of(value: object, line: int) -> int | Malformed:
    """A client's number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return Malformed(line, "process", shown(value), "the number of a client")
