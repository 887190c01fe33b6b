"""Session guarantees on sets (Terry et al., "Session guarantees for weakly consistent replicated
data", PDIS 1994). A session is a process; keys are judged one by one, as linearizability is.

With V(r) the set that a read r returned, and program order that of one process on one key:
  monotonic reads       r1 before r2                 ⇒ V(r1) ⊆ V(r2)
  read your writes      w acknowledged before r      ⇒ w ∈ V(r)
  monotonic writes      w1 acknowledged before w2    ⇒ w1 ∈ V(r) wherever w2 ∈ V(r)
  writes follow reads   r1 before w2                 ⇒ V(r1) ⊆ V(r) wherever w2 ∈ V(r)
The last two bind the reads of every process. Sequential consistency of the key implies all four.
A refused insert is no write; one of unknown outcome is a write wherever it is seen.

Violated: an answered read that lacks a value which a guarantee demands of it; the anomaly has the
guarantee's name, and a read counts once, however many values it lacks. Doubtful: a guarantee that
bound no read, because if no process ever read after its own write, nothing is known of "read your
writes"; and a history in which a value was tried twice, because then a read does not say which of
the writes it saw.

"Monotonic reads" is not "no read is older than an earlier one": the earlier read must be of the
same process. Of two replicas that are not yet equal this is right:
    p0 insert 1 → ok     p1 read on ch1 → [1]     p2 read on ch2 → []
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from checkers.conclusion import Findings, anomaly, unjudged
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
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

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
    """Checks one of the four guarantees; `SESSION_GUARANTEES` has them all. Linear in the number of
    values read."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, history: History) -> Verdict:
        """Return one verdict over all keys. VALID needs a read of which something was demanded."""
        keys = key_sets(history)
        repeated = [insert for key in keys for insert in key.repeated]
        if repeated:
            return unjudged(
                self.name,
                f"value {repeated[0].value} was tried {repeated[0].attempts} times, so "
                "it does not say which write a read saw; unique values expected",
            )
        found = Findings(self.name, kinds=[self.name])
        bounds = _bounds(history)[self.name]
        bound = sum([one.reads for one in bounds])
        broken = sum([one.broken for one in bounds])
        first = [demand for one in bounds for demand in one.first]
        first.sort(key=lambda demand: demand.read.end.index)
        missing = (_missing(history, self.name, demand) for demand in first)
        found.add_anomalies(self.name, missing, broken)
        return found.verdict(
            checked=bound,
            broken=f"{self.name} broken by {number(broken, 'read')} (of {bound:,} that it binds)",
            nothing="not tested: no answered read is bound by it",
            held=f"{self.name} kept by {number(bound, 'read')}",
            figures={
                "reads_ok": sum([key.found.reads_count() for key in keys]),
                "reads_bound": bound,
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


def _missing(history: History, name: str, demand: Demand) -> Anomaly:
    read, value = demand.read, demand.value
    reason, ops, steps = _reason(history, name, demand)
    return anomaly(
        name,
        f"value {value}{on_key(read.invoke)} is missing from op #{read.invoke.index} "
        f"{read.invoke.f}{where(read.invoke)} of process {read.invoke.process}, {reason}"
        f"{during(history, read.invoke.time_ns)}",
        *(read.invoke, read.end, *ops),
        key=demand.key.key,
        value=value,
        time_ns=read.end.time_ns,
        steps=(*steps, read_answered(history, read.invoke, read.end, f"without {value}")),
    )


def _reason(
    history: History, name: str, demand: Demand
) -> tuple[str, tuple[Op, ...], tuple[str, ...]]:
    """Return why the read had to return the value: in words, with the ops and steps that show
    it."""
    key, read, value = demand.key, demand.read, demand.value
    if demand.write is not None:
        return _reason_by_write(history, name, demand, demand.write)
    if name == READ_YOUR_WRITES:
        ack = key.inserts[value].ack
        assert ack is not None, "only acknowledged writes are demanded"
        step = insert_acknowledged(history, value, ack)
        return f"which wrote it (op #{ack.index})", (ack,), (step,)
    earlier = _earlier_read(key, read.invoke.process, value, read.invoke.index)
    step = read_answered(history, earlier.invoke, earlier.end, f"with {value}")
    ops = (earlier.invoke, earlier.end)
    return f"which had read it (op #{earlier.end.index})", ops, (step,)


def _reason_by_write(
    history: History, name: str, demand: Demand, write: InsertOutcome
) -> tuple[str, tuple[Op, ...], tuple[str, ...]]:
    key, value = demand.key, demand.value
    who, began = write.invoke.process, insert_began(history, write.value, write.invoke)
    if name == MONOTONIC_WRITES:
        ack = key.inserts[value].ack
        assert ack is not None, "only acknowledged writes are demanded"
        step, did = insert_acknowledged(history, value, ack), "wrote"
        ops: tuple[Op, ...] = (ack,)
    else:
        earlier = _earlier_read(key, who, value, write.invoke.index)
        step = read_answered(history, earlier.invoke, earlier.end, f"with {value}")
        ops, did = (earlier.invoke, earlier.end), "read"
    return (
        f"which has {write.value}: process {who} {did} {value} before it wrote {write.value} "
        f"(op #{write.invoke.index})",
        (*ops, write.invoke),
        (step, began),
    )


def _earlier_read(key: KeySet, who: object, value: int, before: int) -> AnsweredRead:
    """Return the last read of a process, invoked before an op, that returned a value."""
    return next(
        read
        for read in reversed(key.reads)
        if read.invoke.process == who and read.invoke.index < before and value in read.values
    )
