"""Checks that every replica has the columns that acknowledged ALTERs make."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

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
        finals = {str(end.node): end for _, end in history.answered(COLUMNS)}
        alters = len(history.calls(ADD, DROP))
        done = len(history.calls(ADD, DROP, kinds=(Kind.OK,)))
        doubts = rest.doubts
        silent = sorted(set(rest.nodes) - set(finals))
        if silent or not finals:
            doubts.append(f"no final columns of {listed(silent) if silent else 'any replica'}")
        if not done:
            doubts.append("no ALTER was acknowledged")
        broken: list[Anomaly] = []
        if rest.reached and finals:
            broken = [*_apart(finals), *_lost(history, finals), *_logged(history)]
            broken += _undone(history, finals)
        kinds = count_kinds(broken)
        summary = f"{number(done, 'ALTER')} of {alters:,} acknowledged, all in force on "
        summary += number(len(finals), "replica")
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summarize(broken, doubts, summary),
            checked=done,
            anomalies=few_of_each_kind(broken),
            figures={"alters": alters, "acknowledged": done, "anomalies": {**kinds}},
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


@dataclass(slots=True)
class _Column:
    """ALTERs of a column that were not refused, by their places among all calls."""

    added: int | None = None
    """First acknowledged ADD."""
    adds_over_ns: float = -inf
    """Time at which every ADD had ended; inf if the outcome of one is unknown."""
    dropped: "array[int]" = field(default_factory=lambda: array("q"))
    """Acknowledged DROPs."""
    dropped_ns: "array[int]" = field(default_factory=lambda: array("q"))
    """Times at which they began."""
    may_be_dropped: bool = False


def _by_column(history: History) -> dict[int, _Column]:
    out: dict[int, _Column] = {}
    calls = history.calls(ADD, DROP, kinds=(Kind.OK, Kind.INFO))
    for place, pair in zip(calls.places, calls, strict=True):
        if not isinstance(pair.invoke.value, int):
            continue
        one = out.setdefault(pair.invoke.value, _Column())
        done = pair.end if pair.kind is Kind.OK else None
        if pair.invoke.f == ADD:
            one.adds_over_ns = max(one.adds_over_ns, inf if done is None else done.time_ns)
            one.added = place if one.added is None and done is not None else one.added
            continue
        one.may_be_dropped = True
        if done is not None:
            one.dropped.append(place)
            one.dropped_ns.append(pair.invoke.time_ns)
    return out


def _lost(history: History, finals: Mapping[str, Op]) -> Iterable[Anomaly]:
    node, end = sorted(finals.items())[0]
    there = _columns(end)
    for column, one in _by_column(history).items():
        if one.added is not None and not one.may_be_dropped and f"c{column}" not in there:
            yield _lost_column("lost-add", history.pairs[one.added], "is not there", node, end)
        after = bisect_right(one.dropped_ns, one.adds_over_ns)
        if after < len(one.dropped) and f"c{column}" in there:
            drop = history.pairs[one.dropped[after]]
            yield _lost_column("lost-drop", drop, "is there", node, end)


def _undone(history: History, finals: Mapping[str, Op]) -> Iterable[Anomaly]:
    node, end = sorted(finals.items())[0]
    there = _columns(end)
    dropped = {f"c{pair.invoke.value}" for pair in history.calls(DROP)}
    shown: dict[str, int] = {}
    for _, look in history.answered(COLUMNS):
        for column in _columns(look):
            shown.setdefault(column, look.index)
    for column, index in sorted(shown.items()):
        if column not in there | dropped:
            look = history[index]
            text = (
                f"column {column}, which {look.node} had at {seconds(look.time_ns)} (op "
                f"#{look.index}) and no DROP names, is not there at rest on {node}"
            )
            yield _anomaly("undone", text, look, end)


def _lost_column(kind: str, pair: Pair, how: str, node: str, end: Op) -> Anomaly:
    assert pair.end is not None, "an acknowledged ALTER has an end"
    done = pair.end
    text = (
        f"column c{pair.invoke.value}, {done.f} ok at {seconds(done.time_ns)}{where(done)} (op "
        f"#{done.index}), {how} at rest on {node}"
    )
    return _anomaly(kind, text, pair.invoke, done, end)


def _logged(history: History) -> Iterable[Anomaly]:
    for _, end in history.answered(TYPES):
        types = mapping_of(end).get("types") or {}
        expected = mapping_of(end).get("expected") or ()
        others = sorted(set(types) - PLAIN_TYPES - set(expected))
        if others:
            yield _anomaly("logged", f"the log has entries of type {listed(others)}", end)


def _anomaly(kind: str, text: str, *ops: Op) -> Anomaly:
    return Anomaly(
        kind=kind,
        text=text,
        ops=tuple(sorted({op.index for op in ops})),
        time_ns=max(op.time_ns for op in ops),
    )
