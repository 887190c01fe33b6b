"""Control of a replica's fetches of parts, and a probe table that shows whether it fetches."""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.clusters.parallel import on_each
from harness.clusters.replica import execute, query, query_value
from harness.core.capabilities import CanStopFetches
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint

_DATABASE: Final = "harness_probe"
_TABLE: Final = f"{_DATABASE}.fetches"
_ARRIVE_S: Final = 12.0
"""Time for a part of one row to reach another replica. Normally it takes 0.05 s; after a failed
attempt of the replica's queue 10 s, for which the pool of 18.16.1 sleeps after an error."""
_RETRY_S: Final = 1.0
_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class _Attempts:
    """Attempts to execute one entry of a replication queue."""

    tries: int = 0
    """Number of attempts, including one under way."""
    postponed: int = 0
    executing: int = 0
    ended_cancelled: int = 0
    """True if the last attempt ended because fetches are stopped (18.16.1)."""
    postponed_cancelled: int = 0
    """True if attempts are postponed for that reason (25.8)."""

    def refused_since(self, before: "_Attempts") -> bool:
        """Return whether an attempt that began after `before` was refused."""
        tried = self.tries > before.tries and not self.executing
        return bool(
            (tried and self.ended_cancelled)
            or (self.postponed > before.postponed and self.postponed_cancelled)
        )


class Fetches(CanStopFetches):
    """Fetches of the replicas of one cluster."""

    def __init__(self, replicas: Sequence[str], endpoint: Callable[[str], Endpoint]) -> None:
        self._replicas = tuple(replicas)
        self._endpoint = endpoint
        self.created = False
        """True if the probe table was created during the cluster's life."""

    def create(self) -> None:
        """Create the probe table, which all shards share, on every replica; idempotent."""
        on_each(self._replicas, self._create)
        self.created = True

    def refusal(self, node: str) -> str | None:
        """Return why the probe table accepts no inserts now; None if it does.

        A replica that lost its session may answer, have a new session, and still refuse inserts
        for some seconds. One that found no ZooKeeper server when it started may answer without
        its tables until it is restarted (18.16.1).
        """
        text = (
            "SELECT is_readonly OR is_session_expired FROM system.replicas "
            f"WHERE database = '{_DATABASE}'"
        )
        states = query(self._endpoint(node), text, (int,))
        if not states:
            return f"has come up without {_TABLE}: restart it" if self.created else None
        return "has read-only tables" if states[0][0] else None

    def stop_fetches(self, nodes: Iterable[str]) -> None:
        """Stop the fetches of every table that exists on these nodes.

        A table created later fetches, and so does a server that was restarted: the server keeps the
        state per table and in memory (measured on 18.16.1).
        """
        on_each(nodes, lambda node: execute(self._endpoint(node), "SYSTEM STOP FETCHES"))

    def start_fetches(self, nodes: Iterable[str]) -> None:
        on_each(nodes, lambda node: execute(self._endpoint(node), "SYSTEM START FETCHES"))

    def fetching(self, node: str) -> bool:
        """Return whether a part that is inserted on another replica now reaches this one.

        It is False for a server that does not answer. Raises ClusterError if no other replica
        accepts the probe.
        """
        try:
            before = self._queue(node)
        except ClusterError:
            return False
        deadline = time.monotonic() + _ARRIVE_S
        values: list[int] = []
        while time.monotonic() < deadline:
            # Insert repeatedly, because each new part makes the replica's queue try again.
            values.append(uuid.uuid4().int & ((1 << 63) - 1))
            self._insert(node, values[-1])
            try:
                arrived = self._arrives(node, values, before)
            except ClusterError:
                return False
            if arrived is not None:
                return arrived
        return False

    def _arrives(
        self, node: str, values: Sequence[int], before: Mapping[str, _Attempts]
    ) -> bool | None:
        """Return whether a part arrived; None if neither a part nor a refusal was seen."""
        deadline = time.monotonic() + _RETRY_S
        while time.monotonic() < deadline:
            if self._has(node, values):
                return True
            if self._refuses(node, before):
                # The part may have arrived between the two queries.
                return self._has(node, values)
            time.sleep(_POLL_S)
        return None

    def _create(self, node: str) -> None:
        execute(self._endpoint(node), f"CREATE DATABASE IF NOT EXISTS {_DATABASE}")
        execute(
            self._endpoint(node),
            f"CREATE TABLE IF NOT EXISTS {_TABLE} (value UInt64) ENGINE = "
            f"ReplicatedMergeTree('/{_DATABASE}/fetches', '{node}') "
            "PARTITION BY tuple() ORDER BY value",
            timeout_s=20,
        )

    def _insert(self, node: str, value: int) -> None:
        failures = []
        for other in self._replicas:
            if other == node:
                continue
            try:
                execute(self._endpoint(other), f"INSERT INTO {_TABLE} VALUES", rows=[(value,)])
            except ClusterError as error:
                failures.append(f"{other}: {error}")
                continue
            return
        raise ClusterError(
            f"{node}: cannot ask whether it fetches, no other replica takes a row: "
            + ("; ".join(failures) or "there is no other")
        )

    def _has(self, node: str, values: Sequence[int]) -> bool:
        numbers = ", ".join(f"{value:d}" for value in values)
        text = f"SELECT count() FROM {_TABLE} WHERE value IN ({numbers})"
        return bool(query_value(self._endpoint(node), text, int))

    def _queue(self, node: str) -> dict[str, _Attempts]:
        """Return the attempts at the probe table's queue entries, by the part that each makes."""
        text = (
            "SELECT new_part_name, num_tries, num_postponed, is_currently_executing, "
            "last_exception LIKE '%cancelled%', postpone_reason LIKE '%cancelled%' "
            f"FROM system.replication_queue WHERE database = '{_DATABASE}'"
        )
        rows = query(self._endpoint(node), text, (str, int, int, int, int, int))
        return {row[0]: _Attempts(*row[1:]) for row in rows}

    def _refuses(self, node: str, before: Mapping[str, _Attempts]) -> bool:
        """Return whether a fetch attempted after `before` was refused because fetches are stopped.

        An attempt at any part counts: a replica with older parts to fetch tries those first.
        """
        return any(
            now.refused_since(before.get(part, _Attempts()))
            for part, now in self._queue(node).items()
        )
