"""Session guarantees on sets (Terry et al., "Session guarantees for weakly consistent replicated
data", PDIS 1994). A session is a process; keys are judged one by one, as linearizability is.

With V(r) the set that a read r returned, and program order that of one process on one key:
  monotonic reads       r1 before r2                 ⇒ V(r1) ⊆ V(r2)
  read your writes      w acknowledged before r      ⇒ w ∈ V(r)
  monotonic writes      w1 acknowledged before w2    ⇒ w1 ∈ V(r) wherever w2 ∈ V(r)
  writes follow reads   r1 before w2                 ⇒ V(r1) ⊆ V(r) wherever w2 ∈ V(r)
The last two bind the reads of every process. Sequential consistency of the key implies all four.
A refused insert is no write; one of unknown outcome is a write wherever it is seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from checkers.conclusion import conclude
from checkers.phrasing import (
    FEW,
    during,
    insert_acknowledged,
    insert_began,
    number,
    on_key,
    read_answered,
    where,
)
from checkers.sets.key_sets import AnsweredRead, InsertOutcome, KeySet, key_sets
from harness.core.history import History, memoize_per_history
from harness.core.verdict import Anomaly, Status, Verdict

MONOTONIC_READS: Final = "monotonic-reads"
READ_YOUR_WRITES: Final = "read-your-writes"
MONOTONIC_WRITES: Final = "monotonic-writes"
WRITES_FOLLOW_READS: Final = "writes-follow-reads"
_NAMES: Final = (MONOTONIC_READS, READ_YOUR_WRITES, MONOTONIC_WRITES, WRITES_FOLLOW_READS)
"""The guarantees in the order of `harness.native.histories`."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A read that had to return a value and did not."""

    key: KeySet
    read: AnsweredRead
    value: int
    write: InsertOutcome | None
    """The first write that demands the value; None if the read's own process demands it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The result of one guarantee on one key."""

    reads: int
    """Number of reads of which something is demanded."""
    broken: int
    """Number of these reads that lack a demanded value."""
    first: tuple[Demand, ...]
    """The first of these reads by their ends, at most FEW."""


class SessionGuarantee:
    """Checks one of the four guarantees; `SESSION_GUARANTEES` has them all.

    VALID needs a read of which something was demanded: if no process ever read after its own write,
    nothing is known of "read your writes". Linear in the number of values read.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, history: History) -> Verdict:
        """Return one verdict over all keys."""
        keys = key_sets(history)
        repeated = [insert for key in keys for insert in key.repeated]
        if repeated:
            return Verdict(
                checker=self.name,
                status=Status.UNKNOWN,
                summary=f"value {repeated[0].value} was tried {repeated[0].attempts} times, so "
                "it does not say which write a read saw; unique values expected",
                checked=0,
            )
        found = _bounds(history)[self.name]
        bound = sum([one.reads for one in found])
        broken = sum([one.broken for one in found])
        first = [demand for one in found for demand in one.first]
        first.sort(key=lambda demand: demand.read.end.index)
        return Verdict(
            checker=self.name,
            status=conclude(broken, checked=bound),
            summary=_summary(self.name, broken, bound),
            checked=bound,
            anomalies=tuple([_anomaly(history, self.name, demand) for demand in first[:FEW]]),
            figures={
                "reads_ok": sum([key.found.reads_count() for key in keys]),
                "reads_bound": bound,
                "anomalies": {self.name: broken},
            },
        )


@memoize_per_history
def _bounds(history: History) -> Mapping[str, tuple[Bound, ...]]:
    """Return the results of each guarantee by key."""
    by_key = [_bounds_of(key) for key in key_sets(history)]
    return {name: tuple([bounds[at] for bounds in by_key]) for at, name in enumerate(_NAMES)}


def _bounds_of(key: KeySet) -> list[Bound]:
    def demand(read: int, missing: int, write: int | None) -> Demand:
        demanding = None if write is None else key.inserts[key.values[write]]
        return Demand(key, key.read(read), key.values[missing], demanding)

    return [
        Bound(reads, broken, tuple([demand(*one) for one in first]))
        for reads, broken, first in key.found.bounds(FEW)
    ]


SESSION_GUARANTEES: Final = tuple([SessionGuarantee(name) for name in _NAMES])


def _summary(name: str, broken: int, demands: int) -> str:
    if broken:
        return f"{name} broken by {number(broken, 'read')} (of {demands:,} that it binds)"
    if demands:
        return f"{name} kept by {number(demands, 'read')}"
    return "not tested: no answered read is bound by it"


def _anomaly(history: History, name: str, demand: Demand) -> Anomaly:
    key, read, value = demand.key, demand.read, demand.value
    reason, ops, steps = _reason(history, name, demand)
    indices = {read.invoke.index, read.end.index, *ops}
    return Anomaly(
        kind=name,
        text=(
            f"value {value}{on_key(read.invoke)} is missing from op #{read.invoke.index} "
            f"{read.invoke.f}{where(read.invoke)} of process {read.invoke.process}, {reason}"
            f"{during(history, read.invoke.time_ns)}"
        ),
        ops=tuple(sorted(indices)),
        key=key.key,
        value=value,
        time_ns=read.end.time_ns,
        steps=(*steps, read_answered(history, read.invoke, read.end, f"without {value}")),
    )


def _reason(
    history: History, name: str, demand: Demand
) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    """Return why the read had to return the value: in words, with the ops and steps that show
    it."""
    key, read, value = demand.key, demand.read, demand.value
    if demand.write is not None:
        return _reason_by_write(history, name, demand, demand.write)
    if name == READ_YOUR_WRITES:
        ack = key.inserts[value].ack
        assert ack is not None, "only acknowledged writes are demanded"
        step = insert_acknowledged(history, value, ack)
        return f"which wrote it (op #{ack.index})", (ack.index,), (step,)
    earlier = _earlier_read(key, read.invoke.process, value, read.invoke.index)
    step = read_answered(history, earlier.invoke, earlier.end, f"with {value}")
    ops = (earlier.invoke.index, earlier.end.index)
    return f"which had read it (op #{earlier.end.index})", ops, (step,)


def _reason_by_write(
    history: History, name: str, demand: Demand, write: InsertOutcome
) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    key, value = demand.key, demand.value
    who, began = write.invoke.process, insert_began(history, write.value, write.invoke)
    if name == MONOTONIC_WRITES:
        ack = key.inserts[value].ack
        assert ack is not None, "only acknowledged writes are demanded"
        step, did = insert_acknowledged(history, value, ack), "wrote"
        ops: tuple[int, ...] = (ack.index,)
    else:
        earlier = _earlier_read(key, who, value, write.invoke.index)
        step = read_answered(history, earlier.invoke, earlier.end, f"with {value}")
        ops, did = (earlier.invoke.index, earlier.end.index), "read"
    return (
        f"which has {write.value}: process {who} {did} {value} before it wrote {write.value} "
        f"(op #{write.invoke.index})",
        (*ops, write.invoke.index),
        (step, began),
    )


def _earlier_read(key: KeySet, who: object, value: int, before: int) -> AnsweredRead:
    """Return the last read of a process, invoked before an op, that returned a value."""
    return next(
        read
        for read in reversed(key.reads)
        if read.invoke.process == who and read.invoke.index < before and value in read.values
    )
