"""Checks that an ALTER returned only when the replicas that it waits for had its columns."""

from collections.abc import Iterable, Mapping
from typing import Any

from checkers.conclusion import conclude, mapping_of
from checkers.ddl.alters import ADD, DROP
from checkers.phrasing import FEW, during, number, seconds, where
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict


class AlterWaits:
    """Judges the calls "add-column" and "drop-column" of one column each. An ok's value is {"has":
    {node: whether it had the column right after the ALTER had returned}, "waits": [nodes that the
    server must wait for by its version and settings]}; a replica that did not answer is missing.

    INVALID: a replica that must be waited for had not followed ("unapplied"). An ALTER that another
    one of any column overlaps is not judged where the servers end the first as soon as the second
    has changed the list ("overlaps" in the value), and none whose column another call changes.
    """

    name = "alter-waits"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a replica, other than the one that was asked, that had to
        be waited for and answered."""
        alters = [pair for pair in history.pairs if pair.invoke.f in (ADD, DROP)]
        broken: list[Anomaly] = []
        others = late = 0
        for pair in alters:
            if pair.kind is not Kind.OK or pair.end is None or _disturbed(pair, alters):
                continue
            value = mapping_of(pair.end)
            followed = {n: had is (pair.invoke.f == ADD) for n, had in _has(value)}
            waits = [node for node in value.get("waits") or () if node in followed]
            others += sum(node != pair.invoke.node for node in waits)
            late += sum(not done for node, done in followed.items() if node not in waits)
            broken += [_anomaly(history, pair, node) for node in waits if not followed[node]]
        summary = f"{number(others, 'other replica')} waited for, each had followed"
        summary += f"; {late:,} not waited for were late" if late else ""
        return Verdict(
            checker=self.name,
            status=conclude(broken, checked=others),
            summary=broken[0].text if broken else summary if others else "no replica was awaited",
            checked=others,
            anomalies=tuple(broken[:FEW]),
            figures={"waited_for": others, "late": late, "anomalies": {"unapplied": len(broken)}},
        )


def _has(value: Mapping[str, Any]) -> Iterable[tuple[str, bool]]:
    has = value.get("has")
    return [(str(node), bool(had)) for node, had in has.items()] if isinstance(has, Mapping) else []


def _disturbed(pair: Pair, alters: list[Pair]) -> bool:
    """Return whether another ALTER that overlaps this one makes its columns undecided."""
    assert pair.end is not None, "an ok has an end"
    ends_early = bool(mapping_of(pair.end).get("overlaps"))
    for other in alters:
        if other is pair or other.kind is Kind.FAIL or other.invoke.index > pair.end.index:
            continue
        overlaps = other.end is None or other.end.index > pair.invoke.index
        same = other.invoke.value == pair.invoke.value
        # One of unknown outcome may take effect at any later time.
        if (overlaps and (ends_early or same)) or (same and other.kind is Kind.INFO):
            return True
    return False


def _anomaly(history: History, pair: Pair, node: str) -> Anomaly:
    end = pair.end
    assert end is not None, "an ok has an end"
    lacks = "did not have" if pair.invoke.f == ADD else "still had"
    return Anomaly(
        kind="unapplied",
        text=(
            f"op #{end.index} {end.f} {pair.invoke.value}{where(end)} was ok at "
            f"{seconds(end.time_ns)}, and {node} {lacks} the column"
            f"{during(history, end.time_ns)}"
        ),
        ops=(pair.invoke.index, end.index),
        time_ns=end.time_ns,
    )
