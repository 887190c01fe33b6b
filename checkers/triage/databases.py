"""Signatures of values that are gone since a replica of a Replicated database took the definitions
of its tables from ZooKeeper.

A replica does so when it starts and the log of the database has not what it missed, or its own
definitions are not those of ZooKeeper (`DatabaseReplicated::recoverLostReplica`). A table with
another definition it moves to a database `..._broken_tables`, or drops if it takes it for one that
stores no rows. The server says how many it has dropped and moved, and not which.
"""

import re
from typing import Final

from checkers.health import complaints_of
from checkers.phrasing import seconds
from checkers.sets.key_sets import INSERT
from checkers.triage.events import kills
from checkers.triage.evidence import Evidence
from checkers.triage.inserts import Values
from harness.core.history import History
from harness.core.op import Kind
from harness.core.verdict import Anomaly

_CLEANED: Final = re.compile(r"dropped \d+ dictionaries and (\d+) tables, moved (\d+) tables")
_DROPPED, _MOVED = 1, 2
"""Groups of this expression."""


def set_aside(anomaly: Anomaly, evidences: tuple[History, Evidence, Values]) -> str:
    """Return how the only replica that acknowledged the value put a table aside when it started."""
    return _recovered(anomaly, evidences[0], _MOVED, "moved")


def dropped_view(anomaly: Anomaly, evidences: tuple[History, Evidence, Values]) -> str:
    """Return how the only replica that acknowledged the value dropped a table when it started: one
    of a view, or a KeeperMap table."""
    return _recovered(anomaly, evidences[0], _DROPPED, "dropped")


def _recovered(anomaly: Anomaly, history: History, group: int, did: str) -> str:
    tries = [
        pair
        for pair in history.calls(INSERT)
        if (pair.invoke.key, pair.invoke.value) == (anomaly.key, anomaly.value)
    ]
    nodes = {str(pair.invoke.node) for pair in tries}
    acknowledged = [pair.end for pair in tries if pair.kind is Kind.OK and pair.end is not None]
    if len(nodes) != 1 or not acknowledged:
        return ""
    (node,) = nodes
    said = complaints_of(history).get(node, {}).get("recovered-database")
    counts = _CLEANED.search(said.text) if said else None
    kill = kills(history).on(node).since(acknowledged[0].time_ns).first
    if counts is None or kill is None or counts[group] == "0":
        return ""
    return (
        f"{node} was killed at {seconds(kill.begin_ns)}, took the definitions of the tables of a "
        f"Replicated database from ZooKeeper when it started, and {did} {counts[group]} of them"
    )
