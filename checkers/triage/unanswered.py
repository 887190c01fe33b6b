"""Explains tables and servers that do not answer once the faults are over."""

import re
from collections.abc import Iterator
from typing import Final

from checkers.phrasing import seconds
from checkers.triage.breaks import kills
from checkers.triage.columns import column_facts
from harness.core.history import Fault, History, Pair
from harness.core.op import Op
from harness.core.verdict import Anomaly

UPDATES: Final = frozenset({"update", "mutate", "mutation"})
"""Calls that make a mutation."""
COLUMNS_MAX: Final = 2
"""Number of columns in which a table may differ from ZooKeeper's when a server of before 20.3 loads
it."""
_NO_TABLE: Final = re.compile(r"^60\b")
_READ_ONLY: Final = re.compile(r"^242\b")
_NO_SERVER: Final = re.compile(r"^(209|210|NETWORK)\b|refused|EOF|end of file", re.IGNORECASE)


def without_table(history: History, anomaly: Anomaly) -> str:
    """Return why a server lacks its table: it was away while more columns changed than may differ;
    "" if the record does not show that."""
    end = _end(history, anomaly)
    if end is None or not _NO_TABLE.search(end.error or ""):
        return ""
    for fault in _last_kills(history, end):
        for table in column_facts(history):
            before = [names for at_ns, names in table.lists if at_ns <= fault.begin_ns]
            until_ns = fault.end_ns if fault.end_ns is not None else end.time_ns
            later = [names for at_ns, names in table.lists if fault.begin_ns < at_ns <= until_ns]
            changed = before[-1] ^ later[-1] if before and later else frozenset()
            if len(changed) > COLUMNS_MAX:
                return (
                    f"{end.node} was killed at {seconds(fault.begin_ns)}, and {len(changed)} "
                    f"columns changed before it was started at {seconds(until_ns)}"
                )
    return ""


def half_altered(history: History, anomaly: Anomaly) -> str:
    """Return why a replica is read-only: it was killed after it had written an ALTER's columns to
    ZooKeeper, and before it heard so; "" if the record does not show that."""
    end = _end(history, anomaly)
    if end is None or not _READ_ONLY.search(end.error or ""):
        return ""
    node = str(end.node)
    for fault in kills(history, node):
        for table in column_facts(history):
            applied_ns = table.applied.get(node)
            again = [at_ns for at_ns in table.active.get(node, ()) if at_ns > fault.begin_ns]
            if applied_ns is None or applied_ns > fault.begin_ns or again:
                continue
            if any(applied_ns < at_ns for at_ns in table.active.get(node, ())):
                continue  # It has begun a session since, so that it knew.
            return (
                f"{node} wrote the columns of an ALTER to ZooKeeper at {seconds(applied_ns)}, was "
                f"killed at {seconds(fault.begin_ns)}, and has not become active since"
            )
    return ""


def crashed(history: History, anomaly: Anomaly) -> str:
    """Return why a server is gone: a mutation was made while an insert was under way, no fault
    kills the server, and it answered before; "" if the record does not show that."""
    end = _end(history, anomaly)
    if end is None or not _NO_SERVER.search(end.error or "") or _last_kills(history, end):
        return ""
    for update in history.pairs:
        if update.invoke.f not in UPDATES:
            continue
        insert = next((one for one in _inserts(history) if _beside(one, update)), None)
        since = [p for p in history.pairs if _answered(p, end, update)]
        if insert is not None and not since:
            return (
                f"op #{update.invoke.index} {update.invoke.f} began at "
                f"{seconds(update.invoke.time_ns)}, while op #{insert.invoke.index} insert was "
                f"under way, and {end.node} has answered nothing that was asked since"
            )
    return ""


def _inserts(history: History) -> Iterator[Pair]:
    return (pair for pair in history.pairs if pair.invoke.f == "insert")


def _beside(insert: Pair, update: Pair) -> bool:
    end_ns = insert.end.time_ns if insert.end is not None else None
    return insert.invoke.time_ns < update.invoke.time_ns and (
        end_ns is None or end_ns > update.invoke.time_ns
    )


def _answered(pair: Pair, end: Op, update: Pair) -> bool:
    """Return whether a server answered a call that began after a mutation had ended."""
    over = update.end if update.end is not None else update.invoke
    return (
        pair.invoke.node == end.node
        and pair.invoke.time_ns > over.time_ns
        and pair.end is not None
        and not _NO_SERVER.search(pair.end.error or "")
    )


def _last_kills(history: History, end: Op) -> list[Fault]:
    return [one for one in kills(history, str(end.node)) if one.begin_ns <= end.time_ns]


def _end(history: History, anomaly: Anomaly) -> Op | None:
    """Return the last answer of the calls that an anomaly is about."""
    ends = [history[index] for index in anomaly.ops if history[index].error]
    return ends[-1] if ends else None
