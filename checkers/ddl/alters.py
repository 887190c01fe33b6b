"""Checks that every replica has the columns that acknowledged ALTERs make.

Each call adds or drops one column, whose number is its value. At rest each replica shows its
columns, the version of them that it has applied, and the version in ZooKeeper ("final-columns");
the last answer of each counts, and an earlier one is a look. The types of the log's entries are
shown beside those that the servers' ALTERs write ("final-log").

Violated, at rest:
behind     a replica has applied another version than ZooKeeper has
diverged   two replicas have different columns
lost-add   an ADD was acknowledged, no DROP that may have taken effect names its column, and the
           column is not there
lost-drop  a DROP that began after every ADD of its column had ended was acknowledged, and the
           column is there
undone     a look showed a column that no DROP names, and it is not there
logged     the log has an entry of a type that is neither expected nor one of parts

Doubtful: a cluster that was not at rest, a replica without final columns, no acknowledged ALTER.

An acknowledged DROP of a column that is there is no anomaly by itself, because ALTERs that overlap
have no order, and an ADD of unknown outcome may come at any time:
    add-column 1 → info     drop-column 1 → ok     final-columns → c1
"""

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

import msgspec
from msgspec import UNSET, UnsetType

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import listed, number, seconds, where
from checkers.quiescence import quiescence_of
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

ADD, DROP, COLUMNS, TYPES = "add-column", "drop-column", "final-columns", "final-log"
PLAIN_TYPES = frozenset({"get", "merge", "drop", "detach"})


class ColumnsOfReplica(msgspec.Struct, frozen=True):
    """Look at a replica's columns."""

    columns: list[str] = []
    """Names of the columns; that of column 7 is "c7"."""
    version: int | None = None
    """Version of the columns that the replica has applied."""
    shared: int | None = None
    """Version of those in ZooKeeper."""


class LogTypes(msgspec.Struct, frozen=True):
    """Look at the entries of the log."""

    types: dict[str, int] = {}
    """Number of entries of each type."""
    expected: list[str] | UnsetType = UNSET
    """Types of the entries of ALTERs, where the servers write such."""


class Alters:
    """Judges, at rest, the last "final-columns" of each replica, and "final-log"."""

    name = "alters"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, the columns of every replica, and acknowledged
        ALTERs."""
        rest = quiescence_of(history)
        finals = {str(end.node): end for _, end in history.answered(COLUMNS)}
        alters = len(history.calls(ADD, DROP))
        done = len(history.calls(ADD, DROP, kinds=(Kind.OK,)))
        found = Findings(self.name)
        found.doubts += rest.doubts
        silent = sorted(set(rest.nodes) - set(finals))
        if silent or not finals:
            found.add_doubt(f"no final columns of {listed(silent) if silent else 'any replica'}")
        if not done:
            found.add_doubt("no ALTER was acknowledged")
        if rest.reached and finals:
            _judge_replicas(found, finals)
            _judge_acknowledged(found, history, finals)
            _judge_log(found, history)
            _judge_shown(found, history, finals)
        return found.verdict(
            checked=done,
            broken=found.tally,
            held=f"{number(done, 'ALTER')} of {alters:,} acknowledged, all in force on "
            f"{number(len(finals), 'replica')}",
            figures={"alters": alters, "acknowledged": done},
        )


def _columns(end: Op) -> frozenset[str]:
    return frozenset(decode(end, ColumnsOfReplica).columns)


def _judge_replicas(found: Findings, finals: Mapping[str, Op]) -> None:
    first, *others = sorted(finals)
    for node, end in sorted(finals.items()):
        look = decode(end, ColumnsOfReplica)
        if look.version != look.shared:
            versions = f"version {look.version} at rest, ZooKeeper of version {look.shared}"
            text = f"{node} has columns of {versions}"
            found.add_anomaly("behind", text, end)
    for node in others:
        apart = _columns(finals[first]) ^ _columns(finals[node])
        if apart:
            text = f"{first} and {node} differ at rest in {listed(sorted(apart))}"
            found.add_anomaly("diverged", text, finals[first], finals[node])


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


def _judge_acknowledged(found: Findings, history: History, finals: Mapping[str, Op]) -> None:
    node, end = sorted(finals.items())[0]
    there = _columns(end)
    for column, one in _by_column(history).items():
        if one.added is not None and not one.may_be_dropped and f"c{column}" not in there:
            _add_lost(found, "lost-add", history.pairs[one.added], "is not there", node, end)
        after = bisect_right(one.dropped_ns, one.adds_over_ns)
        if after < len(one.dropped) and f"c{column}" in there:
            drop = history.pairs[one.dropped[after]]
            _add_lost(found, "lost-drop", drop, "is there", node, end)


def _judge_shown(found: Findings, history: History, finals: Mapping[str, Op]) -> None:
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
            found.add_anomaly("undone", text, look, end)


def _add_lost(found: Findings, kind: str, pair: Pair, how: str, node: str, end: Op) -> None:
    assert pair.end is not None, "an acknowledged ALTER has an end"
    done = pair.end
    text = (
        f"column c{pair.invoke.value}, {done.f} ok at {seconds(done.time_ns)}{where(done)} (op "
        f"#{done.index}), {how} at rest on {node}"
    )
    found.add_anomaly(kind, text, pair.invoke, done, end)


def _judge_log(found: Findings, history: History) -> None:
    for _, end in history.answered(TYPES):
        look = decode(end, LogTypes)
        others = sorted(set(look.types) - PLAIN_TYPES - set(look.expected or ()))
        if others:
            found.add_anomaly("logged", f"the log has entries of type {listed(others)}", end)
