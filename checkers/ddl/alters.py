"""Checks that every replica has the columns that acknowledged ALTERs make."""

from collections.abc import Iterable, Mapping

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, mapping_of, summarize
from checkers.phrasing import listed, number, seconds, where
from checkers.quiescence import quiescence_of
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict

ADD, DROP, COLUMNS, TYPES = "add-column", "drop-column", "final-columns", "final-log"
PLAIN_TYPES = frozenset({"get", "merge", "drop", "detach"})


class Alters:
    """Judges, at rest, the last "final-columns" of each replica: {"columns": [names], "version":
    of the columns that it has applied, "shared": of those in ZooKeeper}; and the types of the log's
    entries, "final-log": {"types": {name: how many}, "expected": [names of ALTERs' entries where
    the servers write such]}. A column is the number that its call names. An earlier "final-columns"
    is a look.

    INVALID: a replica behind the shared version ("behind"), replicas with different columns
    ("diverged"), an acknowledged ADD without its column though no DROP may have been ("lost-add"),
    an acknowledged DROP that began after every ADD had ended with its column still there
    ("lost-drop"), a log entry of a type that is neither expected nor one of parts ("logged").
    """

    name = "alters"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, the columns of every replica, and acknowledged
        ALTERs."""
        rest = quiescence_of(history)
        finals = {
            str(pair.invoke.node): pair.end
            for pair in history.pairs
            if pair.invoke.f == COLUMNS and pair.kind is Kind.OK and pair.end is not None
        }
        alters = [pair for pair in history.pairs if pair.invoke.f in (ADD, DROP)]
        done = sum(pair.kind is Kind.OK for pair in alters)
        doubts = rest.doubts
        silent = sorted(set(rest.nodes) - set(finals))
        if silent or not finals:
            doubts.append(f"no final columns of {listed(silent) if silent else 'any replica'}")
        if not done:
            doubts.append("no ALTER was acknowledged")
        broken: list[Anomaly] = []
        if rest.reached and finals:
            broken = [*_apart(finals), *_lost(alters, finals), *_logged(history)]
            broken += _undone(history, alters, finals)
        kinds = count_kinds(broken)
        summary = f"{number(done, 'ALTER')} of {len(alters):,} acknowledged, all in force on "
        summary += number(len(finals), "replica")
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summarize(broken, doubts, summary),
            checked=done,
            anomalies=few_of_each_kind(broken),
            figures={"alters": len(alters), "acknowledged": done, "anomalies": {**kinds}},
        )


def _columns(end: Op) -> frozenset[str]:
    return frozenset(str(name) for name in mapping_of(end).get("columns") or ())


def _apart(finals: Mapping[str, Op]) -> Iterable[Anomaly]:
    first, *others = sorted(finals)
    for node, end in sorted(finals.items()):
        own, shared = mapping_of(end).get("version"), mapping_of(end).get("shared")
        if own != shared:
            text = f"{node} has columns of version {own} at rest, ZooKeeper of version {shared}"
            yield _anomaly("behind", text, end)
    for node in others:
        apart = _columns(finals[first]) ^ _columns(finals[node])
        if apart:
            text = f"{first} and {node} differ at rest in {listed(sorted(apart))}"
            yield _anomaly("diverged", text, finals[first], finals[node])


def _lost(alters: list[Pair], finals: Mapping[str, Op]) -> Iterable[Anomaly]:
    by_column: dict[int, list[Pair]] = {}
    for pair in alters:
        if isinstance(pair.invoke.value, int) and pair.kind is not Kind.FAIL:
            by_column.setdefault(pair.invoke.value, []).append(pair)
    node, end = sorted(finals.items())[0]
    there = _columns(end)
    for column, calls in by_column.items():
        adds = [pair for pair in calls if pair.invoke.f == ADD]
        drops = [pair for pair in calls if pair.invoke.f == DROP]
        added = [pair for pair in adds if pair.kind is Kind.OK]
        dropped = [p for p in drops if p.kind is Kind.OK and all(_before(a, p) for a in adds)]
        if added and not drops and f"c{column}" not in there:
            yield _lost_column("lost-add", added[0], "is not there", node, end)
        if dropped and f"c{column}" in there:
            yield _lost_column("lost-drop", dropped[0], "is there", node, end)


def _undone(history: History, alters: list[Pair], finals: Mapping[str, Op]) -> Iterable[Anomaly]:
    node, end = sorted(finals.items())[0]
    there = _columns(end)
    dropped = {f"c{pair.invoke.value}" for pair in alters if pair.invoke.f == DROP}
    shown: dict[str, Op] = {}
    for pair in history.pairs:
        if pair.invoke.f == COLUMNS and pair.kind is Kind.OK and pair.end is not None:
            for column in _columns(pair.end):
                shown.setdefault(column, pair.end)
    for column, look in sorted(shown.items()):
        if column not in there | dropped:
            text = (
                f"column {column}, which {look.node} had at {seconds(look.time_ns)} (op "
                f"#{look.index}) and no DROP names, is not there at rest on {node}"
            )
            yield _anomaly("undone", text, look, end)


def _before(first: Pair, second: Pair) -> bool:
    if first.end is None or first.kind is not Kind.OK:
        return False
    return first.end.time_ns < second.invoke.time_ns


def _lost_column(kind: str, pair: Pair, how: str, node: str, end: Op) -> Anomaly:
    assert pair.end is not None, "an acknowledged ALTER has an end"
    done = pair.end
    text = (
        f"column c{pair.invoke.value}, {done.f} ok at {seconds(done.time_ns)}{where(done)} (op "
        f"#{done.index}), {how} at rest on {node}"
    )
    return _anomaly(kind, text, pair.invoke, done, end)


def _logged(history: History) -> Iterable[Anomaly]:
    for pair in history.pairs:
        if pair.invoke.f == TYPES and pair.kind is Kind.OK and pair.end is not None:
            types = mapping_of(pair.end).get("types") or {}
            expected = mapping_of(pair.end).get("expected") or ()
            others = sorted(set(types) - PLAIN_TYPES - set(expected))
            if others:
                text = f"the log has entries of type {listed(others)}"
                yield _anomaly("logged", text, pair.end)


def _anomaly(kind: str, text: str, *ops: Op) -> Anomaly:
    return Anomaly(
        kind=kind,
        text=text,
        ops=tuple(sorted({op.index for op in ops})),
        time_ns=max(op.time_ns for op in ops),
    )
