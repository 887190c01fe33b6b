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

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from checkers.key_sets import Insert, KeySet, Read, key_sets
from checkers.per_history import per_history
from checkers.words import (
    FEW,
    during,
    insert_acknowledged,
    insert_began,
    number,
    on_key,
    read_answered,
    where,
)
from harness.core.history import History
from harness.core.op import Kind, Process
from harness.core.verdict import Anomaly, Status, Verdict


class Demand(msgspec.Struct, frozen=True, gc=False):
    """A read that must hold every value of a mask, and does not."""

    key: KeySet
    read: Read
    mask: int

    @property
    def missing(self) -> int:
        """What it does not hold."""
        return self.mask & ~self.read.mask


class Past(msgspec.Struct, frozen=True):
    """What the processes did on a key, in order of invocation. With each call what its process
    knew of the key before: its own values acknowledged, and the union of its reads."""

    reads: list[tuple[Read, int, int]]
    """Those that were answered."""
    writes: list[tuple[Insert, int, int]]
    """Those that were not refused."""


Bound: TypeAlias = tuple[int, list[Demand]]
"""Of how many reads something is demanded, and which of them lack some of it."""


class SessionGuarantee:
    """One of the four guarantees; `SESSION_GUARANTEES` has them all.

    VALID needs a read that something was demanded of: where no process ever read after its own
    write, "read your writes" was not seen to hold. Linear in the number of values read, so the
    deadline is not looked at.
    """

    def __init__(self, name: str, bound: Callable[[KeySet, Past], Bound]) -> None:
        self.name = name
        self._bound = bound

    def check(self, history: History, *, deadline_s: float) -> Verdict:  # noqa: ARG002
        """One verdict over every key."""
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
        found = [self._bound(key, past) for key, past in zip(keys, _pasts(history), strict=True)]
        bound = sum([count for count, _ in found])
        broken = [demand for _, demands in found for demand in demands]
        broken.sort(key=lambda demand: demand.read.end.index)
        shown = tuple(_anomaly(history, self.name, demand) for demand in broken[:FEW])
        reads = sum(len(key.reads) for key in keys)
        return Verdict(
            checker=self.name,
            status=Status.INVALID if broken else Status.VALID if bound else Status.UNKNOWN,
            summary=_summary(self.name, len(broken), bound),
            checked=bound,
            anomalies=shown,
            figures={
                "reads_ok": reads,
                "reads_bound": bound,
                "anomalies": {self.name: len(broken)},
            },
        )


@per_history
def _pasts(history: History) -> tuple[Past, ...]:
    """By key."""
    return tuple([_past(key) for key in key_sets(history)])


def _past(key: KeySet) -> Past:
    writes = [i for i in key.inserts.values() if i.kind is not Kind.FAIL]
    calls: list[Read | Insert] = [*writes, *key.reads]
    calls.sort(key=lambda call: call.invoke.index)
    past = Past([], [])
    knows: dict[Process, tuple[int, int]] = {}
    for call in calls:
        who = call.invoke.process
        written, seen = knows.get(who, (0, 0))
        if isinstance(call, Read):
            past.reads.append((call, written, seen))
            knows[who] = written, seen | call.mask
        else:
            past.writes.append((call, written, seen))
            if call.ack is not None:
                knows[who] = written | call.bit, seen
    return past


def _monotonic_reads(key: KeySet, past: Past) -> Bound:
    return _held(key, [(read, seen) for read, _, seen in past.reads])


def _read_your_writes(key: KeySet, past: Past) -> Bound:
    return _held(key, [(read, written) for read, written, _ in past.reads])


def _monotonic_writes(key: KeySet, past: Past) -> Bound:
    before = {write.bit: written for write, written, _ in past.writes}
    return _held(key, _ordered_writes(key, before))


def _writes_follow_reads(key: KeySet, past: Past) -> Bound:
    before = {write.bit: seen for write, _, seen in past.writes}
    return _held(key, _ordered_writes(key, before))


