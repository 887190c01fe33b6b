"""Decides the isolation of transactions on lists with `pyporcupine`, as Elle does.

A transaction is a call `txn` or `final-txn` whose value has its steps under "txn": ["append", key,
element] and ["r", key, list]. A list is that of one server, so that (server, key) names it. A
transaction that ended ok committed; one that failed certainly had no effect; one of unknown outcome
takes part once somebody has read what it appended.

Violated: a level of isolation, if transactions show an anomaly that it forbids. Doubtful: a history
in which no transaction that committed read anything, one for which time or memory did not suffice,
and a server without an answered `final-txn`, for nobody knows whether it lost what it acknowledged.
"""

import re
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any, Final, Literal

import pyporcupine

from checkers.conclusion import Findings, mapping_of
from checkers.phrasing import listed, number, seconds, where
from harness.core.errors import HistoryError
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Verdict

TXN, FINAL_TXN = "txn", "final-txn"
STRONG_SNAPSHOT_ISOLATION: Final = "strong-snapshot-isolation"
"""Snapshot isolation in which a transaction sees all that committed before it began."""
_OUTCOMES: Final[Mapping[Kind, Literal["ok", "fail", "info"]]] = {
    Kind.OK: "ok",
    Kind.FAIL: "fail",
    Kind.INFO: "info",
}
_NAMED: Final = re.compile(r"\bT(\d+)\b")


class Isolation:
    """Checks that transactions on lists satisfy a level of isolation."""

    name = "isolation"

    def __init__(self, level: str = STRONG_SNAPSHOT_ISOLATION) -> None:
        """`level`: one of `pyporcupine.LEVELS`."""
        self.level = level

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a transaction that committed and read."""
        return self.check_within(history, inf)

    def check_within(self, history: History, budget_s: float) -> Verdict:
        """Return the verdict, UNKNOWN if `budget_s` seconds were not enough."""
        pairs = list(history.calls(TXN, FINAL_TXN))
        found = Findings(self.name)
        try:
            result = pyporcupine.check_transactions(
                [_transaction(pair) for pair in pairs],
                "list-append",
                consistency=self.level,
                time_s=budget_s if isfinite(budget_s) else None,
            )
        except pyporcupine.HistoryError as error:
            raise HistoryError(f"transactions: {error}") from error
        if result.status == "INVALID":
            for anomaly in result.anomalies:
                _add(found, pairs, anomaly)
        elif result.status == "UNKNOWN":
            found.add_doubt(result.reason)
        if unread := nodes_without_final(history):
            found.add_doubt(f"no {FINAL_TXN} on {listed(unread)}")
        committed = sum(pair.kind is Kind.OK for pair in pairs)
        of = number(committed, "transaction")
        return found.verdict(
            checked=committed,
            broken=f"{result.reason}; violated: {', '.join(result.violated)}",
            held=f"{of} satisfy {self.level}",
            figures={
                "transactions": len(pairs),
                "committed": committed,
                "level": self.level,
                "violated": list(result.violated),
            },
            cut_short=result.status == "UNKNOWN" and committed > 0,
        )


def nodes_without_final(history: History) -> list[str]:
    """Return the servers on which a transaction committed and no `final-txn` was answered."""
    final = {invoke.node for invoke, _ in history.answered(FINAL_TXN)}
    nodes = dict.fromkeys(invoke.node for invoke, _ in history.answered(TXN, FINAL_TXN))
    return [str(node) for node in nodes if node not in final]


def steps_of(pair: Pair) -> Sequence[Sequence[Any]]:
    """Return the steps of a transaction, with what it read if it committed. Raises HistoryError."""
    answer = pair.end if pair.kind is Kind.OK else None
    steps = mapping_of(pair.invoke if answer is None else answer).get(TXN, [])
    return _checked(pair.invoke.index, steps)


def _transaction(pair: Pair) -> pyporcupine.Transaction:
    """Return a call as a transaction. What one without an answer read is not known."""
    invoke = pair.invoke
    return pyporcupine.Transaction(
        invoke.process,
        [(f, f"{invoke.node}:{key}", value) for f, key, value in steps_of(pair)],
        call=invoke.time_ns,
        ret=None if pair.kind is Kind.INFO or pair.end is None else pair.end.time_ns,
        outcome=_OUTCOMES[pair.kind],
    )


def _checked(index: int, steps: Any) -> Sequence[Sequence[Any]]:
    if isinstance(steps, list) and all(isinstance(one, list) and len(one) == 3 for one in steps):
        return steps
    raise HistoryError(f"op #{index}: steps {steps!r}, expected a list of [f, key, value]")


def _add(found: Findings, pairs: Sequence[Pair], anomaly: pyporcupine.Anomaly) -> None:
    """Add an anomaly, with the transactions of one instance in words."""
    members = [pairs[at] for at in anomaly.transactions]
    named = sorted({int(at) for at in _NAMED.findall(anomaly.text)} | {*anomaly.transactions})
    steps = [f"T{at} is {_described(pairs[at])}" for at in named if at < len(pairs)]
    for _ in range(anomaly.count):
        found.add_anomaly(anomaly.name, anomaly.text, *members, steps=steps)


def _described(pair: Pair) -> str:
    invoke, end = pair.invoke, pair.end
    steps = mapping_of(end if pair.kind is Kind.OK else invoke).get("txn", [])
    text = ", ".join(
        f"{f} {key}" if value is None else f"{f} {key} {value}" for f, key, value in steps
    )
    ended = "no known end" if end is None else f"{pair.kind.value} at {seconds(end.time_ns)}"
    return f"op #{invoke.index}{where(invoke)}, begun at {seconds(invoke.time_ns)}, {ended}: {text}"
