"""Judges whether all ZooKeeper servers have the same tree at rest, in memory and on their disks.

A run on servers whose logs can be read records `trees` after its final reads, a `TreeReport`. Each
server was read after a sync with its leader, and a node that differed again after another sync: a
server that has caught up shows what was committed, so that two which show the same two different
things twice do not agree. (One reading of each would not do: the tree changes meanwhile.)

Violated: *differs*, a node that two servers show differently: its data, version, owner, or the
count of its children's changes, by which sequential nodes are named. *hole*, committed transactions
that a server's log lacks before a later one, and that no snapshot between them has: a restart from
an older snapshot, or a server that gets this log, goes without them. (What a server received as a
snapshot is rightly not in its log.) *unlogged*, a server shows a transaction that is in none of its
files. *stored-otherwise*, a node that the server would have in another way after a restart.
*untruncated*, nodes of transactions that were cut off a server's log, and that it shows all the
same.

Doubtful: a server that could not be read, and a node that went on changing.

The verdict does not decide the run, unless it is to fail on it: what clients saw does.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import number
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

TREES: Final = "trees"
NOTHING: Final = "nothing"
"""What a server shows that lacks a node."""


class Missing(msgspec.Struct, frozen=True):
    """Transactions that a log lacks, one after the other."""

    first: int
    count: int


class ServerTree(msgspec.Struct, frozen=True):
    """The tree of one server, beside its own files."""

    nodes: int
    """Number of nodes that it shows."""
    records: int
    """Number of records of its log."""
    missing: list[Missing] = []
    unlogged: bool = False
    """Whether it shows a transaction that is in none of its files."""
    stored_otherwise: list[str] = []
    """Paths that it would have in another way after a restart."""
    version: str = ""
    """Version of the server; "" if unknown."""
    untruncated: list[str] = []
    """Paths of nodes that it alone shows, by transactions which are in no log although its own has
    earlier and later ones: they were cut off its log, and not off a snapshot."""
    forgotten: list[str] = []
    """Paths of nodes that its log alone has, and that no server shows."""


class TreeDifference(msgspec.Struct, frozen=True):
    """A node that not all servers show alike."""

    path: str
    shown: dict[str, str]
    """What each server shows."""


class TreeReport(msgspec.Struct, frozen=True):
    """How the trees of ZooKeeper's servers compare, by node."""

    servers: dict[str, ServerTree] = {}
    differences: list[TreeDifference] = []
    moving: list[str] = []
    """Paths that went on changing, so that nothing is known of them."""
    unread: dict[str, str] = {}
    """Why a server's tree or files are not known."""


class Trees:
    """Judges the trees at the end of a run."""

    name = TREES

    def __init__(self, *, only_reports: bool = True) -> None:
        self.only_reports = only_reports
        """Whether its verdict does not decide the run."""

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs two servers whose trees and files were read."""
        op = trees_of(history)
        report = TreeReport() if op is None else decode(op, TreeReport)
        found = Findings(self.name)
        if op is not None:
            for kind, text in _sentences(report):
                found.add_anomaly(kind, text, op)
        found.doubts += [f"{node}: {why}" for node, why in report.unread.items()]
        found.doubts += [f"{path} went on changing" for path in report.moving]
        read = report.servers
        nodes = max((server.nodes for server in read.values()), default=0)
        records = sum(server.records for server in read.values())
        return found.verdict(
            checked=len(read) if len(read) > 1 else 0,
            broken=f"ZooKeeper's servers do not agree at rest: {found.tally}",
            nothing="no two servers were read",
            held=f"{number(len(read), 'server')} show the same {number(nodes, 'node')}, and "
            f"{number(records, 'record')} of their logs have them",
        )


def trees_of(history: History) -> Op | None:
    """Return the op that says how the trees compare; None if they were not read."""
    ends = [op for op in history.nemesis if op.f == TREES and op.kind is Kind.OK]
    return ends[-1] if ends else None


def runs_of(zxids: Iterable[int]) -> list[Missing]:
    """Return ascending transactions as runs of neighbours."""
    runs: list[Missing] = []
    for zxid in zxids:
        last = runs[-1] if runs else None
        if last is not None and last.first + last.count == zxid:
            runs[-1] = Missing(last.first, last.count + 1)
        else:
            runs.append(Missing(zxid, 1))
    return runs


def _sentences(report: TreeReport) -> Iterable[tuple[str, str]]:
    for one in report.differences:
        shown = "; ".join(f"{node} shows {what}" for node, what in one.shown.items())
        yield "differs", f"{one.path}: {shown}"
    for node, server in report.servers.items():
        for run in server.missing:
            yield (
                "hole",
                f"{node}: its log lacks {number(run.count, 'committed transaction')} from "
                f"{run.first:#x} on, and has later ones",
            )
        if server.untruncated:
            paths = ", ".join(server.untruncated[:3])
            yield (
                "untruncated",
                f"{node}: it alone shows {number(len(server.untruncated), 'node')}, such as "
                f"{paths}, by transactions that are in no log, and has later ones",
            )
        if server.unlogged:
            yield "unlogged", f"{node}: shows a transaction that is in none of its files"
        if server.stored_otherwise:
            paths = ", ".join(server.stored_otherwise[:3])
            yield (
                "stored-otherwise",
                f"{node}: after a restart it would have another content of "
                f"{number(len(server.stored_otherwise), 'node')}, such as {paths}",
            )
