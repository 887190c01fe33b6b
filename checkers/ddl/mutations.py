"""Checks that every mutation took effect once on every row that was there before it, and on no row
inserted after it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, mapping_of, summarize
from checkers.phrasing import during, listed, number, seconds, where
from checkers.quiescence import quiescence_of
from checkers.sets.key_sets import INSERT, insert_value
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
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
        mutations = [_mutation(pair) for pair in history.pairs if pair.invoke.f == MUTATE]
        done = [one for one in mutations if one.pair.kind is Kind.OK]
        finals = _finals(history)
        rest = quiescence_of(history)
        rows = {node: _rows(ends) for node, ends in finals.items()}
        doubts = rest.doubts
        silent = sorted(set(rest.nodes) - set(rows))
        if silent or not rows:
            doubts.append(f"no final rows of {listed(silent) if silent else 'any replica'}")
        if not done:
            doubts.append("no mutation was acknowledged")
        inserts = {insert_value(p.invoke): p for p in history.pairs if p.invoke.f == INSERT}
        broken: list[Anomaly] = []
        if rest.reached:
            broken = [
                *_diverged(history, rows, finals),
                *(
                    a
                    for n, of in rows.items()
                    for a in _of_node(n, of, finals[n], inserts, mutations)
                ),
            ]
        kinds = count_kinds(broken)
        led = sum(_led(one.pair) for one in done)
        summary = (
            f"{number(len(done), 'mutation')} once each on {number(len(rows), 'replica')}, "
            f"{led:,} sent to the leader"
        )
        undone = {mutation for ends in finals.values() for mutation in _undone(ends)}
        if undone:
            summary += f"; {len(undone):,} never reported done"
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summarize(broken, doubts, summary),
            checked=len(done),
            anomalies=few_of_each_kind(broken),
            figures={
                "mutations": len(mutations),
                "acknowledged": len(done),
                "of_the_leader": led,
                "never_said_done": len(undone),
                "anomalies": {**kinds},
            },
        )


def _mutation(pair: Pair) -> Mutation:
    value = mapping_of(pair.invoke)
    return Mutation(pair, value.get("update"), value.get("delete"))


def _led(pair: Pair) -> bool:
    return bool(mapping_of(pair.end).get("leads"))


def _finals(history: History) -> dict[str, list[Op]]:
    """Return the last final read of each key, by replica."""
    last: dict[tuple[str, int | None], Op] = {}
    for pair in history.pairs:
        if pair.invoke.f == ROWS and pair.kind is Kind.OK and pair.end is not None:
            last[str(pair.invoke.node), pair.invoke.key] = pair.end
    out: dict[str, list[Op]] = {}
    for (node, _), end in last.items():
        out.setdefault(node, []).append(end)
    return out


def _rows(ends: Iterable[Op]) -> dict[int, int]:
    return {int(v): int(hits) for end in ends for v, hits in mapping_of(end).get("rows") or ()}


def _undone(ends: Iterable[Op]) -> set[str]:
    return {str(mutation) for end in ends for mutation in mapping_of(end).get("undone") or ()}


def _diverged(
    history: History, rows: Mapping[str, Mapping[int, int]], finals: Mapping[str, list[Op]]
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


def _of_node(
    node: str,
    rows: Mapping[int, int],
    finals: list[Op],
    inserts: Mapping[int, Pair],
    mutations: list[Mutation],
) -> Iterable[Anomaly]:
    for value, insert in inserts.items():
        ack = insert.end
        if insert.kind is not Kind.OK or ack is None:
            continue
        deletes = [m for m in mutations if m.delete == value and m.pair.kind is not Kind.FAIL]
        sure = [m for m in deletes if m.pair.kind is Kind.OK and _after(m.pair, ack)]
        if value not in rows:
            if not deletes:
                yield _anomaly("lost", f"value {value} is gone from {node}", insert, None, finals)
            continue
        if sure:
            yield _anomaly("not-deleted", f"value {value} is on {node}", insert, sure[0], finals)
        for one in mutations:
            wrong = _wrong(one, rows[value], insert, ack)
            if wrong:
                text = f"value {value} on {node} has hits {rows[value]:#x}"
                yield _anomaly(wrong, text, insert, one, finals)


def _wrong(one: Mutation, hits: int, insert: Pair, ack: Op) -> str | None:
    """Return how the update went wrong on a row; None if it did not."""
    if one.update is None:
        return None
    times = hits >> (BITS * one.update) & ((1 << BITS) - 1)
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
    kind: str, text: str, insert: Pair, mutation: Mutation | None, finals: list[Op]
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
