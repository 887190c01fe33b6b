"""Checks that every mutation took effect once on every row that was there before it, and on no row
inserted after it."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, mapping_of, summarize
from checkers.phrasing import during, listed, number, seconds, where
from checkers.quiescence import quiescence_of
from checkers.sets.key_sets import INSERT, insert_value
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.rows import Pairs
from harness.core.verdict import Anomaly, Verdict

MUTATE = "mutate"
ROWS = "final-rows"
BITS = 4
"""Number of bits of a row's `hits` for each update, which adds one to them: they count how often
the update took effect."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A call "mutate": {"number", "update": its place in `hits`} or {"number", "delete": value}."""

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
    """Judges the last "final-rows" of each replica and key, at rest: {"rows": [[value, hits]],
    "undone": {mutation: how many parts the replica says it has yet to change}}, where "undone" is
    counted and promises nothing.

    INVALID, of rows that were acknowledged: an update took effect twice ("applied-twice"), not on
    a row acknowledged before it began ("missed"), on one whose insert began after it had ended, or
    though it was refused ("touched"); a row gone that no delete asked for ("lost") or there though
    a delete of it that began after the acknowledgement was ok ("not-deleted"); replicas that
    differ ("diverged").
    """

    name = "mutations"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, the rows of every replica, and an acknowledged
        mutation."""
        mutations = MutationIndex(history)
        finals = _finals(history)
        rest = quiescence_of(history)
        rows = {node: _rows(ends) for node, ends in finals.items()}
        doubts = rest.doubts
        silent = sorted(set(rest.nodes) - set(rows))
        if silent or not rows:
            doubts.append(f"no final rows of {listed(silent) if silent else 'any replica'}")
        if not mutations.acknowledged:
            doubts.append("no mutation was acknowledged")
        broken: list[Anomaly] = []
        if rest.reached:
            broken = [
                *_diverged(history, rows, finals),
                *_wrong_rows(history, rows, finals, mutations),
            ]
        kinds = count_kinds(broken)
        summary = (
            f"{number(mutations.acknowledged, 'mutation')} once each on "
            f"{number(len(rows), 'replica')}, {mutations.led:,} sent to the leader"
        )
        undone = {mutation for ends in finals.values() for mutation in _undone(ends)}
        if undone:
            summary += f"; {len(undone):,} never reported done"
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summarize(broken, doubts, summary),
            checked=mutations.acknowledged,
            anomalies=few_of_each_kind(broken),
            figures={
                "mutations": len(mutations.calls),
                "acknowledged": mutations.acknowledged,
                "of_the_leader": mutations.led,
                "never_said_done": len(undone),
                "anomalies": {**kinds},
            },
        )


@dataclass(slots=True)
class _Update:
    """What the calls of one update say together: whether any of them may be at fault."""

    refused: bool = False
    first_end_ns: float = inf
    """First end of those that are ok."""
    last_begin_ns: float = -inf
    """Last begin of those that are ok."""

    def suspect(self, times: int, insert: Pair, ack: Op) -> bool:
        """Return whether a row that it changed so many times may be one of `_wrong`."""
        if not times:
            return self.last_begin_ns > ack.time_ns
        return times > 1 or self.refused or self.first_end_ns < insert.invoke.time_ns


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
        for at, one in enumerate(self):
            done = one.pair.end if one.pair.kind is Kind.OK else None
            self.acknowledged += done is not None
            self.led += done is not None and bool(mapping_of(done).get("leads"))
            if one.delete is not None and one.pair.kind is not Kind.FAIL:
                self._deletes.setdefault(one.delete, []).append(at)
            if one.update is not None:
                update = self._updates.setdefault(one.update, _Update())
                update.refused |= one.pair.kind is Kind.FAIL
                if done is not None:
                    begin_ns = one.pair.invoke.time_ns
                    update.first_end_ns = min(update.first_end_ns, done.time_ns)
                    update.last_begin_ns = max(update.last_begin_ns, begin_ns)

    def __iter__(self) -> Iterator[Mutation]:
        return map(_mutation, self.calls)

    def deletes(self, value: int) -> list[Mutation]:
        """Return the deletes of a value that may have taken effect."""
        return [_mutation(self.calls[at]) for at in self._deletes.get(value, ())]

    def wrong(self, hits: int, insert: Pair, ack: Op) -> Iterable[tuple[str, Mutation]]:
        """Yield each update that went wrong on a row, and how."""
        updates = self._updates.items()
        if any(one.suspect(_times(hits, update), insert, ack) for update, one in updates):
            for mutation in self:
                if wrong := _wrong(mutation, hits, insert, ack):
                    yield wrong, mutation


def _mutation(pair: Pair) -> Mutation:
    value = mapping_of(pair.invoke)
    return Mutation(pair, value.get("update"), value.get("delete"))


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
    return {int(v): int(hits) for end in ends for v, hits in mapping_of(end).get("rows") or ()}


def _undone(ends: Iterable[Op]) -> set[str]:
    return {str(mutation) for end in ends for mutation in mapping_of(end).get("undone") or ()}


def _diverged(
    history: History, rows: Mapping[str, Mapping[int, int]], finals: Mapping[str, Sequence[Op]]
) -> Iterable[Anomaly]:
    nodes = sorted(rows)
    for other in nodes[1:]:
        a, b = rows[nodes[0]], rows[other]
        different = [v for v in sorted(a.keys() | b.keys()) if a.get(v) != b.get(v)]
        if different:
            v = different[0]
            end = finals[other][-1]
            yield Anomaly(
                kind="diverged",
                text=(
                    f"{number(len(different), 'row')} differ on {nodes[0]} and {other} at rest, "
                    f"first value {v}: {_hits(a.get(v))} and {_hits(b.get(v))}"
                    f"{during(history, end.time_ns)}"
                ),
                ops=tuple(sorted({finals[nodes[0]][-1].index, end.index})),
                value=v,
                time_ns=end.time_ns,
            )


def _hits(hits: int | None) -> str:
    return "not there" if hits is None else f"hits {hits:#x}"


def _wrong_rows(
    history: History,
    rows: Mapping[str, Mapping[int, int]],
    finals: Mapping[str, Sequence[Op]],
    mutations: MutationIndex,
) -> Iterable[Anomaly]:
    """Yield what is wrong with the rows of acknowledged inserts, node by node."""
    inserts = history.calls(INSERT)
    last: dict[int, int] = {}
    for place, pair in zip(inserts.places, inserts, strict=True):
        last[insert_value(pair.invoke)] = place
    found: dict[str, list[Anomaly]] = {node: [] for node in rows}
    for insert in Pairs(history.rows, array("I", last.values())):
        if insert.kind is Kind.OK:
            deletes = mutations.deletes(insert_value(insert.invoke))
            for node, own in rows.items():
                found[node] += _of_insert(node, own, finals[node], insert, deletes, mutations)
    return chain.from_iterable(found.values())


def _of_insert(
    node: str,
    rows: Mapping[int, int],
    finals: Sequence[Op],
    insert: Pair,
    deletes: Sequence[Mutation],
    mutations: MutationIndex,
) -> Iterable[Anomaly]:
    value, ack = insert_value(insert.invoke), insert.end
    assert ack is not None, "an ok has an end"
    if value not in rows:
        if not deletes:
            yield _anomaly("lost", f"value {value} is gone from {node}", insert, None, finals)
        return
    sure = next((m for m in deletes if m.pair.kind is Kind.OK and _after(m.pair, ack)), None)
    if sure is not None:
        yield _anomaly("not-deleted", f"value {value} is on {node}", insert, sure, finals)
    for wrong, one in mutations.wrong(rows[value], insert, ack):
        text = f"value {value} on {node} has hits {rows[value]:#x}"
        yield _anomaly(wrong, text, insert, one, finals)


def _times(hits: int, update: int) -> int:
    """Return how often an update took effect on a row."""
    return hits >> (BITS * update) & ((1 << BITS) - 1)


def _wrong(one: Mutation, hits: int, insert: Pair, ack: Op) -> str | None:
    """Return how the update went wrong on a row; None if it did not."""
    if one.update is None:
        return None
    times = _times(hits, one.update)
    if times > 1:
        return "applied-twice"
    end = one.pair.end
    over = end is not None and end.kind is Kind.OK and end.time_ns < insert.invoke.time_ns
    if times and (one.pair.kind is Kind.FAIL or over):
        return "touched"
    return "missed" if not times and one.pair.kind is Kind.OK and _after(one.pair, ack) else None


def _after(pair: Pair, ack: Op) -> bool:
    return pair.invoke.time_ns > ack.time_ns


def _anomaly(
    kind: str, text: str, insert: Pair, mutation: Mutation | None, finals: Sequence[Op]
) -> Anomaly:
    assert insert.end is not None, "asked of acknowledged inserts only"
    ops = {insert.invoke.index, insert.end.index, finals[-1].index}
    if mutation is not None:
        ops |= {op.index for op in (mutation.pair.invoke, mutation.pair.end) if op is not None}
    acked = f"op #{insert.end.index} ok at {seconds(insert.end.time_ns)}"
    by = f"; {mutation.described}" if mutation is not None else ""
    return Anomaly(
        kind=kind,
        text=f"{text} at rest ({acked}{by})",
        ops=tuple(sorted(ops)),
        value=insert_value(insert.invoke),
        time_ns=insert.end.time_ns,
    )
