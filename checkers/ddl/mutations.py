"""Checks that every mutation took effect once on every row that was there before it, and on no row
inserted after it.

Each row is inserted by its value. A mutation deletes the row of a value, or is an update, which
adds one to its own `BITS` bits of the `hits` of every row; so these bits count how often it took
effect. At rest each replica shows the rows of each key, with their hits; its last answers count.

Violated, at rest, of the row of a value whose last insert was acknowledged, on some replica:
applied-twice  it has an update more than once
missed         it lacks an update that was ok and began after the acknowledgement
touched        it has an update that was refused, or that had ended before its insert began
lost           it is gone, and no delete that may have taken effect names it
not-deleted    it is there, though a delete of it that began after the acknowledgement was ok
And of all rows:
diverged       two replicas have different rows or hits

Doubtful: a cluster that was not at rest, a replica without final rows, no acknowledged mutation. A
row that a fault took from the disk of the one replica that had to have it is not lost. How many
mutations a replica says it has yet to finish ("undone") is counted and promises nothing.

A mutation that overlaps the insert may find the row or not, so that both of these are right, and
one of unknown outcome is never missed:
    p0 insert 1 begins     p1 update 0 → ok     p0 ok     final-rows → 1 with hits 0, or 1
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from heapq import merge
from itertools import islice

import msgspec
from msgspec import UNSET, UnsetType

from checkers.conclusion import Findings, anomaly
from checkers.look import decode
from checkers.phrasing import FEW, during, listed, number, seconds, where
from checkers.quiescence import quiescence_of
from checkers.sets.key_sets import INSERT, insert_value
from checkers.taken import not_promised, taken_of
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.rows import Pairs
from harness.core.verdict import Anomaly, Verdict

MUTATE = "mutate"
ROWS = "final-rows"
BITS = 4
"""Number of bits of a row's `hits` for each update, which adds one to them: they count how often
the update took effect."""


class Mutate(msgspec.Struct, frozen=True):
    """Value of a call "mutate", an update or a delete, and of its end."""

    update: int | UnsetType = UNSET
    """Place of the update in `hits`."""
    delete: int | UnsetType = UNSET
    """Value whose row is deleted."""
    leads: bool | UnsetType = UNSET
    """Whether the replica that was asked led the table."""


class RowsOfReplica(msgspec.Struct, frozen=True):
    """Look at the rows of a key on a replica."""

    rows: list[tuple[int, int]] = []
    """The value of each row, and its hits."""
    undone: dict[str, int] = {}
    """Number of parts that the replica says it has yet to change, by mutation."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A call "mutate"."""

    pair: Pair
    update: int | None
    delete: int | None

    @property
    def described(self) -> str:
        """The mutation in words."""
        what = f"update {self.update}" if self.delete is None else f"delete of {self.delete}"
        end = self.pair.end or self.pair.invoke
        how = self.pair.kind.value
        return f"{what} (op #{end.index} {how}{where(end)} at {seconds(end.time_ns)})"


