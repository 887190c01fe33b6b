"""Edits of the faults of a scripted run: move, stretch, repeat, remove and retarget one, splice two
timetables. All are pure functions."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from msgspec.structs import replace as replace_struct

from harness.core.op import Json
from harness.generators.script import TimedCall
from harness.search.script_edits import fault_of, renamed

GAP_NS: Final = 1_000_000
"""Time from the end of a fault to the next one of its family."""


@dataclass(frozen=True, slots=True)
class TimedFault:
    """A fault of a timetable: its begin, and its end unless it has none."""

    begin: TimedCall
    end: TimedCall | None

    @property
    def f(self) -> str:
        """Return the family."""
        return self.begin.call.f

    @property
    def length_ns(self) -> int:
        """Return how long it lasts; 0 if it has no end."""
        return 0 if self.end is None else self.end.at_ns - self.begin.at_ns

    def at(self, begin_ns: int, length_ns: int | None = None) -> "TimedFault":
        """Return it at another time, of another length if one is given."""
        begin_ns, length_ns = max(0, begin_ns), self.length_ns if length_ns is None else length_ns
        end = None if self.end is None else replace_struct(self.end, at_ns=begin_ns + length_ns)
        return TimedFault(replace_struct(self.begin, at_ns=begin_ns), end)

    def on(self, names: Mapping[str, str]) -> "TimedFault":
        """Return it on other servers."""
        end = None if self.end is None else _on(self.end, names)
        return TimedFault(_on(self.begin, names), end)


def faults_of(calls: Iterable[TimedCall]) -> tuple[TimedFault, ...]:
    """Return the faults of a timetable, in the order of their begins. An end that is called again
    is left out, and so is one without a begin."""
    begun: dict[object, TimedFault] = {}
    for one in calls:
        edge, name = _value(one).get("edge"), fault_of(one)
        if edge == "end":
            fault = begun.get(name)
            if fault is not None and fault.end is None and _value(fault.begin)["edge"] == "begin":
                begun[name] = replace(fault, end=one)
        else:
            begun[name] = TimedFault(one, None)
    return tuple(begun.values())


def timetable_of(faults: Iterable[TimedFault]) -> tuple[TimedCall, ...]:
    """Return the calls of these faults in order of time, with fresh numbers. A family has one fault
    at a time: one that another overtakes ends before it."""
    last: dict[str, int] = {}
    kept: list[TimedFault] = []
    for fault in sorted(faults, key=lambda fault: fault.begin.at_ns):
        before = last.get(fault.f)
        if before is not None:
            other = kept[before]
            begin_ns = max(fault.begin.at_ns, other.begin.at_ns + 2 * GAP_NS)
            fault = fault.at(begin_ns)
            if other.end is not None and other.end.at_ns >= begin_ns:
                kept[before] = other.at(other.begin.at_ns, begin_ns - GAP_NS - other.begin.at_ns)
        last[fault.f] = len(kept)
        kept.append(fault)
    calls = [
        _numbered(call, number)
        for number, fault in enumerate(kept, 1)
        for call in (fault.begin, fault.end)
        if call is not None
    ]
    return tuple(sorted(calls, key=lambda one: one.at_ns))


def spliced(
    first: Sequence[TimedFault], second: Sequence[TimedFault], cut_ns: int, shift_ns: int = 0
) -> tuple[TimedFault, ...]:
    """Return the faults of the first that begin before a time, and those of the second that begin
    from then on, after a shift."""
    later = [fault.at(fault.begin.at_ns + shift_ns) for fault in second]
    return (
        *(fault for fault in first if fault.begin.at_ns < cut_ns),
        *(fault for fault in later if fault.begin.at_ns >= cut_ns),
    )


def _numbered(call: TimedCall, number: int) -> TimedCall:
    value = {**_value(call), "fault": number}
    return replace_struct(call, call=replace_struct(call.call, value=value))


def _on(call: TimedCall, names: Mapping[str, str]) -> TimedCall:
    value = dict(cast(Mapping[str, Json], renamed(_value(call), names)))
    text = _value(call).get("text")
    if isinstance(text, str):
        value["text"] = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)
    return replace_struct(call, call=replace_struct(call.call, value=value))


def _value(call: TimedCall) -> Mapping[str, Json]:
    value = call.call.value
    assert isinstance(value, Mapping), "the value of a fault is a table"
    return value
