"""Checks whether a healed cluster answers at all.

A final call is one whose name begins with "final-": it is made after every fault has ended, and
repeated until it is answered. The tries of one function on one key and one node are one call, and
an ok of any of them answers it.

Violated, once the nemesis has reported that it healed the cluster: a call none of whose tries ended
ok ("unanswered"). Doubtful: a cluster that was not healed, of which nothing is promised, and a run
without a final call.

That the last try fails is not enough, because a node may answer and be asked once more:
    final-read of key 0 on ch1 → ok [1]     final-read of key 0 on ch1 → info
"""

from collections.abc import Iterator, Sequence

from checkers.conclusion import Findings, anomaly
from checkers.phrasing import number, on_key, seconds
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict

FINAL = "final-"
"""Prefix of the calls that are made after every fault has ended, and repeated until ok."""


class Answers:
    """Checks that every call made after the faults is eventually answered."""

    name = "answers"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a final call, and an answer to each."""
        found = Findings(self.name, kinds=["unanswered"])
        tried = _tried(history)
        if not any(op.f == "heal" and op.kind is Kind.OK for op in history.nemesis):
            found.add_doubt("the cluster was not healed")
        else:
            for one in unanswered(history):
                found.add_anomalies("unanswered", [one])
        count = found.counts["unanswered"]
        return found.verdict(
            checked=len(tried),
            broken=f"{number(count, 'final call')} never answered (of {len(tried)})",
            nothing="no final call was made",
            held=f"{number(len(tried), 'final call')} answered",
        )


def unanswered(history: History) -> Iterator[Anomaly]:
    """Yield an anomaly for each final call that was never answered."""
    for tries in _tried(history).values():
        if all(pair.kind is not Kind.OK for pair in tries):
            yield _anomaly_of(tries)


def _tried(history: History) -> dict[tuple[str, int | None, str | None], list[Pair]]:
    """Return the tries of each final call, by its name, key and node."""
    tried: dict[tuple[str, int | None, str | None], list[Pair]] = {}
    names = [f for f in dict(history.columns.words())["f"] if f.startswith(FINAL)]
    for pair in history.calls(*names):
        what = (pair.invoke.f, pair.invoke.key, pair.invoke.node)
        tried.setdefault(what, []).append(pair)
    return tried


def _anomaly_of(tries: Sequence[Pair]) -> Anomaly:
    first, last = tries[0], tries[-1]
    why = (last.end.error if last.end else None) or "no end"
    call = f"{first.invoke.f}{on_key(first.invoke)} on {first.invoke.node}"
    return anomaly(
        "unanswered",
        f"{call}: {number(len(tries), 'try', 'tries')}, the last at "
        f"{seconds(last.invoke.time_ns)} (op #{last.invoke.index}): {why}",
        first.invoke,
        last,
        key=first.invoke.key,
        time_ns=first.invoke.time_ns,
    )
