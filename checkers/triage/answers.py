"""Explains servers and tables that do not answer, or refuse every call, once the faults are over.

Each signature is of the last answer of the calls that an anomaly is about.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from checkers.availability.answers import ENDED_BY_ITSELF
from checkers.consistency.isolation import TXN
from checkers.phrasing import seconds
from checkers.triage.columns import names
from checkers.triage.events import (
    acknowledged_ns,
    ended_ns,
    kills,
    lost_periods,
    power_cuts,
    tables,
)
from checkers.triage.evidence import Evidence
from checkers.triage.partitions import drops_of
from checkers.triage.refusals import refused_clones
from harness.core.history import History, Pair
from harness.core.op import Op

MUTATIONS: Final = ("update", "delete")
"""Names of the calls that make a mutation, in scripts and of the workload `mutations`."""
_INSERTS: Final = re.compile(r"insert(-|$)")
"""Begin of the names of the calls that insert rows, those of statements among them."""
COLUMNS_MAX: Final = 2
"""Number of columns in which a table may differ from ZooKeeper's when a server of before 20.3 loads
it."""
_NO_TABLE: Final = re.compile(r"^60\b")
_READ_ONLY: Final = re.compile(r"^242\b")
_NO_SERVER: Final = re.compile(r"^(209|210|NETWORK)\b|refused|EOF|end of file", re.IGNORECASE)
_PENDING: Final = re.compile(r"^286\b.*\bpart_name: (\w+)", re.DOTALL)
_TOO_OLD: Final = re.compile(r"Trying to get CSN for too old TID")
"""What a server says of a part whose transaction is not in the log any more, and which does not say
itself whether it was committed."""
_REMOVED: Final = re.compile(
    rf"{_TOO_OLD.pattern}|Load job 'load table .*failed: Code: 999\b.*No node", re.DOTALL
)
"""The same, or that an entry of the log was removed while a server loaded it."""
_LACKING: Final = re.compile(r"^289\b.*\bpart '?(\w+_\d+_\d+_\d+)\b", re.DOTALL)


def missing_table(history: History, _: Evidence, end: Op) -> str:
    """Return why a server lacks its table (60): it was killed, and more columns changed before its
    start than may differ."""
    for kill in kills(history).on(str(end.node)).until(end.time_ns):
        until_ns = kill.end_ns if kill.is_over else end.time_ns
        for table in tables(history):
            lists = table.of("columns")
            before = lists.until(kill.begin_ns).last
            last = lists.after(kill.begin_ns).until(until_ns).last
            changed = names(before) ^ names(last) if before and last else ()
            if len(changed) > COLUMNS_MAX:
                return (
                    f"{end.node} was killed at {seconds(kill.begin_ns)}, and {len(changed)} "
                    f"columns changed before it was started at {seconds(until_ns)}"
                )
    return ""


def half_alter(history: History, _: Evidence, end: Op) -> str:
    """Return why a replica is read-only (242): it wrote an ALTER's columns to ZooKeeper, was killed
    later, and has not become active since it wrote them."""
    node = str(end.node)
    for kill in kills(history).on(node):
        for table in tables(history):
            applied = table.of("applied").on(node).last
            if applied is None or applied.begin_ns > kill.begin_ns:
                continue
            if not table.of("active").on(node).after(applied.begin_ns):
                return (
                    f"{node} wrote the columns of an ALTER to ZooKeeper at "
                    f"{seconds(applied.begin_ns)}, was killed at {seconds(kill.begin_ns)}, and has "
                    "not become active since"
                )
    return ""


def suspicious_clone(history: History, _: Evidence, end: Op) -> str:
    """Return why a replica is read-only (242): it refuses to start with what it has cloned."""
    refused = refused_clones(history).get(str(end.node))
    return "" if refused is None else str(refused.detail)


def crashing_mutation(history: History, _: Evidence, end: Op) -> str:
    """Return why a server is gone: a mutation was made while an insert was under way, no fault
    killed the server, and it has answered nothing that was asked since."""
    if kills(history).on(str(end.node)).until(end.time_ns):
        return ""
    inserts = [pair for pair in history.pairs if _INSERTS.match(pair.invoke.f)]
    for mutation in history.calls(*MUTATIONS):
        at_ns = mutation.invoke.time_ns
        beside = (one for one in inserts if one.invoke.time_ns < at_ns < ended_ns(one))
        insert = next(beside, None)
        if insert is not None and not any(_answered_since(history, mutation, end)):
            return (
                f"op #{mutation.invoke.index} {mutation.invoke.f} began at {seconds(at_ns)}, while "
                f"op #{insert.invoke.index} {insert.invoke.f} was under way, and {end.node} has "
                "answered nothing that was asked since"
            )
    return ""


def _answered_since(history: History, mutation: Pair, end: Op) -> Iterator[Pair]:
    """Yield the calls that began after a mutation had ended and that the server of `end`
    answered."""
    over = mutation.end if mutation.end is not None else mutation.invoke
    for pair in history.pairs:
        asked = pair.invoke.node == end.node and pair.invoke.time_ns > over.time_ns
        if asked and pair.end is not None and not _NO_SERVER.search(pair.end.error or ""):
            yield pair


def uncounted_clone(history: History, evidence: Evidence, end: Op) -> str:
    """Return why an insert is refused for a pending quorum (286) although enough replicas have its
    part: without those that were lost when it was committed, and fetched it since, which does not
    count, they are too few."""
    part = _pending(evidence, end)
    if not part:
        return ""
    holders, commit_ns = evidence.holders(part), evidence.commits[part][0]
    lost = lost_periods(history).on(*holders).ended_after(commit_ns).over
    cloned = {one.node: one.end_ns for one in lost}
    if not len(holders) - len(cloned) < evidence.quorums[part] <= len(holders):
        return ""
    who = " and ".join(f"{node}, which was lost until {seconds(ns)}" for node, ns in cloned.items())
    return f"the quorum of {part} is pending; {who}, fetched the part and did not count"


def unwritable_table(history: History, evidence: Evidence, end: Op) -> str:
    """Return why an insert is refused for a pending quorum (286): its part was dropped with its
    partition, and no replica has it."""
    part = _pending(evidence, end)
    dropped_ns = _dropped_ns(history, evidence, part, evidence.commits[part][0]) if part else None
    if dropped_ns is None:
        return ""
    return f"the quorum of {part} was pending when it was dropped at {seconds(dropped_ns)}"


def unreadable_table(history: History, evidence: Evidence, end: Op) -> str:
    """Return why a read is refused for a part that no replica has (289): it was dropped with its
    partition after its quorum had ended."""
    part = _named(_LACKING, end)
    ended_at_ns = evidence.ended.get(part)
    if ended_at_ns is None or evidence.doubts:
        return ""
    dropped_ns = _dropped_ns(history, evidence, part, ended_at_ns)
    if dropped_ns is None:
        return ""
    return (
        f"reads ask for {part}, whose quorum had ended, and which was dropped at "
        f"{seconds(dropped_ns)}"
    )


def emptied_partition(history: History, evidence: Evidence, end: Op) -> str:
    """Return why a read is refused for a part that no replica has (289): after its quorum had ended
    a mutation made another part of its blocks, and that part was dropped by itself."""
    part = _named(_LACKING, end)
    ended_at_ns = evidence.ended.get(part)
    if ended_at_ns is None or evidence.doubts or evidence.holders(part):
        return ""
    for drop in drops_of(history, part).after(ended_at_ns):
        *blocks, level, mutation = drop.part.split("_")
        if [*blocks, level] == part.split("_") and mutation.isdigit():
            return (
                f"reads ask for {part}, whose quorum had ended; a mutation made {drop.part} of it, "
                f"which was dropped by itself at {seconds(drop.begin_ns)}"
            )
    return ""


def unsynced_commit(history: History, _: Evidence, end: Op) -> str:
    """Return why a server does not load a table: its power was cut after it had acknowledged two
    transactions, of which the second let it remove the first one from ZooKeeper."""
    node = _server(end)
    done = sorted(acknowledged_ns(one) for one in _transactions(history) if one.invoke.node == node)
    for cut in power_cuts(history).on(node).until(end.time_ns):
        before = [at_ns for at_ns in done if at_ns < cut.begin_ns]
        if len(before) > 1:
            return (
                f"{node} acknowledged {len(before)} transactions, the last at "
                f"{seconds(before[-1])}, and its power was cut at {seconds(cut.begin_ns)}"
            )
    return ""


def shared_transactions(history: History, _: Evidence, end: Op) -> str:
    """Return why a server does not load a table: it was killed, its power was not cut, and another
    server committed a transaction before it was started."""
    node = _server(end)
    for kill in kills(history).on(node).until(end.time_ns):
        until_ns = kill.end_ns if kill.is_over else end.time_ns
        for one in _transactions(history):
            at_ns = acknowledged_ns(one)
            between = kill.begin_ns < at_ns < until_ns and one.invoke.node != node
            if between and not power_cuts(history).on(node):
                return (
                    f"{node} was killed at {seconds(kill.begin_ns)}, and {one.invoke.node} "
                    f"committed a transaction at {seconds(at_ns)}, before it was started"
                )
    return ""


def _transactions(history: History) -> Sequence[Pair]:
    return history.calls(TXN)


def _server(end: Op) -> str:
    """Return the server that an answer is about, also if nobody could start it."""
    ended = ENDED_BY_ITSELF.search(end.error or "")
    return ended[1] if ended else str(end.node)


def _dropped_ns(history: History, evidence: Evidence, part: str, after_ns: int) -> int | None:
    """Return when a part that no replica has was first dropped after a time."""
    dropped = drops_of(history, part).after(after_ns).first
    return dropped.begin_ns if dropped is not None and not evidence.holders(part) else None


def _pending(evidence: Evidence, end: Op) -> str:
    """Return the part whose pending quorum was the reason of a refusal; "" if the record says that
    the quorum is over, or not all of it."""
    part = _named(_PENDING, end)
    known = part in evidence.quorums and part in evidence.commits
    over = part in evidence.ended or part in evidence.failed
    return part if known and not over and not evidence.doubts else ""


def _named(refusal: re.Pattern[str], end: Op) -> str:
    """Return the part that a refusal names."""
    found = refusal.search(end.error or "")
    return found[1] if found else ""


Signature: TypeAlias = Callable[[History, Evidence, Op], str]
SIGNATURES: Final[Mapping[str, tuple[re.Pattern[str], Signature]]] = {
    "missing-table": (_NO_TABLE, missing_table),
    "half-alter": (_READ_ONLY, half_alter),
    "suspicious-clone": (_READ_ONLY, suspicious_clone),
    "crashing-mutation": (_NO_SERVER, crashing_mutation),
    "uncounted-clone": (_PENDING, uncounted_clone),
    "unreadable-table": (_LACKING, unreadable_table),
    "emptied-partition": (_LACKING, emptied_partition),
    "unwritable-table": (_PENDING, unwritable_table),
    "unsynced-commit": (_TOO_OLD, unsynced_commit),
    "shared-transactions": (_REMOVED, shared_transactions),
}
"""Signatures by defect, each with the errors that it explains: the evidence, or "" if there is
none."""
