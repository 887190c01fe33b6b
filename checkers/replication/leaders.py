"""Checks that two replicas never believe at the same time that they lead a table."""

from collections.abc import Mapping

from checkers.conclusion import conclude
from checkers.phrasing import FEW, during, milliseconds, number, seconds
from harness.core.dialect import Mechanism
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict

LEADS = "leads"
SANDWICH_NS = 400_000_000
"""Maximum time between two claims of one replica to lead, within which it led throughout: to lose
and win an election takes a new session, and longer."""


class Leaders:
    """Judges the calls "leads": {"leads": whether the node asked says that it leads}.

    INVALID: one replica said so twice within `SANDWICH_NS`, and between the two another one, whose
    call began after the first had ended and ended before the second began, said so too.
    """

    name = "leaders"
    needs = (Mechanism.TABLE_LEADER,)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs at least two claims to lead."""
        claims = [pair for pair in history.pairs if _leads(pair)]
        both = [_anomaly(history, *three) for three in _sandwiches(claims)]
        nodes = sorted({str(pair.invoke.node) for pair in claims})
        status = conclude(both, checked=len(claims) > 1)
        summary = f"{number(len(claims), 'claim')} to lead, by {' '.join(nodes) or 'nobody'}"
        return Verdict(
            checker=self.name,
            status=status,
            summary=both[0].text if both else summary,
            checked=len(claims),
            anomalies=tuple(both[:FEW]),
            figures={"claims": len(claims), "leaders": nodes, "anomalies": {"both": len(both)}},
        )


def _leads(pair: Pair) -> bool:
    if pair.invoke.f != LEADS or pair.kind is not Kind.OK or pair.end is None:
        return False
    return isinstance(pair.end.value, Mapping) and bool(pair.end.value.get("leads"))


def _sandwiches(claims: list[Pair]) -> list[tuple[Pair, Pair, Pair]]:
    out = []
    for at, first in enumerate(claims):
        assert first.end is not None, "a claim has an end"
        near = [c for c in claims[at + 1 :] if c.invoke.time_ns - first.end.time_ns <= SANDWICH_NS]
        last = next((c for c in reversed(near) if c.invoke.node == first.invoke.node), None)
        if last is None:
            continue
        for other in near:
            assert other.end is not None, "a claim has an end"
            between = first.end.time_ns < other.invoke.time_ns
            between = between and other.end.time_ns < last.invoke.time_ns
            if other.invoke.node != first.invoke.node and between:
                out.append((first, other, last))
                break
    return out


def _anomaly(history: History, first: Pair, other: Pair, last: Pair) -> Anomaly:
    three = (first, other, last)
    ops = sorted(op.index for pair in three for op in (pair.invoke, pair.end) if op is not None)
    took_ns = last.invoke.time_ns - first.invoke.time_ns
    return Anomaly(
        kind="both",
        text=(
            f"{first.invoke.node} and {other.invoke.node} both say at "
            f"{seconds(other.invoke.time_ns)} that they lead (within {milliseconds(took_ns)})"
            f"{during(history, other.invoke.time_ns)}"
        ),
        ops=tuple(ops),
        time_ns=other.invoke.time_ns,
    )
