"""Explains registers and mutexes of KeeperMap tables by statements that a server made twice.

A server that lost its connection to ZooKeeper repeats the request of a statement until it is
answered. The record has no request; it shows that a statement was under way while a fault was in
force, and that its effect was seen before it ended. The key is judged again as if the statement had
been made twice. An anomaly that is left is not explained.

`repeated-insert`: the INSERT of a value that others read before it ended is made once more.
`deleted-twice`: a DELETE that releases a mutex, which another client acquired before the DELETE
ended, is made once more: the mutex of that client is released before the DELETE ends.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from checkers.consistency.calls import Consistency
from checkers.consistency.linearizable import Linearizable
from checkers.consistency.objects import ACQUIRE, RELEASE, MutexObject, RowObject
from checkers.phrasing import seconds
from checkers.sets.key_sets import READS
from checkers.triage.events import ended_ns
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.protocols import Checker
from harness.core.verdict import Anomaly, Status

WRITE: Final = "write"
CANDIDATES_MAX: Final = 20
"""Number of statements of a key of which is tried whether they were made twice."""


def unrepeated(checkers: Sequence[Checker]) -> frozenset[str]:
    """Return the defects of KeeperMap tables that cannot be, because these checkers judge something
    else."""
    models = [one.model for one in checkers if isinstance(one, Linearizable)]
    rows = any(isinstance(model, RowObject | MutexObject) for model in models)
    return frozenset() if rows else frozenset({"repeated-insert", "deleted-twice"})


def has_registers(history: History) -> bool:
    """Return whether reads return one value each, and not those of a set."""
    return any(not isinstance(end.value, tuple) for _, end in history.answered(*READS))


def repeated_insert(history: History, anomaly: Anomaly, consistency: Consistency) -> str:
    """Return the INSERTs that explain an anomaly of a register if they were made twice; "" if none
    do."""
    pairs = _of_key(history, anomaly)
    reads = [pair for pair in pairs if pair.invoke.f in READS and pair.kind is Kind.OK]
    found = [
        pair
        for pair in pairs
        if pair.invoke.f == WRITE
        and pair.kind is not Kind.FAIL
        and _disturbed(history, pair)
        and any(_seen_in(pair, read) for read in reads)
    ]
    checker = Linearizable(consistency, RowObject())
    for several in _choices(found):
        again = [*pairs, *_once_more(pairs, several)]
        if checker.check(_history(again)).status is Status.VALID:
            return _why(several, "inserted", "read before that")
    return ""


def deleted_twice(history: History, anomaly: Anomaly) -> str:
    """Return the DELETEs that explain an anomaly of a mutex if they were made twice; "" if none
    do."""
    pairs = _of_key(history, anomaly)
    found = [
        pair
        for pair in pairs
        if pair.invoke.f == RELEASE
        and pair.kind is not Kind.FAIL
        and _disturbed(history, pair)
        and _acquired_in(pairs, pair) is not None
    ]
    checker = Linearizable("linearizable", MutexObject())
    for several in _choices(found):
        if checker.check(_history(_released(pairs, several))).status is Status.VALID:
            return _why(several, "deleted", "acquired by another client before that")
    return ""


def _of_key(history: History, anomaly: Anomaly) -> list[Pair]:
    """Return the calls of an anomaly's key that may have happened."""
    return [
        pair
        for pair in history.pairs
        if pair.invoke.key == anomaly.key and pair.kind is not Kind.FAIL
    ]


def _disturbed(history: History, pair: Pair) -> bool:
    """Return whether a fault was in force, or began, while a call was under way."""
    return any(
        fault.invoked_ns < ended_ns(pair)
        and (fault.end_ns is None or pair.invoke.time_ns < fault.end_ns)
        for fault in history.faults
    )


def _seen_in(write: Pair, read: Pair) -> bool:
    """Return whether a read that had ended before the write did returned its value."""
    assert read.end is not None, "the read was answered"
    return read.end.value == write.invoke.value and read.end.time_ns < ended_ns(write)


def _acquired_in(pairs: Sequence[Pair], release: Pair) -> Pair | None:
    """Return the first acquisition by another client that began and ended while a release was under
    way."""
    return next(
        (
            pair
            for pair in pairs
            if pair.invoke.f == ACQUIRE
            and pair.kind is Kind.OK
            and pair.invoke.process != release.invoke.process
            and release.invoke.time_ns < pair.invoke.time_ns
            and ended_ns(pair) < ended_ns(release)
        ),
        None,
    )


def _choices(found: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    """Yield each candidate alone, then all of them."""
    few = found[:CANDIDATES_MAX]
    yield from ([one] for one in few)
    if len(few) > 1:
        yield few


def _once_more(pairs: Sequence[Pair], several: Sequence[Pair]) -> Iterator[Pair]:
    """Yield a second call like each of several, of a process of its own."""
    used = [pair.invoke.process for pair in pairs if isinstance(pair.invoke.process, int)]
    for process, pair in enumerate(several, max(used) + 1):
        end = None if pair.end is None else replace(pair.end, process=process)
        yield Pair(replace(pair.invoke, process=process), end, pair.kind)


def _released(pairs: Sequence[Pair], several: Sequence[Pair]) -> list[Pair]:
    """Return the calls in which the mutex that was acquired during each of these releases is free
    again by the end of the release."""
    found = list(pairs)
    for release in several:
        holder = _acquired_in(pairs, release)
        assert holder is not None, "the candidates have one"
        own = [one for one in found if one.invoke.process == holder.invoke.process]
        later = [one for one in own if one.invoke.time_ns > ended_ns(holder)]
        if later and later[0].invoke.f == RELEASE:
            found.remove(later.pop(0))
        by_ns = min([ended_ns(release), *(one.invoke.time_ns - 1 for one in later)])
        freed = replace(holder.invoke, f=RELEASE, time_ns=ended_ns(holder))
        found.append(Pair(freed, replace(freed, kind=Kind.OK, time_ns=by_ns), Kind.OK))
    return found


def _history(pairs: Sequence[Pair]) -> History:
    """Return the history of some calls, in order of time."""
    ops: list[Op] = []
    for pair in pairs:
        ops += [pair.invoke] if pair.end is None else [pair.invoke, pair.end]
    ops.sort(key=lambda op: (op.time_ns, op.kind is Kind.INVOKE))
    return History([replace(op, index=at) for at, op in enumerate(ops)])


def _why(several: Sequence[Pair], done: str, seen: str) -> str:
    first = several[0].invoke
    ended = several[0].end
    until = "did not end" if ended is None else f"ended at {seconds(ended.time_ns)}"
    return (
        f"op #{first.index} {first.f} on {first.node}, which {done} a row, began at "
        f"{seconds(first.time_ns)} and {until}, with a fault in force, and was {seen}: made "
        "twice it explains what was seen"
    )
