"""Explains values that reads lack because a ZooKeeper server lost committed transactions, and
values that they have because of transactions that were not committed.

The run's look at ZooKeeper's trees (`checkers.trees`) must show that the server lacks the value's
node, which others have: the child of a workload on ZooKeeper alone, or a node that names the
value's only part; and that its log lacks committed transactions before later ones. A hole in a log
whose disk had a fault is `unwritten`; one without is `handed-on-hole` if a server of the ensemble
has a version that hands holes on, and else nothing that is known.

A value whose insert was not acknowledged, and whose node one server alone shows although it was
cut off its log, is `untruncated`. One whose node no server shows, and whose creation one log alone
has, is `unlogged-ack` if that server has a version of before the mend, and another server was
killed or lost power after the insert began.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from checkers.look import decode
from checkers.phrasing import number
from checkers.sets.key_sets import KeySet, key_sets
from checkers.trees import NOTHING, ServerTree, TreeReport, trees_of
from checkers.triage.evidence import Evidence
from checkers.triage.inserts import Values
from checkers.triage.kept import Kept
from checkers.triage.reads import Miss
from harness.core.history import History
from harness.core.rows import NEVER_NS

HANDED_ON: Final = "handed-on-hole"
UNWRITTEN: Final = "unwritten"
UNTRUNCATED: Final = "untruncated"
UNLOGGED: Final = "unlogged-ack"
ACKNOWLEDGES_EARLY: Final = ("3.8.0", "3.8.1", "3.8.2", "3.8.3", "3.8.4", "3.9.0", "3.9.1")
"""Versions of ZooKeeper that have `unlogged-ack`."""
_DEATHS: Final = ("power-cut", "kill-zookeeper", "kill-both")
"""Beginnings of the names of faults that end a ZooKeeper server."""
HANDS_ON: Final = "3.9.3"
"""The version of ZooKeeper that has `handed-on-hole`."""
_DISKS: Final = ("disk-", "power-cut", "empty-disk", "old-disk", "keeper-")
"""Beginnings of the names of faults of disks."""


def lost_transactions(
    history: History, evidence: Evidence, values: Values, known: frozenset[str]
) -> Mapping[int, Sequence[Miss]]:
    """Return the values that reads lack which began after the acknowledgement, by the index of the
    read's end."""
    op = trees_of(history)
    report = TreeReport() if op is None else decode(op, TreeReport)
    lacking = _lacking(report)
    handed_on = any(server.version == HANDS_ON for server in report.servers.values())
    why = {node: _why(history, node, size, handed_on) for node, (size, _) in lacking.items()}
    lacking = {node: found for node, found in lacking.items() if why[node][0] in known}
    found: dict[int, list[Miss]] = {}
    for key in key_sets(history) if lacking else ():
        for value, node in _lost(key, lacking, values):
            insert, (by, text) = key.inserts[value], why[node]
            for read in key.reads:
                keepers = evidence.keepers.get(str(read.invoke.node), ())
                asked = not keepers or node in keepers
                after = insert.ack is not None and read.invoke.time_ns > insert.ack.time_ns
                if asked and after and not read.mask & insert.bit:
                    found.setdefault(read.end.index, []).append(Miss(value, {by: text}))
    return found


def uncommitted(history: History, evidence: Evidence, known: frozenset[str]) -> Iterator[Kept]:
    """Yield the values that were not acknowledged, and that replicas show because one ZooKeeper
    server has or had them."""
    op = trees_of(history)
    servers = {} if op is None else decode(op, TreeReport).servers
    for node, server in servers.items():
        for by, paths in ((UNTRUNCATED, server.untruncated), (UNLOGGED, server.forgotten)):
            if by not in known or not paths:
                continue
            for key in key_sets(history):
                readers = {str(read.invoke.node) for read in key.reads}
                asking = {one for one in readers if node in evidence.keepers.get(one, (node,))}
                for value, insert in key.inserts.items():
                    own = any(path.endswith(f"/{key.key}/{value}") for path in paths)
                    if own and insert.ack is None:
                        why = _why_shown(history, by, node, servers, insert.invoke.time_ns)
                        if why:
                            yield Kept(
                                key.key, value, frozenset(asking), by, why, NEVER_NS, twice=False
                            )


def _why_shown(
    history: History, by: str, node: str, servers: Mapping[str, ServerTree], since_ns: int
) -> str:
    """Return the evidence of a value that one server alone has or had; "" if there is not enough.
    `since_ns` is the time at which its insert began."""
    if by == UNTRUNCATED:
        return _untruncated(node)
    return _unlogged_ack(history, node, servers, since_ns)


def _untruncated(node: str) -> str:
    """Return that a server alone shows a node whose transaction no log has."""
    return f"{node} alone shows it, and no log has its transaction"


def _unlogged_ack(
    history: History, node: str, servers: Mapping[str, ServerTree], since_ns: int
) -> str:
    """Return that the log of a server alone has a node which no server shows, and that another
    server died after the insert began; "" for a version that acknowledges what it has logged."""
    if servers[node].version not in ACKNOWLEDGES_EARLY:
        return ""
    for fault in history.faults:
        struck = fault.text.replace(":", " ").split()
        others = [one for one in struck if one in servers and one != node]
        if fault.name.startswith(_DEATHS) and fault.begin_ns > since_ns and others:
            return f"the log of {node} alone has it, and {fault.name} struck {others[0]}"
    return ""


def _lacking(report: TreeReport) -> dict[str, tuple[int, set[str]]]:
    """Return the servers whose log has a hole: the size of the hole, and the paths that they lack
    and others have."""
    found: dict[str, tuple[int, set[str]]] = {}
    for node, server in report.servers.items():
        paths = {one.path for one in report.differences if one.shown.get(node) == NOTHING}
        if server.missing and paths:
            found[node] = sum(run.count for run in server.missing), paths
    return found


def _lost(
    key: KeySet, lacking: Mapping[str, tuple[int, set[str]]], values: Values
) -> Iterator[tuple[int, str]]:
    """Yield the values of a key whose node a server lacks, with that server."""
    for value in key.inserts:
        inserted = values.get((key.key, value))
        parts = inserted.parts if inserted is not None else set()
        for node, (_, paths) in lacking.items():
            own = any(path.endswith(f"/{key.key}/{value}") for path in paths)
            part = len(parts) == 1 and any(path.rpartition("/")[2] in parts for path in paths)
            if own or part:
                yield value, node


def _why(history: History, node: str, missing: int, handed_on: bool) -> tuple[str, str]:
    """Return the known defect, "" if there is none, and the evidence. A hole without a fault of the
    disk is handed-on-hole where `handed_on` says that a server of the ensemble hands holes on."""
    hole = f"the log of {node} lacks {number(missing, 'committed transaction')} before later ones"
    fault = _unwritten(history, node)
    if fault:
        return UNWRITTEN, f"{hole}; it had {fault}"
    return HANDED_ON if handed_on else "", f"{hole}, and no fault of its disk"


def _unwritten(history: History, node: str) -> str:
    """A fault struck the disk of a server whose log has a hole: return its name, "" without one."""
    for fault in history.faults:
        struck = fault.text.replace(":", " ").split()
        if fault.name.startswith(_DISKS) and node in struck:
            return fault.name
    return ""
