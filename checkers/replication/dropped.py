"""Checks that DROP PARTITION removes what was there before it, for good, and nothing else."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, summarize
from checkers.phrasing import during, listed, number, seconds, where
from checkers.quiescence import Quiescence, quiescence_of
from checkers.sets.key_sets import INSERT, insert_value
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict

DROP, LOG = "drop-partition", "final-log"
READS = frozenset({"read", "final-read"})
FOREVER = 1 << 62


@dataclass(slots=True)
class _DroppedPartition:
    """Calls on one partition, whose number is their key."""

    inserts: dict[int, Pair] = field(default_factory=dict)
    """Acknowledged inserts by value."""
    drops: list[Pair] = field(default_factory=list)
    """Drops that may have taken effect."""
    reads: dict[str, list[Pair]] = field(default_factory=dict)
    """Answered reads of each replica, in the order in which they began."""


class Dropped:
    """Judges the calls "drop-partition", whose key is the partition, against "insert" of one value,
    the reads of a key, and the last "final-log": {"types": {name: number of log entries}}.

    INVALID, of acknowledged values: one that was there before a drop began came back on a replica
    whose reads had shown that it was gone ("returned"), or is there at rest though the drop was
    acknowledged ("kept"); one that no drop can have met is missing at rest ("lost"). A drop can
    meet each insert that began before the drop had ended.
    """

    name = "dropped"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, the final reads of every replica, a value that a
        drop removed, one that it left, and a log entry of type "drop"."""
        partitions = _partitions(history)
        rest = quiescence_of(history)
        logged = _logged(history)
        broken = [
            anomaly
            for key, one in sorted(partitions.items())
            for anomaly in (*_returned(history, key, one), *_at_rest(history, key, one, rest))
        ]
        gone = sum(bool(_met(one, value)) for one in partitions.values() for value in one.inserts)
        safe = sum(
            not _perhaps_met(one, value) for one in partitions.values() for value in one.inserts
        )
        done = sum(p.kind is Kind.OK for one in partitions.values() for p in one.drops)
        doubts = rest.doubts
        silent = _silent(partitions, rest)
        doubts += [f"no final read of {listed(silent)}"] if silent else []
        doubts += [] if gone else ["no acknowledged drop followed an acknowledged insert"]
        doubts += [] if safe else ["no acknowledged insert was out of reach of every drop"]
        doubts += [] if logged else ["no log entry of type drop was seen"]
        kinds = count_kinds(broken)
        summary = (
            f"{number(done, 'drop')}, {number(logged, 'log entry', 'log entries')}: "
            f"{number(gone, 'acknowledged value')} gone for good, {safe:,} others kept"
        )
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summarize(broken, doubts, summary),
            checked=gone + safe,
            anomalies=few_of_each_kind(broken),
            figures={
                "drops": done,
                "logged": logged,
                "gone": gone,
                "kept": safe,
                "anomalies": {**kinds},
            },
        )


def _partitions(history: History) -> dict[int, _DroppedPartition]:
    out: dict[int, _DroppedPartition] = {}
    for pair in history.pairs:
        key = pair.invoke.key
        if key is None:
            continue
        one = out.setdefault(key, _DroppedPartition())
        if pair.invoke.f == INSERT and pair.kind is Kind.OK:
            one.inserts[insert_value(pair.invoke)] = pair
        elif pair.invoke.f == DROP and pair.kind is not Kind.FAIL:
            one.drops.append(pair)
        elif pair.invoke.f in READS and pair.kind is Kind.OK:
            one.reads.setdefault(str(pair.invoke.node), []).append(pair)
    for one in out.values():
        for reads in one.reads.values():
            reads.sort(key=lambda pair: pair.invoke.index)
    return out


def _end(pair: Pair) -> Op:
    assert pair.end is not None, "an ok has an end"
    return pair.end


def _met(one: _DroppedPartition, value: int) -> list[Pair]:
    """Return the acknowledged drops that began when the value was acknowledged."""
    return [drop for drop in _after(one, value) if drop.kind is Kind.OK]


