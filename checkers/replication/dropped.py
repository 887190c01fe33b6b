"""Checks that DROP PARTITION removes what was there before it, for good, and nothing else."""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, mapping_of, summarize
from checkers.phrasing import during, listed, number, seconds, where
from checkers.quiescence import Quiescence, quiescence_of
from checkers.sets.key_sets import INSERT, insert_value
from checkers.taken import not_promised, taken_of
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.rows import Pairs
from harness.core.verdict import Anomaly, Verdict

DROP, LOG = "drop-partition", "final-log"
READS = ("read", "final-read")
FOREVER = 1 << 62


@dataclass(slots=True)
class _DroppedPartition:
    """Calls on one partition, whose number is their key."""

    inserts: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Acknowledged inserts by value: the indices of their invocation and their end."""
    drops: "array[int]" = field(default_factory=lambda: array("q"))
    """Places of the drops that may have taken effect, in the order in which they began."""
    begins: "array[int]" = field(default_factory=lambda: array("q"))
    """Indices of the ops that began them."""
    done: int = 0
    """Number of acknowledged drops."""
    last_done: tuple[int, int] = -1, -1
    """Place of the last acknowledged drop, and index of the op that began it."""
    over: int = -1
    """Index of the op that ended the last drop; FOREVER if the outcome of one is unknown."""
    reads: dict[str, "array[int]"] = field(default_factory=dict)
    """Places of the answered reads of each replica, in the order in which they began."""

    def drop(self, place: int, pair: Pair) -> None:
        """Add a drop that may have taken effect."""
        begin = pair.invoke.index
        self.drops.append(place)
        self.begins.append(begin)
        self.over = max(self.over, _end(pair).index if pair.kind is Kind.OK else FOREVER)
        if pair.kind is Kind.OK:
            self.done += 1
            self.last_done = place, begin

    def met(self, value: int) -> int | None:
        """Return the last acknowledged drop, if it began when the value was acknowledged."""
        place, begin = self.last_done
        return place if begin > self.inserts[value][1] else None

    def perhaps_met(self, value: int) -> bool:
        """Return whether a drop may have removed the value. One of unknown outcome may take effect
        at any later time."""
        return self.over > self.inserts[value][0]

    def last_drop(self, value: int, before: int) -> int | None:
        """Return the last drop that began after the value was acknowledged and before an op."""
        at = bisect_left(self.begins, before) - 1
        return self.drops[at] if at >= 0 and self.begins[at] > self.inserts[value][1] else None


class Dropped:
    """Judges the calls "drop-partition", whose key is the partition, against "insert" of one value,
    the reads of a key, and the last "final-log": {"types": {name: number of log entries}}.

    INVALID, of acknowledged values: one that was there before a drop began came back on a replica
    whose reads had shown that it was gone ("returned"), or is there at rest though the drop was
    acknowledged ("kept"); one that no drop can have met is missing at rest ("lost"),
    unless a fault took it from the disk of the one replica that had to have it. A drop can meet
    each insert that began before the drop had ended. What a replica does not show since a fault
    struck its disk is not gone for a drop: the replica fetches it again.
    """

    name = "dropped"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, the final reads of every replica, a value that a
        drop removed, one that it left, and a log entry of type "drop"."""
        partitions = _partitions(history)
        rest = quiescence_of(history)
        logged = _logged(history)
        gone_by: dict[int, str] = {}
        for one in partitions.values() if rest.reached else ():
            gone_by |= _taken(history, one)
        broken = [
            anomaly
            for key, one in sorted(partitions.items())
            for anomaly in (
                *_returned(history, key, one),
                *_at_rest(history, key, one, rest, gone_by),
            )
        ]
        every = partitions.values()
        gone = sum(one.met(value) is not None for one in every for value in one.inserts)
        safe = sum(not one.perhaps_met(value) for one in every for value in one.inserts)
        done = sum(one.done for one in every)
        doubts = rest.doubts
        silent = _silent(history, partitions, rest)
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
            summary=summarize(broken, doubts, summary) + not_promised(gone_by.values()),
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
    calls = history.calls(INSERT, DROP, *READS, kinds=(Kind.OK, Kind.INFO))
    for place, pair in zip(calls.places, calls, strict=True):
        key = pair.invoke.key
        if key is None:
            continue
        one = out.setdefault(key, _DroppedPartition())
        if pair.invoke.f == DROP:
            one.drop(place, pair)
        elif pair.kind is Kind.OK and pair.invoke.f == INSERT:
            one.inserts[insert_value(pair.invoke)] = pair.invoke.index, _end(pair).index
        elif pair.kind is Kind.OK:
            one.reads.setdefault(str(pair.invoke.node), array("I")).append(place)
    return out