def _held(key: KeySet, demanded: Iterable[tuple[Read, int]]) -> Bound:
    """Of reads, each with what it must hold."""
    count, lacking = 0, []
    for read, mask in demanded:
        if mask:
            count += 1
            if mask & ~read.mask:
                lacking.append(Demand(key, read, mask))
    return count, lacking


def _ordered_writes(key: KeySet, before: Mapping[int, int]) -> Iterator[tuple[Read, int]]:
    """Every read that saw a write must hold what came before that write in its process."""
    needs = {bit: mask for bit, mask in before.items() if mask}
    bound = 0
    for bit in needs:
        bound |= bit
    # A replica's answers mostly grow, so what a read demands is mostly what the replica's last
    # read demanded and what its new values add; after an answer that shrank it is summed anew.
    last: dict[str | None, tuple[int, int]] = {}
    for read in key.reads:
        node = read.invoke.node
        mask, demanded = last.get(node, (0, 0))
        if mask != read.mask:
            if mask & ~read.mask:
                mask, demanded = 0, 0
            fresh = read.mask & ~mask & bound
            while fresh:
                low = fresh & -fresh
                demanded |= needs[low]
                fresh ^= low
            last[node] = (read.mask, demanded)
        yield read, demanded


MONOTONIC_READS: Final = "monotonic-reads"
READ_YOUR_WRITES: Final = "read-your-writes"
MONOTONIC_WRITES: Final = "monotonic-writes"
WRITES_FOLLOW_READS: Final = "writes-follow-reads"

SESSION_GUARANTEES: Final = (
    SessionGuarantee(MONOTONIC_READS, _monotonic_reads),
    SessionGuarantee(READ_YOUR_WRITES, _read_your_writes),
    SessionGuarantee(MONOTONIC_WRITES, _monotonic_writes),
    SessionGuarantee(WRITES_FOLLOW_READS, _writes_follow_reads),
)


def _summary(name: str, broken: int, demands: int) -> str:
    if broken:
        return f"{name} broken by {number(broken, 'read')} (of {demands:,} that it binds)"
    if demands:
        return f"{name} kept by {number(demands, 'read')}"
    return "put to no test: no answered read that it would bind"


def _anomaly(history: History, name: str, demand: Demand) -> Anomaly:
    key, read = demand.key, demand.read
    value = next(key.named(demand.missing))
    reason, ops, steps = _reason(history, name, demand, value)
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
    history: History, name: str, demand: Demand, value: int
) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    """Why the read had to hold the value: in words, the ops that show it, the steps."""
    key, read = demand.key, demand.read
    if name == READ_YOUR_WRITES:
        ack = key.inserts[value].ack
        assert ack is not None, "only acknowledged writes are demanded"
        step = insert_acknowledged(history, value, ack)
        return f"which wrote it (op #{ack.index})", (ack.index,), (step,)
    if name == MONOTONIC_READS:
        earlier = _earlier_read(key, read.invoke.process, value, read.invoke.index)
        step = read_answered(history, earlier.invoke, earlier.end, f"with {value}")
        ops = (earlier.invoke.index, earlier.end.index)
        return f"which had read it (op #{earlier.end.index})", ops, (step,)
    return _reason_by_write(history, name, demand, value)


def _reason_by_write(
    history: History, name: str, demand: Demand, value: int
) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    key, read = demand.key, demand.read
    bit = next(1 << i for i, known in enumerate(key.values) if known == value)
    for write, written, seen in _past(key).writes:
        before = written if name == MONOTONIC_WRITES else seen
        if write.bit & read.mask and before & bit:
            break
    else:
        raise AssertionError(f"no write demands {value} of op #{read.invoke.index}")
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


def _earlier_read(key: KeySet, who: object, value: int, before: int) -> Read:
    """The last read of a process, invoked before an op, that returned a value."""
    return next(
        read
        for read in reversed(key.reads)
        if read.invoke.process == who and read.invoke.index < before and value in read.values
    )
