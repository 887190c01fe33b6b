"""Keeping a replica from fetching parts, and a table of our own to see whether it does."""

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from harness.clusters.parallel import on_each
from harness.clusters.replica import Row, query
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint

_DATABASE: Final = "harness_probe"
_TABLE: Final = f"{_DATABASE}.fetches"
_ARRIVE_S: Final = 12.0
"""For a part of one row to reach another replica: 0.05 s where nothing was wrong, 10 s where an
attempt of the replica's queue has just failed (18.16.1's pool sleeps so long after an error)."""
_POLL_S: Final = 0.02


class Fetches:
    """Of one cluster's replicas."""

    def __init__(self, replicas: Sequence[str], endpoint: Callable[[str], Endpoint]) -> None:
        self._replicas = tuple(replicas)
        self._endpoint = endpoint

    def create(self) -> None:
        """Makes the probe's table on every replica; may be called twice. All shards share it."""
        on_each(self._replicas, self._create)

    def read_only(self, node: str) -> bool:
        """Whether the probe's table takes no inserts now. A replica that lost its session may
        answer, have a new session, and go on refusing inserts for some seconds."""
        text = (
            "SELECT count() FROM system.replicas "
            f"WHERE database = '{_DATABASE}' AND (is_readonly OR is_session_expired)"
        )
        return bool(query(self._endpoint(node), text)[0][0])

    def stop(self, nodes: Iterable[str]) -> None:
        """Of every table there is. A table made later fetches, and so does a server that was
        started again: the server keeps the ban per table and in memory (18.16.1, measured)."""
        on_each(nodes, lambda node: query(self._endpoint(node), "SYSTEM STOP FETCHES"))

    def start(self, nodes: Iterable[str]) -> None:
        """May be called twice."""
        on_each(nodes, lambda node: query(self._endpoint(node), "SYSTEM START FETCHES"))

    def fetching(self, node: str) -> bool:
        """Whether a part put on another replica now reaches this one.

        False for a server that does not answer. Raises ClusterError when no other replica takes
        the probe.
        """
        value = uuid.uuid4().int & ((1 << 63) - 1)
        try:
            before = self._refusals(node)
        except ClusterError:
            return False
        self._insert(node, value)
        try:
            return self._arrives(node, value, before)
        except ClusterError:
            return False

    def _arrives(self, node: str, value: int, before: frozenset[Row]) -> bool:
        deadline = time.monotonic() + _ARRIVE_S
        while time.monotonic() < deadline:
            if self._has(node, value):
                return True
            if self._refusals(node) - before:
                # It may have come between the two questions.
                return self._has(node, value)
            time.sleep(_POLL_S)
        return False

    def _create(self, node: str) -> None:
        query(self._endpoint(node), f"CREATE DATABASE IF NOT EXISTS {_DATABASE}")
        query(
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
                query(self._endpoint(other), f"INSERT INTO {_TABLE} VALUES", rows=[(value,)])
            except ClusterError as error:
                failures.append(f"{other}: {error}")
                continue
            return
        raise ClusterError(
            f"{node}: cannot ask whether it fetches, no other replica takes a row: "
            + ("; ".join(failures) or "there is no other")
        )

    def _has(self, node: str, value: int) -> bool:
        text = f"SELECT count() FROM {_TABLE} WHERE value = {value:d}"
        return bool(query(self._endpoint(node), text)[0][0])

    def _refusals(self, node: str) -> frozenset[Row]:
        """The attempts at a fetch that ended because fetches are stopped, each with its number.

        18.16.1 says so in the error of the attempt, newer ones in the reason why they made none.
        Any attempt after the probe will do, not only one at the probe's own part: a replica with
        older parts to fetch tries one of those first, and the next 10 s later.
        """
        text = (
            "SELECT new_part_name, num_tries, num_postponed FROM system.replication_queue "
            f"WHERE database = '{_DATABASE}' AND NOT is_currently_executing AND "
            "(last_exception LIKE '%cancelled%' OR postpone_reason LIKE '%cancelled%')"
        )
        return frozenset(query(self._endpoint(node), text))