def _end(pair: Pair) -> Op:
    assert pair.end is not None, "an ok has an end"
    return pair.end


def _values(read: Pair) -> frozenset[int]:
    value = _end(read).value
    return frozenset(value) if isinstance(value, tuple) else frozenset()


def _returned(history: History, key: int, one: _DroppedPartition) -> Iterable[Anomaly]:
    """Yield the values that one replica showed, then did not show, and showed again, though a drop
    began after their acknowledgement."""
    taken = taken_of(history)
    for node, places in sorted(one.reads.items()):
        before: frozenset[int] = frozenset()
        before_ns = 0
        gone: dict[int, tuple[Op, Op]] = {}
        for read in Pairs(history.rows, places):
            values = _values(read)
            for value in sorted(values & gone.keys()):
                began, lacked = gone.pop(value)
                drop = one.last_drop(value, lacked.index)
                if drop is not None and lacked.index < read.invoke.index:
                    how = f"is back on {node}, which did not show it at {seconds(began.time_ns)}"
                    yield _anomaly(history, "returned", key, value, how, one, drop, read)
            lacking = read.invoke, replace(_end(read), value=None)
            if not taken.interrupts(node, before_ns, _end(read).time_ns):
                gone |= {value: lacking for value in before - values if value in one.inserts}
            before, before_ns = values, read.invoke.time_ns


def _taken(history: History, one: _DroppedPartition) -> dict[int, str]:
    """Return the values that no replica has at rest and a fault took, with its name."""
    taken = taken_of(history)
    finals = [_last_final(history, places) for places in one.reads.values()] if taken else []
    kept = {value for read in finals if read is not None for value in _values(read)}
    found: dict[int, str] = {}
    for value, (began, acked) in one.inserts.items() if taken else ():
        if value in kept or one.perhaps_met(value):
            continue
        shown_on = [
            node
            for node, places in one.reads.items()
            if any(value in _values(read) for read in Pairs(history.rows, places))
        ]
        invoke, ack = history[began], history[acked]
        reason = taken.reason([ack.node], invoke.time_ns, ack.time_ns, shown_on=shown_on)
        found |= {value: reason} if reason else {}
    return found


def _at_rest(
    history: History,
    key: int,
    one: _DroppedPartition,
    rest: Quiescence,
    taken: Collection[int],
) -> Iterable[Anomaly]:
    if not rest.reached:
        return
    for node, places in sorted(one.reads.items()):
        read = _last_final(history, places)
        if read is None:
            continue
        values = _values(read)
        for value in one.inserts:
            drop = one.met(value)
            if value in values and drop is not None:
                how = f"is on {node} at rest"
                yield _anomaly(history, "kept", key, value, how, one, drop, read)
            elif value not in values and not one.perhaps_met(value) and value not in taken:
                how = f"is not on {node} at rest, and no drop met it"
                yield _anomaly(history, "lost", key, value, how, one, None, read)


def _last_final(history: History, places: "array[int]") -> Pair | None:
    reads = (history.pairs[place] for place in reversed(places))
    return next((read for read in reads if read.invoke.f == "final-read"), None)


def _silent(
    history: History, partitions: Mapping[int, _DroppedPartition], rest: Quiescence
) -> list[str]:
    """Return the replicas that did not answer the final read of some partition with values."""
    filled = [one for one in partitions.values() if one.inserts]
    return [
        node
        for node in rest.nodes
        if any(_last_final(history, one.reads.get(node, array("I"))) is None for one in filled)
    ]


def _logged(history: History) -> int:
    """Return the number of log entries of type "drop" in the last look at the log."""
    looks = history.calls(LOG, kinds=(Kind.OK,))
    types = mapping_of(looks[-1].end).get("types") if looks else None
    count = types.get("drop") if isinstance(types, Mapping) else None
    return count if isinstance(count, int) else 0


def _anomaly(
    history: History,
    kind: str,
    key: int,
    value: int,
    how: str,
    one: _DroppedPartition,
    dropped: int | None,
    read: Pair,
) -> Anomaly:
    acked, end = history[one.inserts[value][1]], _end(read)
    ops = {acked.index, read.invoke.index, end.index}
    by = ""
    if dropped is not None:
        drop = history.pairs[dropped]
        ops.add(drop.invoke.index)
        by = (
            f"; partition {key} dropped from {seconds(drop.invoke.time_ns)}{where(drop.invoke)}, "
            f"op #{drop.invoke.index} {drop.kind.value}"
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
