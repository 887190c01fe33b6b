"""Explains objects that a replica does not dare to remove, because it finds no lock of them.

The locks of a part's objects are made in the transaction that registers the part: who undoes a
merge, a mutation or an insert whose transaction failed finds none. And they are released before the
objects are removed: who is interrupted in between finds none when it tries again, nor does who
releases the last lock of its own copy at the moment at which another replica does so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.phrasing import seconds
from checkers.triage.breaks import kills
from checkers.triage.evidence import evidence_of, facts_of_tables
from harness.core.history import History
from harness.core.op import Kind

COMMIT: Final = "orphaned-commit"
UNLOCK: Final = "orphaned-unlock"
SESSION_NS: Final = 10_000_000_000
"""Time within which the session of a replica ends that gets no answer: 5 s, and as much again for a
busy machine."""


@dataclass(frozen=True, slots=True)
class _LostClaim:
    """A period in which a replica was to make a part, and which the end of its session ended."""

    part: str
    replica: str
    at_ns: int
    end_ns: int


def undone(history: History, writer: str, begin_ns: int, end_ns: int) -> Iterator[str]:
    """Yield a sentence for each part that a replica may have written in an interval and did not
    register: first those that it had claimed, to merge or mutate them, then those of inserts. A
    session that ended with its server proves nothing."""
    evidence = evidence_of(history)
    for claim in _lost_claims(history):
        about_ns = evidence.error_ns(claim.at_ns)
        amid = claim.at_ns - about_ns <= begin_ns and end_ns <= claim.end_ns + about_ns
        own = claim.replica == writer and amid
        if own and not _killed(history, writer, begin_ns, claim.end_ns):
            yield (
                f"{writer} claimed {claim.part} at {seconds(claim.at_ns)}, and its session ended "
                f"at {seconds(claim.end_ns)}, before it had registered the part"
            )
    for pair in history.pairs:
        over_ns = None if pair.end is None else pair.end.time_ns
        if pair.invoke.f != "insert" or pair.invoke.node != writer or pair.kind is Kind.OK:
            continue
        if pair.invoke.time_ns > begin_ns or (over_ns is not None and over_ns < end_ns):
            continue
        gone_ns = _inactive(history, writer, begin_ns, end_ns + SESSION_NS)
        if gone_ns is not None and not _killed(history, writer, begin_ns, gone_ns):
            yield (
                f"{writer} was asked for value {pair.invoke.value} at "
                f"{seconds(pair.invoke.time_ns)}, which was not acknowledged, and its session "
                f"ended at {seconds(gone_ns)}"
            )


def released(history: History, replica: str, at_ns: int, others_ns: Sequence[int]) -> str | None:
    """Return why a replica released the last lock of a part's objects and did not remove them; None
    if nothing shows it. `others_ns` are the times at which others released their own copies."""
    gone_ns = _inactive(history, replica, at_ns, at_ns + SESSION_NS)
    text = f"{replica} released the last lock at {seconds(at_ns)}"
    if gone_ns is not None and not _killed(history, replica, at_ns, gone_ns):
        return f"{text}, and its session ended at {seconds(gone_ns)}"
    about_ns = evidence_of(history).error_ns(at_ns)
    if any(abs(other_ns - at_ns) <= about_ns for other_ns in others_ns):
        return f"{text}, and another replica that of its own copy at the same moment"
    return None


def _inactive(history: History, replica: str, from_ns: int, to_ns: int) -> int | None:
    """Return when a session of a replica first ended in an interval."""
    ends = [
        at_ns
        for facts in facts_of_tables(history, frozenset({"inactive"}))
        for at_ns, _, rest in facts
        if str(rest[0]) == replica and from_ns <= at_ns <= to_ns
    ]
    return min(ends, default=None)


def _killed(history: History, node: str, from_ns: int, to_ns: int) -> bool:
    return any(from_ns <= fault.begin_ns <= to_ns for fault in kills(history, node))


def _lost_claims(history: History) -> Iterator[_LostClaim]:
    for facts in facts_of_tables(history, frozenset({"claim", "unclaim"})):
        since: dict[str, int] = {}
        for at_ns, name, rest in facts:
            part = str(rest[0])
            if name == "claim":
                since[part] = at_ns
            elif part in since:
                begin_ns = since.pop(part)
                if rest[2]:
                    yield _LostClaim(part, str(rest[1]), begin_ns, at_ns)
