"""Reads ZooKeeper's transaction log of a table that is audited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.conform.agreed import agreed
from harness.conform.ensemble import merged, read_archive, read_directory
from harness.conform.entries import PartName, UnreadableError
from harness.conform.txnlog import Txn
from harness.core.errors import HarnessError, UsageError
from harness.core.op import Json

OPTION: Final = "--zookeeper-log"
FACTS: Final = frozenset({"begin", "hold", "drop", "fail", "end", "last"})
"""Facts that an audit judges."""
FACTS_MAX: Final = 1_000_000
VERSION_DIRECTORY: Final = "version-2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperLogs:
    """Copies of the transaction logs of an ensemble's servers."""

    paths: Sequence[Path]
    """A directory version-2, or an archive of one, of each server."""
    servers: int
    """Number of servers in the ensemble."""

    def facts(self, table: str, since_ms: int) -> Mapping[str, Json]:
        """Return the value of the call "transactions" (`checkers.replication.agreed`) for the table
        at a path in ZooKeeper, from some time before `since_ms` on. Raises UsageError for too few
        logs, for what is no log, and for one that is too long."""
        if len(self.paths) * 2 <= self.servers:
            raise UsageError(
                f"{OPTION}: {len(self.paths)} of {self.servers} servers; expected most of them, "
                "because what one server alone has logged need not have happened"
            )
        try:
            logs = [_read(path, table, since_ms) for path in self.paths]
            first = max((log[0].zxid for log in logs if log), default=1)
            ensemble = merged(logs, self.servers, first - 1)
            facts = [fact for fact in agreed(table, ensemble.txns) if fact[0] in FACTS]
            for name, _, *of in facts:
                PartName.named(str(of[1] if name == "last" else of[0]))
        except (HarnessError, UnreadableError) as error:
            raise UsageError(f"{OPTION}: {error}") from error
        if len(facts) > FACTS_MAX:
            raise UsageError(
                f"{OPTION}: {len(facts):,} facts about {table}; expected at most {FACTS_MAX:,}: "
                "use logs of a shorter period"
            )
        return {"gaps": list(ensemble.gaps), "facts": [*facts]}


def _read(path: Path, table: str, since_ms: int) -> Sequence[Txn]:
    if path.is_file():
        return read_archive(path, table)
    below = path / VERSION_DIRECTORY
    directory = below if below.is_dir() else path
    if not directory.is_dir():
        raise UsageError(f"{path}: no such file or directory; expected a copy of version-2")
    txns = read_directory(directory, since_ms, table)
    if not txns:
        raise UsageError(f"{directory}: no transactions; expected files log.* of ZooKeeper")
    return txns
