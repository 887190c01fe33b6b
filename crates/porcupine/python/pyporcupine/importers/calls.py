"""Matches calls with their ends, by process."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pyporcupine._pyporcupine import Operation
from pyporcupine.importers.record import (
    Event,
    EventKind,
    FailedCall,
    Malformed,
    Reading,
    shown,
)

READ_LIKE: Final = frozenset(
    {
        *("read", "get", "dequeue", "pop", "pop-front", "pop-back", "delete-min"),
        *("drain", "generate"),
    }
)
"""Operations whose end says what they found; the value of their call says nothing."""
CAS: Final = "cas"
TXN: Final = "txn"
MICRO_OPS: Final = frozenset({TXN, "send", "poll"})
"""Operations whose value is a list of micro-operations; the end has what they found."""
_STEPS: Final = {":read": "read", ":r": "read", "r": "read",
                 ":write": "write", ":w": "write", "w": "write",
                 ":send": "send", ":poll": "poll"}  # fmt: skip
NUMBER_MAX: Final = 2**62
"""Greatest client number, and latest time. The checker stores them in 64 bits and reserves one
value for calls that never returned."""

FailedCas: TypeAlias = Literal["ignore", "observe"]
"""Meaning of a failed cas. With "ignore" it says only that it did not happen. That is all that
:fail means in Jepsen's histories: a refused connection may be the cause. With "observe" it found
another value than the expected one, as a cas that was answered did."""


@dataclass(frozen=True, slots=True)
class MatchedCall:
    """A call and, as far as is known, its end."""

    invoke: Event
    end: Event | None = None
    """The ok or fail; None if the call never returned."""
    at: tuple[int, int | None] = (0, None)
    """Positions of the call and its end among all events."""


def operations(
    events: Sequence[Event],
    failed_cas: FailedCas,
    *,
    reads: Collection[str] = READ_LIKE,
    place: str = "on line",
) -> Reading:
    """Return the operations of events in order of time. Times are positions in that order.

    An info says nothing: the operation may take effect at any time after its call, or never. A
    failed call is left out, because it certainly did not happen; a failed cas is kept only if its
    end repeats its pair and `failed_cas` is "observe". `reads` are the operations whose end says
    what they found. `place` introduces the number of another event in an error.
    """
    reading = Reading()
    for call in match(events, reading.malformed, place):
        operation = _operation(call, failed_cas, reads)
        if operation is None:
            invoke, end = call.invoke, call.end
            assert end is not None, "only what failed is left out"
            reading.left_out += 1
            reading.failed.append(FailedCall(invoke.f, invoke.key, invoke.value, end.line))
            continue
        if call.end is not None and call.end.final:
            reading.final.add(len(reading.operations))
        reading.operations.append(operation)
        reading.lines.append((call.invoke.line, None if call.end is None else call.end.line))
    reading.malformed.sort(key=lambda bad: bad.line)
    return reading


def match(
    events: Sequence[Event], malformed: list[Malformed], place: str = "on line"
) -> list[MatchedCall]:
    """Return the calls in the order of their invocations, each with its end. Adds the events that
    belong to no call to `malformed`."""
    calls: list[MatchedCall] = []
    in_flight: dict[int | str, int] = {}
    retired: set[int | str] = set()
    for at, event in enumerate(events):
        found = f"{event.kind} of process {event.process}"
        if event.kind is EventKind.INVOKE:
            if event.process in in_flight:
                before = calls[in_flight[event.process]].invoke.line
                over = "an info retires its process: give it a new number after that"
                mend = over if event.process in retired else "a process has one call in flight"
                expected = f"the end of its call {place} {before} first"
                malformed.append(Malformed(event.line, "type", found, expected, mend))
                continue
            in_flight[event.process] = len(calls)
            calls.append(MatchedCall(event, at=(at, None)))
        elif event.process not in in_flight or event.process in retired:
            expected = "a call of this process before it"
            mend = "add the call, or remove the end"
            malformed.append(Malformed(event.line, "type", found, expected, mend))
        elif event.f != (invoke := calls[in_flight[event.process]].invoke).f:
            expected = f"{invoke.f!r}, as in its call {place} {invoke.line}"
            malformed.append(Malformed(event.line, "f", repr(event.f), expected))
        elif event.kind is EventKind.INFO:
            retired.add(event.process)
        else:
            opened = in_flight.pop(event.process)
            calls[opened] = MatchedCall(invoke, event, (calls[opened].at[0], at))
    return calls


def _operation(
    call: MatchedCall, failed_cas: FailedCas, reads: Collection[str]
) -> Operation | None:
    invoke, end = call.invoke, call.end
    value: Any = None if invoke.f in reads else invoke.value
    output: Any = None
    if invoke.f in MICRO_OPS:
        value = transaction(value)
    if end is not None:
        failed = end.kind is EventKind.FAIL
        if failed:
            refused = invoke.f == CAS and end.value == invoke.value
            if not (refused and failed_cas == "observe"):
                return None
        if invoke.f == CAS:
            output = not failed
        elif invoke.f in reads:
            output = end.value
        elif invoke.f in MICRO_OPS:
            output = transaction(end.value)
        elif value is None:
            value = end.value  # what is done is drawn by the client in some tests
    start, stop = call.at
    return Operation(
        invoke.process, invoke.f, invoke.key, value, call=start, ret=stop, output=output
    )


def transaction(value: Any) -> Any:
    """Return a transaction in the checker's form: [["read", "x", 1], ["write", "y", 2]].

    Histories have :read and :write, or :r and :w. A value that is no transaction stays as it is,
    for the checker to refuse.
    """
    if not isinstance(value, list):
        return value
    return [
        [_STEPS.get(step[0], step[0]), *step[1:]]
        if isinstance(step, list) and step and isinstance(step[0], str)
        else step
        for step in value
    ]


def process_of(value: object, line: int) -> int | Malformed:
    """Return the number of a client, or what is wrong with it."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= NUMBER_MAX:
        return value
    return Malformed(line, "process", shown(value), "the number of a client")
