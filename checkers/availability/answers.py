"""Checks whether a healed cluster answers at all.

A final call is one whose name begins with "final-": it is made after every fault has ended, and
repeated until it is answered. The tries of one function on one key and one node are one call, and
an ok of any of them answers it.

Violated, once the nemesis has reported that it healed the cluster: a call none of whose tries ended
ok ("unanswered"); and a server of the database that ended by itself each time that the nemesis
started it, so that nobody can ask it ("unanswered", too), unless a fault changed what is on its
disk. Doubtful: a cluster that was not healed, of which nothing is promised, and a run without a
final call.

That the last try fails is not enough, because a node may answer and be asked once more:
    final-read of key 0 on ch1 → ok [1]     final-read of key 0 on ch1 → info
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from checkers.conclusion import Findings, anomaly
from checkers.phrasing import number, on_key, seconds
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict

FINAL = "final-"
"""Prefix of the calls that are made after every fault has ended, and repeated until ok."""
ENDED_BY_ITSELF: Final = re.compile(r"StartError: (\w+): does not answer .*? starts on: it ended")
"""What the nemesis says of a server that ended each time that it was started."""
_CORRUPT: Final = ("disk-flip", "power-cut-torn")
"""Beginnings of the names of faults that change what is on a disk."""


class Answers:
    """Checks that every call made after the faults is eventually answered."""

    name = "answers"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a final call, and an answer to each."""
        found = Findings(self.name, kinds=["unanswered"])
        tried = _tried(history)
        if not any(op.f == "heal" and op.kind is Kind.OK for op in history.nemesis):
            found.add_doubt("the cluster was not healed")
        for one in unanswered(history):
            found.add_anomalies("unanswered", [one])
        count, ended = found.counts["unanswered"], len([*_not_started(history)])
        return found.verdict(
            checked=len(tried) or ended,
            broken=f"{number(ended, 'server')} ended whenever it was started"
            if ended
            else f"{number(count, 'final call')} never answered (of {len(tried)})",
            nothing="no final call was made",
            held=f"{number(len(tried), 'final call')} answered",
        )


def unanswered(history: History) -> Iterator[Anomaly]:
    """Yield an anomaly for each final call that was never answered, and for each server that does
    not start."""
    yield from _not_started(history)
    if any(op.f == "heal" and op.kind is Kind.OK for op in history.nemesis):
        for tries in _tried(history).values():
            if all(pair.kind is not Kind.OK for pair in tries):
                yield _anomaly_of(tries)


def _not_started(history: History) -> Iterator[Anomaly]:
    """Yield an anomaly for each server that answered calls, and at last ended by itself whenever it
    was started."""
    asked = {pair.invoke.node for pair in history.pairs if pair.kind is Kind.OK}
    heals = [op for op in history.nemesis if op.f == "heal" and op.kind is not Kind.INVOKE]
    for heal in heals[-1:]:
        for node in dict.fromkeys(ENDED_BY_ITSELF.findall(heal.error or "")):
            if node in asked and not _corrupted(history, node):
                text = f"{node} ended each time that it was started, last before op #{heal.index}"
                yield Anomaly(kind="unanswered", text=text, ops=(heal.index,), time_ns=heal.time_ns)


def _corrupted(history: History, node: str) -> bool:
    return any(
        fault.name.startswith(_CORRUPT) and node in fault.text.replace(":", " ").split()
        for fault in history.faults
    )


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
