"""Checks that DROP PARTITION removes what was there before it, for good, and nothing else.

The key of a call is a partition. Of the drops of a partition that were not refused, one *meets* a
value if it began after the value was acknowledged; one *may meet* it if the insert began before the
drop had ended, and one of unknown outcome never ends.

Violated, of an acknowledged value:
returned  a replica's reads showed it, then did not show it, and then showed it again, though a drop
          met it that began before the read that lacked it ended
kept      at rest a replica has it, though the last acknowledged drop met it
lost      at rest a replica does not have it, though no drop may meet it

Doubtful: a cluster that was not at rest, a replica without a final read of a partition with values;
no drop met a value, or every value may be met; no log entry of type "drop". What a fault took from
the disk of the one replica that had to have it is not lost. What a replica does not show since a
fault struck its disk is not gone for a drop, for the replica fetches it again.

A value that comes back is no anomaly where no drop explains that it was gone, because a replica may
read from a part that it then loses and fetches again:
    read on ch1 → 1     read on ch1 → nothing     read on ch1 → 1
"""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from checkers.conclusion import Findings
from checkers.ddl.alters import LogTypes
from checkers.look import decode
from checkers.phrasing import during, listed, number, seconds, where
from checkers.quiescence import Quiescence, quiescence_of
from checkers.sets.key_sets import INSERT, insert_value
from checkers.taken import not_promised, taken_of
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.rows import Pairs
from harness.core.verdict import Verdict

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
    the reads of a key, and the last "final-log"."""

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
        found = Findings(self.name)
        for key, one in sorted(partitions.items()):
            _judge_reads(found, history, key, one)
            if rest.reached:
                _judge_rest(found, history, key, one, gone_by)
        every = partitions.values()
        gone = sum(one.met(value) is not None for one in every for value in one.inserts)
        safe = sum(not one.perhaps_met(value) for one in every for value in one.inserts)
        done = sum(one.done for one in every)
        found.doubts += rest.doubts
        silent = _silent(history, partitions, rest)
        if silent:
            found.add_doubt(f"no final read of {listed(silent)}")
        if not gone:
            found.add_doubt("no acknowledged drop followed an acknowledged insert")
        if not safe:
            found.add_doubt("no acknowledged insert was out of reach of every drop")
        if not logged:
            found.add_doubt("no log entry of type drop was seen")
        return found.verdict(
            checked=gone + safe,
            broken=found.tally,
            held=f"{number(done, 'drop')}, {number(logged, 'log entry', 'log entries')}: "
            f"{number(gone, 'acknowledged value')} gone for good, {safe:,} others kept",
            after=not_promised(gone_by.values()),
            figures={"drops": done, "logged": logged, "gone": gone, "kept": safe},
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


def _judge_reads(found: Findings, history: History, key: int, one: _DroppedPartition) -> None:
    """Add the values that one replica showed, then did not show, and showed again, though a drop
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
                    _add(found, history, "returned", key, value, how, one, drop, read)
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


def _judge_rest(
    found: Findings, history: History, key: int, one: _DroppedPartition, taken: Collection[int]
) -> None:
    for node, places in sorted(one.reads.items()):
        read = _last_final(history, places)
        if read is None:
            continue
        values = _values(read)
        for value in one.inserts:
            drop = one.met(value)
            if value in values and drop is not None:
                how = f"is on {node} at rest"
                _add(found, history, "kept", key, value, how, one, drop, read)
            elif value not in values and not one.perhaps_met(value) and value not in taken:
                how = f"is not on {node} at rest, and no drop met it"
                _add(found, history, "lost", key, value, how, one, None, read)


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
    return decode(_end(looks[-1]), LogTypes).types.get("drop", 0) if looks else 0


def _add(
    found: Findings,
    history: History,
    kind: str,
    key: int,
    value: int,
    how: str,
    one: _DroppedPartition,
    dropped: int | None,
    read: Pair,
) -> None:
    acked, end = history[one.inserts[value][1]], _end(read)
    drop = None if dropped is None else history.pairs[dropped]
    by = ""
    if drop is not None:
        by = (
            f"; partition {key} dropped from {seconds(drop.invoke.time_ns)}{where(drop.invoke)}, "
            f"op #{drop.invoke.index} {drop.kind.value}"
        )
    found.add_anomaly(
        kind,
        f"value {value}, ok at {seconds(acked.time_ns)}{where(acked)} (op #{acked.index}), "
        f"{how} (op #{end.index} at {seconds(end.time_ns)}{by}){during(history, end.time_ns)}",
        *(acked, read, None if drop is None else drop.invoke),
        value=value,
        time_ns=end.time_ns,
    )
