"""What a run recorded, as one table of events: the words that signatures of known defects are made
of.

An event is a moment or a period, on a node. A signature names events and how they lie in time, for
example *a replica was paused while another one began to lead*:

    term = facts(history, "leads").until(claim_ns).last
    pauses(history).on(node).maybe_at(term.begin_ns)

`calls` are the periods of clients' calls. `facts` are moments; `_FIELDS` says what each kind has.
`locks`, `claims` and `lost_periods` are the periods that facts begin and end. `kills`, `pauses` and
`store_cuts` are the periods of faults, once for each node that a fault names.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from checkers.conclusion import mapping_of
from checkers.replication.conformance import DEPARTURE, TRACE
from harness.core.history import Fault, History, Pair, memoize_per_history
from harness.core.op import Kind
from harness.core.rows import NEVER_NS

LOCK: Final = "lock"
TEMPORARY_LOCK: Final = "temporary-lock"
_NODE: Final = re.compile(r"[a-z]+[0-9]+")
_STORE: Final = "store"
_KILLS: Final = re.compile(r"(kill|restart|\w[\w-]*-kill)\b")
_AT_A_MOMENT: Final = "-kill"
"""What the names of kills at a moment have, whose text names the victim first."""
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "active": ("node",),
    "applied": ("node", "detail"),
    "assign": ("detail", "node", "part"),
    "claim": ("part", "node"),
    "columns": ("detail",),
    "copy": ("part", "node", "detail", "blob"),
    "drop": ("part", "node"),
    "executed": ("node", "detail"),
    "hold": ("part", "node"),
    "inactive": ("node",),
    "leads": ("node",),
    "lock": ("part", "blob", "node", "detail"),
    "lost": ("node", "detail"),
    "mutation": ("node", "blob", "detail"),
    "query": ("detail",),
    "unclaim": ("part", "node", "detail"),
    "unlock": ("part", "blob", "node"),
}
"""Fields of facts in order, after the name and the time."""


@dataclass(slots=True)
class Event:
    """Something that happened at a moment, or lasted for a period."""

    kind: str
    begin_ns: int
    end_ns: int
    """Time of its end: that of its begin if it is a moment, NEVER_NS if it was not over when the
    record ended."""
    node: str = ""
    part: str = ""
    """The part, or the range of blocks, that it is about; of a call the partition, by its key."""
    blob: str = ""
    """The objects that it is about; of a copy the part of the other table, of a mutation what it
    does."""
    detail: Any = None
    maybe_ns: int = -1
    """Time from which a fault may have been in force; at `begin_ns` it certainly was."""

    @property
    def is_over(self) -> bool:
        """Return whether it ended."""
        return self.end_ns < NEVER_NS


class Events(tuple[Event, ...]):
    """Events in the order in which they were recorded, and conditions that select some of them."""

    __slots__ = ()

    def where(self, holds: Callable[[Event], bool]) -> "Events":
        """Return those for which this holds."""
        return Events(event for event in self if holds(event))

    def of(self, *kinds: str) -> "Events":
        """Return those of some kinds."""
        return self.where(lambda event: event.kind in kinds)

    def on(self, *nodes: str) -> "Events":
        """Return those on some nodes."""
        return self.where(lambda event: event.node in nodes)

    def about(self, part_or_blob: str) -> "Events":
        """Return those about a part, a partition or objects."""
        return self.where(lambda event: part_or_blob in (event.part, event.blob))

    def since(self, time_ns: int) -> "Events":
        """Return those that began at a time or later."""
        return self.where(lambda event: event.begin_ns >= time_ns)

    def after(self, time_ns: int) -> "Events":
        """Return those that began later than a time."""
        return self.where(lambda event: event.begin_ns > time_ns)

    def before(self, time_ns: int) -> "Events":
        """Return those that had begun before a time."""
        return self.where(lambda event: event.begin_ns < time_ns)

    def until(self, time_ns: int) -> "Events":
        """Return those that had begun by a time."""
        return self.where(lambda event: event.begin_ns <= time_ns)

    def ended_since(self, time_ns: int) -> "Events":
        """Return the periods that were not over before a time."""
        return self.where(lambda event: event.end_ns >= time_ns)

    def ended_after(self, time_ns: int) -> "Events":
        """Return the periods that were not over by a time."""
        return self.where(lambda event: event.end_ns > time_ns)

    @property
    def over(self) -> "Events":
        """Return the periods that ended."""
        return self.where(lambda event: event.is_over)

    def at(self, time_ns: int) -> "Events":
        """Return the periods that a time is in."""
        return self.where(lambda event: event.begin_ns <= time_ns <= event.end_ns)

    def maybe_at(self, time_ns: int) -> "Events":
        """Return the faults that may have been in force at a time."""
        return self.where(lambda event: event.maybe_ns <= time_ns <= event.end_ns)

    def begun_within(self, begin_ns: int, end_ns: int) -> "Events":
        """Return the faults that may have begun in a period, and not before it."""
        return self.where(lambda event: event.begin_ns > begin_ns and event.maybe_ns < end_ns)

    @property
    def first(self) -> Event | None:
        """Return the first one; None without any."""
        return self[0] if self else None

    @property
    def last(self) -> Event | None:
        """Return the last one; None without any."""
        return self[-1] if self else None


@memoize_per_history
def tables(history: History) -> Sequence[Events]:
    """Return the facts of each table whose trace has no doubt."""
    return [*tables_by_path(history).values()]


@memoize_per_history
def tables_by_path(history: History) -> Mapping[str, Events]:
    """Return the facts of each table whose trace has no doubt, by its path in ZooKeeper."""
    return {
        str(trace.get("table")): Events(_facts_of(trace))
        for trace in traces_of(history)
        if not doubts_of(trace)
    }


@memoize_per_history
def early_tables_by_path(history: History) -> Mapping[str, Events]:
    """Return the same, also of traces that end early, with what was before."""
    return {
        str(trace.get("table")): Events(_facts_of(trace))
        for trace in traces_of(history)
        if not trace.get("gaps")
    }


def facts(history: History, *kinds: str) -> Events:
    """Return the facts of every table with one of these names."""
    return Events(event for table in tables(history) for event in table.of(*kinds))


def traces_of(history: History) -> Sequence[Mapping[str, Any]]:
    """Return the trace of each table, see `checkers.replication.conformance`."""
    return [mapping_of(op) for op in history.nemesis if op.f == TRACE and op.kind is Kind.OK]


def doubts_of(trace: Mapping[str, Any]) -> list[str]:
    """Return why the facts of a trace are not all that happened."""
    doubts = [f"ZooKeeper's log has a gap: {gap}" for gap in trace.get("gaps") or ()]
    ended = trace.get("ended")
    return [*doubts, f"the trace ends early: {ended}"] if ended else doubts


def _facts_of(trace: Mapping[str, Any]) -> Iterator[Event]:
    for kind, at_ms, *rest in trace.get("facts") or ():
        if kind in _FIELDS:
            at_ns = int(at_ms * 1_000_000)
            yield Event(kind, at_ns, at_ns, **dict(zip(_FIELDS[kind], rest, strict=False)))


def calls(history: History, f: str) -> Events:
    """Return the calls of clients with a name, each with its `Pair`."""
    known = _calls_by_name(history)
    if f not in known:
        known[f] = Events(
            Event(f, call.invoke.time_ns, ended_ns(call), str(call.invoke.node), part, detail=call)
            for call in history.calls(f)
            for part in [str(call.invoke.key)]
        )
    return known[f]


@memoize_per_history
def _calls_by_name(_: History) -> dict[str, Events]:
    return {}


def is_acknowledged(call: Event) -> bool:
    """Return whether the client was told that a call had happened."""
    return call.detail.kind is Kind.OK


def locks(history: History, until_ns: int) -> Events:
    """Return the periods in which a replica held a lock of a part's objects, by what was known at
    a time."""
    named = (
        replace(fact, kind=TEMPORARY_LOCK if fact.detail else fact.kind)
        for fact in facts(history, LOCK, "unlock").until(until_ns)
    )
    return _periods(named, {LOCK, TEMPORARY_LOCK})


@memoize_per_history
def claims(history: History) -> Events:
    """Return the periods in which a replica alone was to make a part, with whether the end of its
    session ended them."""
    return Events(
        claim
        for table in tables(history)
        for claim in _periods(table.of("claim", "unclaim"), {"claim"})
    )


@memoize_per_history
def lost_periods(history: History) -> Events:
    """Return the periods in which a replica was marked lost. At the end of one it has taken over
    the log pointer of another replica, which it clones."""
    return Events(
        period for table in tables(history) for period in _periods(_changes(table), {"lost"})
    )


def _changes(table: Events) -> Iterator[Event]:
    """Yield when a replica became lost, and when it was so no longer."""
    lost: set[str] = set()
    for fact in table.of("lost"):
        if fact.detail and fact.node not in lost:
            lost.add(fact.node)
            yield fact
        elif not fact.detail and fact.node in lost:
            lost.remove(fact.node)
            yield replace(fact, kind="no longer lost")


def _periods(moments: Iterable[Event], begins: Collection[str]) -> Events:
    """Return the periods that moments of some kinds begin, each until the next moment of the same
    part, objects and node. Its detail is that of its end."""
    found: list[Event] = []
    going_on: dict[tuple[str, str, str], int] = {}
    for moment in moments:
        about = (moment.part, moment.blob, moment.node)
        if about in going_on:
            at = going_on.pop(about)
            found[at] = replace(found[at], end_ns=moment.begin_ns, detail=moment.detail)
        if moment.kind in begins:
            going_on[about] = len(found)
            found.append(replace(moment, end_ns=NEVER_NS, detail=None))
    return Events(found)


@memoize_per_history
def kills(history: History) -> Events:
    """Return the faults that end the process of a node, once for each node."""
    return _faults(history, lambda fault: _KILLS.match(fault.name) is not None)


@memoize_per_history
def power_cuts(history: History) -> Events:
    """Return the power cuts, once for each node."""
    return _faults(history, lambda fault: fault.name.startswith("power-cut"))


@memoize_per_history
def pauses(history: History) -> Events:
    """Return the faults that pause a node, once for each node."""
    return _faults(history, lambda fault: fault.name.startswith("pause"))


def store_cuts(history: History, node: str) -> Events:
    """Return the faults that keep a node from the object store."""
    return Events(_event(fault, node) for fault in history.faults if _cuts_store(fault, node))


def _faults(history: History, holds: Callable[[Fault], bool]) -> Events:
    return Events(
        _event(fault, node) for fault in history.faults if holds(fault) for node in _struck(fault)
    )


def _struck(fault: Fault) -> Sequence[str]:
    """Return the nodes that a fault struck. A kill at a moment names the victim, and maybe who was
    with it: "ch2 while it cloned ch1"."""
    named = _NODE.findall(fault.text)
    return named[:1] if _AT_A_MOMENT in fault.name else sorted({*named})


def _event(fault: Fault, node: str) -> Event:
    end_ns = NEVER_NS if fault.end_ns is None else fault.end_ns
    return Event(
        fault.name, fault.begin_ns, end_ns, node, detail=fault.text, maybe_ns=fault.invoked_ns
    )


def nodes_in(text: str) -> frozenset[str]:
    """Return the nodes that the text of a fault names."""
    return frozenset(_NODE.findall(text))


def sides_in(text: str) -> Sequence[frozenset[str]]:
    """Return the sides of a partition by the text of the fault; () for another fault."""
    return [frozenset(side.split()) for side in re.findall(r"[^{}|]+(?=[|}])", text)]


def _cuts_store(fault: Fault, node: str) -> bool:
    if fault.name.startswith(_STORE):
        return True
    sides = sides_in(fault.text)
    stores = [any(name.startswith(_STORE) for name in side) for side in sides]
    return any(stores) and any(
        node in side and not has_store for side, has_store in zip(sides, stores, strict=True)
    )


def departures(history: History, kind: str) -> list[tuple[str, str]]:
    """Return the replicas that departed from the model in this way, each with the part."""
    steps = [
        str(step).split()
        for op in history.nemesis
        if op.f == DEPARTURE and op.kind is Kind.OK and mapping_of(op).get("kind") == kind
        for step in mapping_of(op).get("step") or ()
    ]
    return [(words[1], words[2]) for words in steps if words[:1] == [kind]]


def ended_ns(call: Pair) -> int:
    """Return when a call ended; NEVER_NS if it never did."""
    return NEVER_NS if call.end is None else call.end.time_ns


def acknowledged_ns(call: Pair) -> int:
    """Return when the client was told that a call had happened; NEVER_NS if it never was."""
    return ended_ns(call) if call.kind is Kind.OK else NEVER_NS