class Mutations:
    """Judges the last "final-rows" of each replica and key, at rest."""

    name = "mutations"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, the rows of every replica, and an acknowledged
        mutation."""
        mutations = MutationIndex(history)
        finals = _finals(history)
        rest = quiescence_of(history)
        rows = {node: _rows(ends) for node, ends in finals.items()}
        found = Findings(self.name)
        found.doubts += rest.doubts
        silent = sorted(set(rest.nodes) - set(rows))
        if silent or not rows:
            found.add_doubt(f"no final rows of {listed(silent) if silent else 'any replica'}")
        if not mutations.acknowledged:
            found.add_doubt("no mutation was acknowledged")
        gone_by: dict[int, str] = {}
        if rest.reached:
            _judge_replicas(found, history, rows, finals)
            _judge_rows(found, history, rows, finals, mutations, gone_by)
        undone = {mutation for ends in finals.values() for mutation in _undone(ends)}
        return found.verdict(
            checked=mutations.acknowledged,
            broken=found.tally,
            held=f"{number(mutations.acknowledged, 'mutation')} once each on "
            f"{number(len(rows), 'replica')}, {mutations.led:,} sent to the leader"
            + (f"; {len(undone):,} never reported done" if undone else ""),
            after=not_promised(gone_by.values()),
            figures={
                "mutations": len(mutations.calls),
                "acknowledged": mutations.acknowledged,
                "of_the_leader": mutations.led,
                "never_said_done": len(undone),
            },
        )


class _Update:
    """The calls of one update, in the order in which they began."""

    def __init__(self) -> None:
        self.places = array("I")
        """Their places in the calls of all mutations."""
        self.refused = array("I")
        """Places of those that were refused."""
        self.done = array("I")
        """Places of those that are ok."""
        self.begins_ns = array("q")
        """Times at which those began that are ok."""
        self.ends_ns = array("q")
        """Times at which they ended."""

    def add(self, place: int, pair: Pair) -> None:
        """Add the next call."""
        self.places.append(place)
        if pair.kind is Kind.FAIL:
            self.refused.append(place)
        elif pair.kind is Kind.OK and pair.end is not None:
            self.done.append(place)
            self.begins_ns.append(pair.invoke.time_ns)
            self.ends_ns.append(pair.end.time_ns)

    @cached_property
    def _ends_ns(self) -> "array[int]":
        return array("q", sorted(self.ends_ns))

    def wrong(self, times: int, insert: Pair, ack: Op) -> tuple[str, int, Iterable[int]]:
        """Return how the update went wrong on a row that it changed so many times, in how many of
        its calls, and the places of these, ascending."""
        if times > 1:
            return "applied-twice", len(self.places), self.places
        if not times:
            after = bisect_right(self.begins_ns, ack.time_ns)
            return "missed", len(self.done) - after, islice(self.done, after, None)
        began_ns = insert.invoke.time_ns
        over = (
            place
            for place, end_ns in zip(self.done, self.ends_ns, strict=True)
            if end_ns < began_ns
        )
        count = len(self.refused) + bisect_left(self._ends_ns, began_ns)
        return "touched", count, merge(self.refused, over)


class MutationIndex:
    """The mutations of a history, by what they change."""

    def __init__(self, history: History) -> None:
        self.calls = history.calls(MUTATE)
        self.acknowledged = 0
        self.led = 0
        """Number of acknowledged mutations that the leader was asked for."""
        self._updates: dict[int, _Update] = {}
        self._deletes: dict[int, list[int]] = {}
        """Places in `calls` of the deletes of each value that may have taken effect."""
        for at, one in enumerate(map(_mutation, self.calls)):
            done = one.pair.end if one.pair.kind is Kind.OK else None
            self.acknowledged += done is not None
            self.led += done is not None and bool(decode(done, Mutate).leads)
            if one.delete is not None and one.pair.kind is not Kind.FAIL:
                self._deletes.setdefault(one.delete, []).append(at)
            if one.update is not None:
                self._updates.setdefault(one.update, _Update()).add(at, one.pair)

    def deletes(self, value: int) -> Iterable[Mutation]:
        """Yield the deletes of a value that may have taken effect."""
        return map(self.at, self._deletes.get(value, ()))

    def wrong(self, hits: int, insert: Pair, ack: Op) -> dict[str, tuple[int, list[int]]]:
        """Return how updates went wrong on a row, in order of the first call of each kind: in how
        many calls, and the places of the first `FEW`."""
        found: dict[str, tuple[int, list[int]]] = {}
        for update, calls in self._updates.items():
            times = hits >> (BITS * update) & ((1 << BITS) - 1)
            kind, count, places = calls.wrong(times, insert, ack)
            if count:
                before, few = found.get(kind, (0, []))
                found[kind] = before + count, sorted([*few, *islice(places, FEW)])[:FEW]
        return dict(sorted(found.items(), key=lambda one: one[1][1]))

    def at(self, place: int) -> Mutation:
        """Return the mutation at a place."""
        return _mutation(self.calls[place])


class _RowMutations:
    """The mutations of the row of one acknowledged insert."""

    def __init__(self, index: MutationIndex, insert: Pair) -> None:
        ack = insert.end
        assert ack is not None, "an ok has an end"
        self.index = index
        self.insert = insert
        self.ack = ack
        self.value = insert_value(insert.invoke)
        self.deletes = list(index.deletes(self.value))
        """Deletes of the row that may have taken effect."""
        self.sure_deletes = [
            one
            for one in self.deletes
            if one.pair.kind is Kind.OK and one.pair.invoke.time_ns > ack.time_ns
        ]
        self.wrong = cache(lambda hits: index.wrong(hits, insert, ack))
        """`MutationIndex.wrong` by hits, in which replicas mostly agree."""


def _mutation(pair: Pair) -> Mutation:
    call = decode(pair.invoke, Mutate)
    update = None if call.update is UNSET else call.update
    return Mutation(pair, update, None if call.delete is UNSET else call.delete)


def _finals(history: History) -> dict[str, Sequence[Op]]:
    """Return the last final read of each key, by replica."""
    last: dict[tuple[str, int | None], int] = {}
    for _, end in history.answered(ROWS):
        last[str(end.node), end.key] = end.index
    out: dict[str, list[int]] = {}
    for (node, _), index in last.items():
        out.setdefault(node, []).append(index)
    return {node: history.rows.picked(indices) for node, indices in out.items()}


def _rows(ends: Iterable[Op]) -> dict[int, int]:
    return dict(row for end in ends for row in decode(end, RowsOfReplica).rows)


def _undone(ends: Iterable[Op]) -> set[str]:
    return {mutation for end in ends for mutation in decode(end, RowsOfReplica).undone}


def _judge_replicas(
    found: Findings,
    history: History,
    rows: Mapping[str, Mapping[int, int]],
    finals: Mapping[str, Sequence[Op]],
) -> None:
    nodes = sorted(rows)
    for other in nodes[1:]:
        a, b = rows[nodes[0]], rows[other]
        different = [v for v in sorted(a.keys() | b.keys()) if a.get(v) != b.get(v)]
        if different:
            v = different[0]
            end = finals[other][-1]
            text = (
                f"{number(len(different), 'row')} differ on {nodes[0]} and {other} at rest, "
                f"first value {v}: {_hits(a.get(v))} and {_hits(b.get(v))}"
                f"{during(history, end.time_ns)}"
            )
            proof = finals[nodes[0]][-1], end
            found.add_anomaly("diverged", text, *proof, value=v, time_ns=end.time_ns)


def _hits(hits: int | None) -> str:
    return "not there" if hits is None else f"hits {hits:#x}"


def _judge_rows(
    found: Findings,
    history: History,
    rows: Mapping[str, Mapping[int, int]],
    finals: Mapping[str, Sequence[Op]],
    mutations: MutationIndex,
    gone_by: dict[int, str],
) -> None:
    """Add what is wrong with the rows of acknowledged inserts, node by node. The values that no
    replica has and a fault took are added to `gone_by`, with its name."""
    taken = taken_of(history)
    inserts = history.calls(INSERT)
    last: dict[int, int] = {}
    for place, pair in zip(inserts.places, inserts, strict=True):
        last[insert_value(pair.invoke)] = place
    nodes = {node: Findings(node) for node in rows}
    for insert in Pairs(history.rows, array("I", last.values())):
        if insert.kind is Kind.OK:
            row = _RowMutations(mutations, insert)
            if taken and not any(row.value in own for own in rows.values()) and not row.deletes:
                reason = taken.reason([row.ack.node], insert.invoke.time_ns, row.ack.time_ns)
                if reason:
                    gone_by[row.value] = reason
                    continue
            for node, on_node in nodes.items():
                _judge_row(on_node, node, rows[node], finals[node], row)
    for on_node in nodes.values():
        found.extend(on_node)


def _judge_row(
    found: Findings,
    node: str,
    rows: Mapping[int, int],
    finals: Sequence[Op],
    row: _RowMutations,
) -> None:
    """Add what is wrong with the row of an acknowledged insert on a replica."""
    value = row.value

    def add(kind: str, text: str, by: Iterable[Mutation | None], count: int = 1) -> None:
        witnesses = (_witness(kind, text, row, mutation, finals) for mutation in by)
        found.add_anomalies(kind, witnesses, count)

    if value not in rows:
        if not row.deletes:
            add("lost", f"value {value} is gone from {node}", [None])
        return
    if row.sure_deletes:
        add("not-deleted", f"value {value} is on {node}", row.sure_deletes[:1])
    for kind, (count, places) in row.wrong(rows[value]).items():
        text = f"value {value} on {node} has hits {rows[value]:#x}"
        add(kind, text, map(row.index.at, places), count)


def _witness(
    kind: str, text: str, row: _RowMutations, mutation: Mutation | None, finals: Sequence[Op]
) -> Anomaly:
    acked = f"op #{row.ack.index} ok at {seconds(row.ack.time_ns)}"
    by = f"; {mutation.described}" if mutation is not None else ""
    return anomaly(
        kind,
        f"{text} at rest ({acked}{by})",
        *(row.insert, finals[-1], None if mutation is None else mutation.pair),
        value=row.value,
        time_ns=row.ack.time_ns,
    )
