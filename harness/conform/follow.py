"""Follows the tables of a run while it goes on: replays what ZooKeeper's logs have gained."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.conform.agreed import AgreedTable, Fact
from harness.conform.dating import CommitTime, Dating, Progress
from harness.conform.ensemble import Merge
from harness.conform.entries import UnreadableError
from harness.conform.protocol import ServerProtocol
from harness.conform.replay import Replayed, TableReplay, tables
from harness.conform.txnlog import LogTail, Txn
from harness.core.record_capabilities import GrowsTransactions

_CHUNKS_MAX: Final = 1000
"""Pieces of a log that one look reads at most."""
TRACED: Final = frozenset(
    {"commit", "begin", "hold", "drop", "end", "fail", "last", "columns", "applied", "active"}
    | {"inactive", "lost", "lock", "unlock", "claim", "unclaim", "leads", "assign", "copy"}
    | {"mutation", "query", "executed"}
)
"""Facts of a trace; of those of entries (assign) all but merges."""
TRACE_MAX: Final = 20_000
"""Maximum number of facts of a table's trace."""


def _traced(fact: Fact) -> bool:
    return fact[0] in TRACED and (fact[0] != "assign" or fact[2] != "merge")


@dataclass
class Trace:
    """What a table's transactions say of its parts and quorums, each fact with its time."""

    agreed: AgreedTable
    facts: list[tuple[CommitTime, Fact]] = field(default_factory=list)
    ended: str = ""
    """Why there are no later facts; "" if all are here."""

    def take(self, txn: Txn, at: CommitTime) -> None:
        """Add the facts of a transaction of ZooKeeper that was committed at this time."""
        if self.ended:
            return
        try:
            said = self.agreed.take(txn)
        except UnreadableError as error:
            self.ended = str(error)
            return
        self.agreed.facts.clear()
        self.facts += [(at, fact) for fact in said if _traced(fact)]
        if len(self.facts) > TRACE_MAX:
            self.ended = f"more than {TRACE_MAX:,} facts"


@dataclass
class Follower:
    """The logs of an ensemble from now on, and the tables whose path contains `token`."""

    logs: GrowsTransactions
    keepers: Sequence[str]
    token: str
    protocol: ServerProtocol
    tables: dict[str, TableReplay] = field(default_factory=dict)
    traces: dict[str, Trace] = field(default_factory=dict)
    transactions: int = 0
    """Number of transactions that were replayed."""
    dating: Dating | None = None
    """Dates transactions; None to take their own dates for right."""
    _tails: dict[str, LogTail] = field(default_factory=dict)
    _merge: Merge = field(init=False)

    def __post_init__(self) -> None:
        """Skip what is in the logs already. Raises ClusterError, and HarnessError for no log."""
        read = [self._read(node) for node in self.keepers]
        self._merge = Merge(len(self.keepers), max((t[-1].zxid for t in read if t), default=0))

    @property
    def gaps(self) -> Sequence[str]:
        """Return a sentence for each missing piece of the logs."""
        return self._merge.gaps

    def look(self, *, last: bool = False) -> Sequence[tuple[TableReplay, Txn]]:
        """Replay what the logs have gained; with `last`, also what is not certain yet. Return the
        table and the transaction of each departure. Raises as the constructor does."""
        for node in self.keepers:
            self._merge.add(self._read(node))
        found = []
        for txn in self._merge.take(last=last):
            self.transactions += 1
            for root in tables((txn,)):
                if self.token in root:
                    self.tables.setdefault(root, TableReplay(root, self.protocol))
                    self.traces.setdefault(root, Trace(AgreedTable(root)))
            dating, dated_ms = self.dating, txn.time_ms
            wanted = dating if any(not one.ended for one in self.traces.values()) else None
            at = wanted.commit(txn.zxid, dated_ms) if wanted else CommitTime.of(dated_ms)
            for trace in self.traces.values():
                trace.take(txn, at)
            found += [(table, txn) for table in self.tables.values() if table.take(txn)]
        return found

    @property
    def covered(self) -> int:
        """Return the number of elements that the tables have covered up to now."""
        return sum(len(table.coverage.elements) for table in self.tables.values())

    def results(self) -> Mapping[str, Replayed]:
        """Return the result for each table up to now, by its path."""
        return {root: table.result() for root, table in self.tables.items()}

    def _read(self, node: str) -> list[Txn]:
        """Return the transactions that a server's log has gained. A server that starts again begins
        another file."""
        txns: list[Txn] = []
        for _ in range(_CHUNKS_MAX):
            tail = self._tails.get(node)
            name, offset = (tail.name, tail.offset) if tail else ("", 0)
            files, data = self.logs.transactions_since(node, name, offset)
            gained = tail.feed(data) if tail else []
            txns += gained
            if gained or (tail and tail.torn_at is not None):
                continue
            later = files[files.index(name) + 1 :] if name in files else files[-1:]
            if not later:
                break
            self._tails[node] = LogTail(later[0], self.token)
        if txns and self.dating is not None:
            self.dating.add(Progress(0, time.time() * 1e3, txns[-1].zxid, leads=False))
        return txns
