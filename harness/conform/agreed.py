"""Extracts facts about one table from ZooKeeper's transactions, for the checkers of a history.

The replay (replay.py) decides whether the model allows a trace. These facts decide nothing: they
are what checkers join with what clients saw. checkers/replication/agreed.py has their meaning.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.conform.entries import (
    LogEntry,
    MutationEntry,
    PartName,
    QuorumStatus,
    read_columns,
    read_last_parts,
)
from harness.conform.replay import MULTIPLE_LEADERS, net_changes
from harness.conform.txnlog import Change, ChangeKind, Txn
from harness.core.op import Json

Fact = list[Json]
_QUERY: Final = "query-"
"""Begin of the names of statements in the log of a Replicated database."""
_ORDER: Final = ("begin", "commit", "assign", "copy", "hold", "drop", "fail", "end")
"""Order of the facts of one transaction; others come first."""


def agreed(root: str, txns: Iterable[Txn]) -> list[Fact]:
    """Return the facts about the table below `root`, in ZooKeeper's order. Raises
    UnreadableError."""
    table = AgreedTable(root)
    for txn in txns:
        table.take(txn)
    return table.facts


@dataclass
class AgreedTable:
    """The facts of one table, a transaction at a time."""

    root: str
    facts: list[Fact] = field(default_factory=list)
    pending: str | None = None
    """Part that /quorum/status names."""
    candidates: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Replica and session of each node below /leader_election."""
    numbered: set[int] = field(default_factory=set)
    """Sessions that have taken a block number."""
    last: Mapping[str, PartName] = field(default_factory=dict)
    """The parts that /quorum/last_part names, by partition."""
    shared_id: str = ""
    """Name of the table among the locks of zero-copy replication; "" if it has none."""
    temporary: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Session of each lock that goes with it, by part, blob and replica."""
    claims: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Session and replica that have claimed each part, to merge or mutate it alone."""
    active: dict[int, str] = field(default_factory=dict)
    """Replica that is active, by session."""

    def take(self, txn: Txn) -> Sequence[Fact]:
        """Add the facts of one transaction, and return them. Raises UnreadableError."""
        changes = tuple(c for c in txn.changes if c.path.startswith(f"{self.root}/"))
        known = len(self.facts)
        if changes or txn.ends_session:
            self._take(txn, net_changes(self.root, changes))
        self._lock(txn)
        return self.facts[known:]

    def _lock(self, txn: Txn) -> None:
        """Add the locks of zero-copy replication that a transaction makes and removes."""
        for change in txn.changes if self.shared_id else ():
            _, _, below = change.path.partition(f"/{self.shared_id}/")
            match below.split("/"):
                case [part, blob, replica] if change.kind is not ChangeKind.SET:
                    self._lock_of((part, blob, replica), change, txn)
                case [part, "part_exclusive_lock"] if change.kind is not ChangeKind.SET:
                    self._claim(part, change, txn)
        if txn.ends_session:
            if txn.session in self.active:
                self.facts.append(["inactive", txn.zxid, self.active.pop(txn.session)])
            for part, (session, replica) in tuple(self.claims.items()):
                if session == txn.session:
                    del self.claims[part]
                    self.facts.append(["unclaim", txn.zxid, part, replica, True])
            for lock in [lock for lock, of in self.temporary.items() if of == txn.session]:
                del self.temporary[lock]
                self.facts.append(["unlock", txn.zxid, *lock])

    def _claim(self, part: str, change: Change, txn: Txn) -> None:
        """Add the claim of a part, or its end by whoever has it."""
        if change.kind is ChangeKind.CREATE:
            replica = self.active.get(txn.session, "")
            self.claims[part] = txn.session, replica
            self.facts.append(["claim", txn.zxid, part, replica])
        elif part in self.claims:
            _, replica = self.claims.pop(part)
            self.facts.append(["unclaim", txn.zxid, part, replica, False])

    def _lock_of(self, lock: tuple[str, str, str], change: Change, txn: Txn) -> None:
        self.temporary.pop(lock, None)
        if change.kind is ChangeKind.DELETE:
            self.facts.append(["unlock", txn.zxid, *lock])
            return
        if change.ephemeral:
            self.temporary[lock] = txn.session
        self.facts.append(["lock", txn.zxid, *lock, change.ephemeral])

    def _take(self, txn: Txn, by_path: Mapping[str, Change]) -> None:
        found: list[Fact] = []
        leader = self._leader()
        for path, change in by_path.items():
            found += self._facts(path.split("/"), change, txn, leader)
        ranked = sorted(found, key=lambda f: _ORDER.index(f[0]) if f[0] in _ORDER else -1)
        self.facts += ranked
        if txn.ends_session:
            lost = [
                node for node, (_, session) in self.candidates.items() if session == txn.session
            ]
            for node in lost:
                del self.candidates[node]
            if txn.session in self.numbered:
                self.facts.append(["expire", txn.zxid, txn.session])
        if self._leader() != leader:
            self.facts.append(["leads", txn.zxid, self._leader()])

    def _facts(self, path: Sequence[str], change: Change, txn: Txn, leader: str) -> list[Fact]:
        created = change.kind is ChangeKind.CREATE
        match path:
            case ["log", _] if created:
                return self._entry(LogEntry.read(change.data), txn, leader)
            case ["quorum", "status"]:
                return self._status(change, txn.zxid)
            case ["quorum", "last_part"] if change.kind is not ChangeKind.DELETE:
                return self._last(change.data, txn.zxid)
            case ["quorum", "parallel", part] if change.kind is ChangeKind.DELETE:
                return [["end", txn.zxid, part]]
            case ["quorum", "failed_parts", part] if created:
                return [["fail", txn.zxid, part]]
            case ["replicas", replica, "parts", part] if change.kind is not ChangeKind.SET:
                name = "hold" if created else "drop"
                return [[name, txn.zxid, part, replica, txn.time_ms]]
            case ["block_numbers", partition, node] if change.kind is not ChangeKind.SET:
                number = int(node.rpartition("-")[2])
                if not created:
                    return [["release", txn.zxid, partition, number, txn.session]]
                self.numbered.add(txn.session)
                return [["number", txn.zxid, partition, number, txn.session]]
            case [_, "log", query] if created and query.startswith(_QUERY):
                return [["query", txn.zxid, query]]
            case [_, "log", query, "finished", replica] if created:
                return [["executed", txn.zxid, replica.rpartition("|")[2], query]]
            case ["mutations", _] if created:
                made = MutationEntry.read(change.data)
                return [["mutation", txn.zxid, made.source, made.commands, made.numbers]]
            case ["columns"] if change.kind is not ChangeKind.DELETE:
                return [["columns", txn.zxid, read_columns(change.data)]]
            case ["replicas", replica, "columns"] if change.kind is not ChangeKind.DELETE:
                return [["applied", txn.zxid, replica, read_columns(change.data)]]
            case ["replicas", replica, "is_active"] if created:
                return self._activated(replica, txn)
            case ["replicas", replica, "is_lost"] if change.kind is not ChangeKind.DELETE:
                return [["lost", txn.zxid, replica, change.data == b"1"]]
            case ["table_shared_id"] if created and change.data:
                self.shared_id = change.data.decode(errors="replace")
            case ["leader_election", node]:
                self._candidate(node, change, txn.session)
            case ["harness_barrier"]:
                return [["barrier", txn.zxid, txn.time_ms]]
        return []

    def _entry(self, entry: LogEntry, txn: Txn, leader: str) -> list[Fact]:
        about = entry.part or entry.range
        part = about.name if about else ""
        if entry.kind != "get":
            facts: list[Fact] = [["assign", txn.zxid, entry.kind, entry.source, part, leader]]
            for into, of in zip(entry.copies, entry.copied, strict=False):
                facts.append(["copy", txn.zxid, into.name, entry.source, entry.origin, of])
            return facts
        facts = [["commit", txn.zxid, part, txn.session]]
        if entry.quorum > 1:
            facts.append(["begin", txn.zxid, part, entry.quorum])
        return facts

    def _status(self, change: Change, zxid: int) -> list[Fact]:
        gone = change.kind is ChangeKind.DELETE
        now = None if gone else QuorumStatus.read(change.data).part.name
        was, self.pending = self.pending, now
        return [["end", zxid, was]] if was is not None and was != now else []

    def _last(self, data: bytes, zxid: int) -> list[Fact]:
        was, self.last = self.last, read_last_parts(data)
        return [
            ["last", zxid, partition, part.name]
            for partition, part in self.last.items()
            if was.get(partition) != part
        ]

    def _activated(self, replica: str, txn: Txn) -> list[Fact]:
        """Return that a replica is active; in a new session, also that the last one was lost."""
        lost = [s for s, of in self.active.items() if of == replica and s != txn.session]
        for session in lost:
            del self.active[session]
        self.active[txn.session] = replica
        gone: list[Fact] = [["inactive", txn.zxid, replica] for _ in lost]
        return [*gone, ["active", txn.zxid, replica]]

    def _candidate(self, node: str, change: Change, session: int) -> None:
        if change.kind is ChangeKind.DELETE:
            self.candidates.pop(node, None)
        elif change.kind is ChangeKind.CREATE:
            name = change.data.decode(errors="replace")
            everyone = name == MULTIPLE_LEADERS
            self.candidates[node] = ("*", 0) if everyone else (name, session)

    def _leader(self) -> str:
        """Return the replica that leads; "*" if every one may, "" if nobody does."""
        if any(name == "*" for name, _ in self.candidates.values()):
            return "*"
        return self.candidates[min(self.candidates)][0] if self.candidates else ""
