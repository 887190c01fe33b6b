"""The workload of an audit's history, which servers' logs made: it is judged, and never run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from checkers.replication.audited import AUDIT, Audited
from harness.core.errors import UsageError
from harness.core.protocols import Checker, Cluster, Generator

AUDITED: Final = AUDIT
"""Name of the workload of an audit's history."""


@dataclass(frozen=True, slots=True)
class AuditedTable:
    """What others did to a table, as its servers logged it."""

    name: str = AUDITED
    live_anomalies: bool = False

    def session(self, cluster: Cluster, token: str) -> NoReturn:  # noqa: ARG002
        """Raise UsageError: the clients were somebody else's."""
        raise UsageError(
            "workload audit: its history was read from servers' logs and cannot be run again; "
            "expected harness audit"
        )

    def generator(self) -> NoReturn:
        """Raise UsageError, as `session` does."""
        raise UsageError("workload audit: has no calls of its own; expected harness audit")

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:  # noqa: ARG002
        """Raise UsageError, as `session` does."""
        return self.generator()

    def checkers(self) -> Sequence[Checker]:
        """Return the checker of audits."""
        return (Audited(),)
