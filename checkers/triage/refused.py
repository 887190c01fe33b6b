"""Explains tables that refuse every quorum insert, for an earlier quorum stays pending, or every
sequentially consistent read, for the last quorum's part is gone."""

import re
from typing import Final

from checkers.phrasing import seconds
from checkers.triage.clones import clones_of
from checkers.triage.evidence import Evidence
from checkers.triage.returned import drops_of
from harness.core.history import History
from harness.core.verdict import Anomaly

_PENDING: Final = re.compile(r"^286\b.*\bpart_name: (\w+)", re.DOTALL)
_LACKING: Final = re.compile(r"^289\b.*\bpart (\w+_\d+_\d+_\d+)\b", re.DOTALL)


def uncounted_clone(history: History, evidence: Evidence, anomaly: Anomaly) -> str:
    """Return why a quorum is pending although enough replicas have its part: some of them fetched
    it because they had been lost, which does not count; "" if the record does not show that."""
    part = _pending(history, evidence, anomaly)
    if not part:
        return ""
    commit_ns, holders = evidence.commits[part][0], evidence.holders(part)
    cloned = {
        clone.replica: clone.end_ns
        for clone in clones_of(history)
        if clone.end_ns is not None and clone.end_ns > commit_ns and clone.replica in holders
    }
    if not len(holders) - len(cloned) < evidence.quorums[part] <= len(holders):
        return ""
    lost = " and ".join(
        f"{replica}, which was lost until {seconds(end_ns)}" for replica, end_ns in cloned.items()
    )
    return f"the quorum of {part} is pending; {lost}, fetched the part and did not count"


def dropped_quorum(history: History, evidence: Evidence, anomaly: Anomaly) -> str:
    """Return why the quorum of a part that no replica has is pending: the partition was dropped;
    "" if the record does not show that."""
    part = _pending(history, evidence, anomaly)
    if not part or evidence.holders(part):
        return ""
    commit_ns = evidence.commits[part][0]
    dropped_ns = [at_ns for at_ns in drops_of(history, part) if at_ns > commit_ns]
    if not dropped_ns:
        return ""
    return f"the quorum of {part} was pending when it was dropped at {seconds(dropped_ns[0])}"


def dropped_last(history: History, evidence: Evidence, anomaly: Anomaly) -> str:
    """Return why every replica lacks the part that sequentially consistent reads ask for: it was
    dropped after its quorum had ended; "" if the record does not show that."""
    part = _named(_LACKING, history, anomaly)
    ended_ns = evidence.ended.get(part)
    if ended_ns is None or evidence.holders(part) or evidence.doubts:
        return ""
    dropped_ns = [at_ns for at_ns in drops_of(history, part) if at_ns > ended_ns]
    if not dropped_ns:
        return ""
    return (
        f"reads ask for {part}, whose quorum had ended, and which was dropped at "
        f"{seconds(dropped_ns[0])}"
    )


def _pending(history: History, evidence: Evidence, anomaly: Anomaly) -> str:
    """Return the part whose pending quorum was the reason of the last refusal; "" if it was refused
    otherwise, or the record says that the quorum ended."""
    part = _named(_PENDING, history, anomaly)
    known = part in evidence.quorums and part in evidence.commits
    over = part in evidence.ended or part in evidence.failed
    return part if known and not over and not evidence.doubts else ""


def _named(refusal: re.Pattern[str], history: History, anomaly: Anomaly) -> str:
    """Return the part that the last answer of an anomaly names; "" if it is no such refusal."""
    errors = [history[index].error for index in anomaly.ops if history[index].error]
    found = refusal.search(errors[-1] or "") if errors else None
    return found[1] if found else ""
