"""Checks whether a healed cluster answers at all."""

from collections.abc import Collection, Sequence

from checkers.conclusion import conclude
from checkers.phrasing import FEW, number, on_key, seconds
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict

FINAL = "final-"
"""Prefix of the calls that are made after every fault has ended, and repeated until ok."""


class Answers:
    """Checks that every call made after the faults is eventually answered.

    A call is an f on a key on a node, tried several times; one ok is an answer. If the cluster did
    not heal, nothing is promised, and the verdict is UNKNOWN.
    """

    name = "answers"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a final call, and an answer to each."""
        tried: dict[tuple[str, int | None, str | None], list[Pair]] = {}
        names = [f for f in dict(history.columns.words())["f"] if f.startswith(FINAL)]
        for pair in history.calls(*names):
            what = (pair.invoke.f, pair.invoke.key, pair.invoke.node)
            tried.setdefault(what, []).append(pair)
        silent = [
            pairs for pairs in tried.values() if all(pair.kind is not Kind.OK for pair in pairs)
        ]
        healed = any(op.f == "heal" and op.kind is Kind.OK for op in history.nemesis)
        broken = silent if healed else []
        status = conclude(broken, checked=tried and healed)
        return Verdict(
            checker=self.name,
            status=status,
            summary=_summary(tried, broken, healed=healed),
            checked=len(tried),
            anomalies=tuple(_anomaly(pairs) for pairs in broken[:FEW]),
            figures={"anomalies": {"unanswered": len(broken)}},
        )


def _summary(tried: Collection[object], silent: Sequence[Sequence[Pair]], *, healed: bool) -> str:
    if silent:
        return f"{number(len(silent), 'final call')} never answered (of {len(tried)})"
    if not healed:
        return "the cluster was not healed"
    return f"{number(len(tried), 'final call')} answered" if tried else "no final call was made"


def _anomaly(pairs: Sequence[Pair]) -> Anomaly:
    first, last = pairs[0], pairs[-1]
    why = (last.end.error if last.end else None) or "no end"
    call = f"{first.invoke.f}{on_key(first.invoke)} on {first.invoke.node}"
    ops = {first.invoke.index, last.invoke.index, *([last.end.index] if last.end else [])}
    return Anomaly(
        kind="unanswered",
        text=f"{call}: {number(len(pairs), 'try', 'tries')}, the last at "
        f"{seconds(last.invoke.time_ns)} (op #{last.invoke.index}): {why}",
        ops=tuple(sorted(ops)),
        key=first.invoke.key,
        time_ns=first.invoke.time_ns,
    )