def _after(one: _DroppedPartition, value: int) -> list[Pair]:
    acked = _end(one.inserts[value]).index
    return [drop for drop in one.drops if drop.invoke.index > acked]


def _perhaps_met(one: _DroppedPartition, value: int) -> bool:
    """Return whether a drop may have removed the value. One of unknown outcome may take effect at
    any later time."""
    began = one.inserts[value].invoke.index
    ends = (_end(drop).index if drop.kind is Kind.OK else FOREVER for drop in one.drops)
    return any(end > began for end in ends)


def _values(read: Pair) -> frozenset[int]:
    value = _end(read).value
    return frozenset(value) if isinstance(value, tuple) else frozenset()


def _returned(history: History, key: int, one: _DroppedPartition) -> Iterable[Anomaly]:
    """Yield the values that one replica showed, then did not show, and showed again, though a drop
    began after their acknowledgement."""
    for node, reads in sorted(one.reads.items()):
        shown: set[int] = set()
        gone: dict[int, Pair] = {}
        for read in reads:
            values = _values(read)
            for value in sorted(values & gone.keys()):
                lacked = gone.pop(value)
                drops = [d for d in _after(one, value) if d.invoke.index < _end(lacked).index]
                if drops and _end(lacked).index < read.invoke.index:
                    how = f"is back on {node}, which did not show it at {_at(lacked)}"
                    yield _anomaly(history, "returned", key, value, how, one, drops[-1], read)
            gone |= {
                value: read
                for value in shown - values
                if value in one.inserts and value not in gone
            }
            shown |= values


def _at_rest(
    history: History, key: int, one: _DroppedPartition, rest: Quiescence
) -> Iterable[Anomaly]:
    if not rest.reached:
        return
    for node, reads in sorted(one.reads.items()):
        finals = [read for read in reads if read.invoke.f == "final-read"]
        if not finals:
            continue
        values = _values(finals[-1])
        for value in one.inserts:
            drops = _met(one, value)
            if value in values and drops:
                how = f"is on {node} at rest"
                yield _anomaly(history, "kept", key, value, how, one, drops[-1], finals[-1])
            elif value not in values and not _perhaps_met(one, value):
                how = f"is not on {node} at rest, and no drop met it"
                yield _anomaly(history, "lost", key, value, how, one, None, finals[-1])


def _silent(partitions: Mapping[int, _DroppedPartition], rest: Quiescence) -> list[str]:
    """Return the replicas that did not answer the final read of some partition with values."""
    keys = {key: one for key, one in partitions.items() if one.inserts}
    return [
        node
        for node in rest.nodes
        if any(
            all(read.invoke.f != "final-read" for read in one.reads.get(node, ()))
            for one in keys.values()
        )
    ]


def _logged(history: History) -> int:
    """Return the number of log entries of type "drop" in the last look at the log."""
    for pair in reversed(history.pairs):
        if pair.invoke.f == LOG and pair.kind is Kind.OK and pair.end is not None:
            value = pair.end.value
            types = value.get("types") if isinstance(value, Mapping) else None
            count = types.get("drop") if isinstance(types, Mapping) else None
            return count if isinstance(count, int) else 0
    return 0


def _at(pair: Pair) -> str:
    return seconds(pair.invoke.time_ns)


def _anomaly(
    history: History,
    kind: str,
    key: int,
    value: int,
    how: str,
    one: _DroppedPartition,
    drop: Pair | None,
    read: Pair,
) -> Anomaly:
    acked, end = _end(one.inserts[value]), _end(read)
    ops = {acked.index, read.invoke.index, end.index}
    by = ""
    if drop is not None:
        ops.add(drop.invoke.index)
        by = (
            f"; partition {key} dropped from {_at(drop)}{where(drop.invoke)}, op "
            f"#{drop.invoke.index} {drop.kind.value}"
        )
    return Anomaly(
        kind=kind,
        text=(
            f"value {value}, ok at {seconds(acked.time_ns)}{where(acked)} (op #{acked.index}), "
            f"{how} (op #{end.index} at {seconds(end.time_ns)}{by}){during(history, end.time_ns)}"
        ),
        ops=tuple(sorted(ops)),
        value=value,
        time_ns=end.time_ns,
    )
