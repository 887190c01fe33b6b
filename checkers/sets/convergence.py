"""Checks that all replicas answer the same once the cluster is at rest.

`checkers.quiescence` determines the replicas, and whether the cluster was at rest. The last final
read of a key on each replica returned a multiset of values; these are to be equal.

Violated, at rest: two replicas return a value not equally often, though it was settled before the
first final read of its key began ("diverged"). A value is settled if its insert was acknowledged,
or some read has returned it, or its every try was refused, or nobody tried it, because then it must
not appear late.

Doubtful: a cluster that was not at rest, a replica without a final read of some key, and a
difference in a value that is not settled, because an insert of unknown outcome may take effect
between two final reads:
    insert 1 on ch1 → info     final-read on ch2 → []     final-read on ch1 → [1]
So is a difference with a replica whose disk a fault struck and that has refused a call since the
cluster came to rest: it notices only when it is asked that it cannot read a part, removes it, and
fetches it again. So is one in a value that ZooKeeper may have forgotten (`checkers.forgotten`). A
replica that has yet to check a part is at rest, because 18.16.1 may never do it
(see `checkers.quiescence`); the witness mentions such parts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from checkers.conclusion import Findings, anomaly
from checkers.forgotten import forgotten_by
from checkers.phrasing import listed, number, on_key, read_answered, seconds
from checkers.quiescence import Quiescence, quiescence_of
from checkers.sets.key_sets import AnsweredRead, KeySet, key_sets
from checkers.taken import fetching_again
from harness.core.history import History
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that two replicas do not return equally often, and their final reads."""

    key: KeySet
    value: int
    more: AnsweredRead
    less: AnsweredRead


class Convergence:
    """Checker: the last final reads of a key on all replicas return the same multiset."""

    name = "convergence"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, a final read of every key on every replica, and no
        difference."""
        rest = quiescence_of(history)
        keys = key_sets(history)
        found = Findings(self.name, kinds=["diverged"])
        finals = {key.key: dict(key.found.last_finals()) for key in keys}
        differences: list[Difference] = []
        unsettled: list[int] = []
        for key in keys:
            settled, other = _differences(key, finals[key.key])
            differences += settled
            unsettled += other
        _add_doubts(found, rest, finals)
        if unsettled:
            found.add_doubt(
                f"{number(len(unsettled), 'value')} of unknown outcome on some replicas only: "
                f"{listed(unsettled)}"
            )
        if not keys:
            found.add_doubt("no key was used")
        fetching = fetching_again(history) if differences else frozenset()
        forgotten = [_forgotten(history, one) for one in differences]
        known = [one for one, by in zip(differences, forgotten, strict=True) if not by]
        diverged = [one for one in known if one.less.invoke.node not in fetching]
        if rest.reached:
            for by in sorted({*forgotten} - {""}):
                found.add_doubt(
                    f"ZooKeeper may have forgotten {number(forgotten.count(by), 'value')}, of "
                    f"which {by} took what a server knew"
                )
            if len(diverged) < len(known):
                found.add_doubt(
                    f"{listed(sorted(fetching))} could not read what a fault had struck"
                )
            for one in diverged:
                found.add_anomalies("diverged", _diverged(history, one, rest))
        elif differences:
            found.add_doubt(f"{number(len(differences), 'value')} not on every replica yet")
        checked = sum(len(reads) for reads in finals.values())
        replicas, of = len(rest.nodes), number(len({one.key.key for one in diverged}), "key")
        at = "" if rest.at_ns is None else f" at {seconds(rest.at_ns)}"
        return found.verdict(
            checked=checked,
            broken=f"{number(len(diverged), 'value')} not equally on all {replicas} replicas at "
            f"rest ({of} of {len(keys)})",
            held=f"{number(replicas, 'replica')} equal in {number(len(keys), 'key')}{at}",
            figures={
                "replicas": replicas,
                "keys": len(keys),
                "final_reads_used": checked,
                "rest_at_s": None if rest.at_ns is None else rest.at_ns / 1e9,
                "pending": None if rest.pending is None else list(rest.pending),
                "unsettled": len(unsettled),
            },
        )


def _forgotten(history: History, one: Difference) -> str:
    """Return the fault by which ZooKeeper may have forgotten the part of a value; "" if none."""
    insert = one.key.inserts.get(one.value)
    if insert is None or one.less.values.count(one.value):
        return ""
    return forgotten_by(history, insert.invoke.time_ns)


def _add_doubts(
    found: Findings, rest: Quiescence, finals: Mapping[int | None, Mapping[str, int]]
) -> None:
    if rest.pending is None:
        found.add_doubt("the run did not record that the cluster came to rest")
    elif rest.pending:
        found.add_doubt(f"pending: {listed(rest.pending)}")
    for key, reads in finals.items():
        silent = [node for node in rest.nodes if node not in reads]
        if silent:
            found.add_doubt(f"no final read of key {key} on {listed(silent)}")


def _differences(key: KeySet, places: Mapping[str, int]) -> tuple[list[Difference], list[int]]:
    """Return the differences in settled values, and the other values that differ. `places` has the
    reads by node."""
    if len(places) < 2 or key.found.same(list(places.values())):
        return [], []
    finals = {node: key.read(place) for node, place in places.items()}
    counts = {node: Counter(read.values) for node, read in finals.items()}
    settled, unsettled = [], []
    for value in sorted({value for count in counts.values() for value in count}):
        by_count = sorted(counts, key=lambda node: counts[node][value])
        least, most = by_count[0], by_count[-1]
        if counts[least][value] == counts[most][value]:
            continue
        if _settled(key, value):
            settled.append(Difference(key, value, finals[most], finals[least]))
        else:
            unsettled.append(value)
    return settled, unsettled


def _settled(key: KeySet, value: int) -> bool:
    insert = key.inserts.get(value)
    if insert is None or insert.kind is Kind.FAIL:
        return True
    begin_ns = min(read.invoke.time_ns for read in key.finals)
    if insert.ack is not None and insert.ack.time_ns < begin_ns:
        return True
    return any(read.mask & insert.bit for read in key.reads if read.end.time_ns < begin_ns)


def _diverged(history: History, one: Difference, rest: Quiescence) -> Iterator[Anomaly]:
    more, less = one.more, one.less
    times = (more.values.count(one.value), less.values.count(one.value))
    has = "has" if times[0] == 1 else f"has {times[0]} times"
    lacks = "lacks" if times[1] == 0 else "has once" if times[1] == 1 else f"has {times[1]} times"
    reads = sorted((more, less), key=lambda read: read.invoke.index)
    yet = [
        f"{node} has {number(count, 'part')} to check: one of an insert of unknown outcome may "
        "never be on another replica"
        for node, count in rest.to_check.items()
        if node == more.invoke.node
    ]
    yield anomaly(
        "diverged",
        f"value {one.value}{on_key(more.invoke)}, which {more.invoke.node} {has} and "
        f"{less.invoke.node} {lacks} at rest (op #{more.end.index}, op #{less.end.index})",
        *(op for read in reads for op in (read.invoke, read.end)),
        key=one.key.key,
        value=one.value,
        time_ns=min(read.end.time_ns for read in reads),
        steps=(
            *(
                read_answered(
                    history,
                    read.invoke,
                    read.end,
                    f"with {one.value} {number(read.values.count(one.value), 'time')}",
                )
                for read in reads
            ),
            *yet,
        ),
    )
