"""Constraints of a simulated run: orders of messages on which its anomaly may depend.

A *constraint* is that one message takes effect after another of another replica. The order of most
messages is that of any run; so the script is also run without its faults under other seeds, and a
constraint is

1. an order of two conflicting messages that is rare there, or not the usual one and about the same
   parts, or
2. an order of two conflicting messages of which the first is held back by another constraint: what
   usually follows from their times does not follow then, or
3. that a replica announces a part while a select of its own is between the choice of parts and the
   look for the last one, if that is rare: the select is sent, the part is announced, the select
   goes on, or
4. that a replica never announces a part which it announces in most of those runs, if it announces
   none that it did not insert.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Final

from harness.search.message_log import OF_PART, SERIAL, KeyMessage
from harness.search.played_run import OF_CALLS, PlayedRun, SimulatedCall, calls_that_send

USUAL: Final = 0.75
"""Share of the other runs in which an order is the usual one."""
RARE: Final = 0.25
"""Share below which an order is rare. Others that are not usual, such as which of two replicas is
the first to fetch, are constraints only if they are about the parts of a rare one."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """The message `later` takes effect after `earlier`."""

    earlier: KeyMessage | None
    """None if `later` never takes effect."""
    later: KeyMessage
    why: str
    sent: bool = False
    """True if it takes effect after `earlier` was sent, which may take effect later."""

    def __str__(self) -> str:
        if self.earlier is None:
            return f"{self.later.name} never ({self.why})"
        sent = " is sent" if self.sent else ""
        return f"{self.earlier.name}{sent} < {self.later.name} ({self.why})"


def constraints_of(red: PlayedRun, others: Sequence[PlayedRun]) -> Sequence[Constraint]:
    """Return the constraints of a run; `others` are runs of its script without its faults, under
    other seeds."""
    pairs = [
        (one, other)
        for one, other in combinations(red.messages, 2)
        if one.conflicts(other)
        and one.rule and other.rule and one.lost != "request" and other.lost != "request"
        # A ZooKeeper server that lags answers a select by an old state: the fault stays.
        and one.effect_ns <= other.effect_ns
        and not _ordered_by_calls(one, other, red.calls)
        and not (other.what in OF_CALLS and other.effect_ns > red.end_ns)  # of final reads
    ]  # fmt: skip
    usual = UsualOrder(others)
    shares = {
        (one.name, other.name): (usual(one.name, other.name), one, other)
        for one, other in pairs
        if one.effect_ns <= red.end_ns
    }
    rare = {m.part for share, *both in shares.values() if share < RARE for m in both}
    found = {
        names: Constraint(one, other, "unusual order")
        for names, (share, one, other) in shares.items()
        if share < (USUAL if {one.part, other.part} <= rare else RARE)
        and (other.effect_ns <= red.end_ns or usual.sent(other.name) > USUAL)
    }
    within = [
        (select, part)
        for part, select in pairs
        if (part.what, select.what) == ("part", "select") and part.node == select.node
        and _begin_ns(select, red) < part.effect_ns
        and usual.within(select.name, part.name) < RARE
    ]  # fmt: skip
    found |= {
        (part.name, select.name): Constraint(part, select, "within a select")
        for select, part in within
    }
    held: set[str] = {constraint.later.name for constraint in found.values()}
    for one, other in pairs:  # in ZooKeeper's order, so that once is enough
        if one.effect_ns > red.end_ns:
            continue
        if one.name in held and (one.name, other.name) not in found and other.what != "number":
            found[one.name, other.name] = Constraint(one, other, "the first is held back")
            held.add(other.name)
    fetching = {message.node for message in red.messages if message.what == "part"}
    never = [message for message in usual.parts if message.node not in fetching]
    return [
        *_reduced(found),
        *(Constraint(None, message, "unusual") for message in never),
        *(Constraint(select, part, "within a select", sent=True) for select, part in within),
    ]


def _ordered_by_calls(one: KeyMessage, other: KeyMessage, calls: Sequence[SimulatedCall]) -> bool:
    """Return whether the call that sends the second message begins after the end of the one that
    sends the first."""
    ends_ns = [call.end_ns for call in calls_that_send(one, calls)]
    begins_ns = [call.begin_ns for call in calls_that_send(other, calls)]
    return bool(ends_ns and begins_ns) and max(ends_ns) < min(begins_ns)


class UsualOrder:
    """How often one message takes effect before another in other runs."""

    def __init__(self, others: Sequence[PlayedRun]) -> None:
        self._runs = others
        self._messages = [{message.name: message for message in run.messages} for run in others]

    def __call__(self, earlier: str, later: str) -> float:
        """Return the share of those runs in which both are sent; 0 if there is none."""
        both = self._of(earlier, later)
        return sum(one.state < other.state for one, other in both) / len(both) if both else 0.0

    def sent(self, name: str) -> float:
        """Return the share of those runs in which a message is sent."""
        return sum(name in run for run in self._messages) / max(1, len(self._messages))

    @property
    def parts(self) -> Sequence[KeyMessage]:
        """Return the announcements of parts that are usual."""
        named = {name: message for run in self._messages for name, message in run.items()}
        return [m for name, m in named.items() if m.what == "part" and self.sent(name) > USUAL]

    def within(self, select: str, part: str) -> float:
        """Return the share of those in which a part is announced while a select is under way."""
        both = [
            _begin_ns(named[select], run) < named[part].effect_ns < named[select].effect_ns
            for run, named in zip(self._runs, self._messages, strict=True)
            if select in named and part in named
        ]
        return sum(both) / len(both) if both else 0.0

    def _of(self, first: str, second: str) -> Sequence[tuple[KeyMessage, KeyMessage]]:
        runs = self._messages
        return [(run[first], run[second]) for run in runs if first in run and second in run]


def _begin_ns(select: KeyMessage, run: PlayedRun) -> int:
    """Return when the call that sends a message has begun; its parts are chosen later, and may be
    chosen before the message is sent."""
    begins_ns = [call.begin_ns for call in calls_that_send(select, run.calls)]
    return max(begins_ns, default=select.sent_ns)


def _thread(message: KeyMessage) -> tuple[str, str] | None:
    """Return the thread of a replica that sends a message after the answer to the one before, if
    that is known: by the part that it is about, or "" for the thread that makes it active."""
    if message.what in SERIAL:
        return message.node, ""
    return (message.node, message.part) if message.what in OF_PART else None


def _reduced(found: Mapping[tuple[str, str], Constraint]) -> Sequence[Constraint]:
    """Return the constraints, by their two messages, without those that follow from others."""
    after: dict[str, set[str]] = {}
    for earlier, later in found:
        after.setdefault(earlier, set()).add(later)
    serial = sorted(
        {one.later.name: one.later for one in found.values() if _thread(one.later)}.values(),
        key=lambda message: (_thread(message), message.state),
    )
    for message, following in pairwise(serial):
        if _thread(message) == _thread(following):
            after.setdefault(message.name, set()).add(following.name)

    def reaches(start: str, goal: str) -> bool:
        """Return whether a path leads from one message to another, other than the constraint."""
        left, seen = [start], {start}
        while left:
            name = left.pop()
            for following in after.get(name, ()):
                if (name, following) == (start, goal) or following in seen:
                    continue
                if following == goal:
                    return True
                seen.add(following)
                left.append(following)
        return False

    return [one for names, one in found.items() if not reaches(*names)]
