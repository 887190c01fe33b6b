"""Keeping a replica from fetching parts, and a table of our own to see whether it does."""

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from harness.clusters.parallel import on_each
from harness.clusters.replica import query
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint

_DATABASE: Final = "harness_probe"
_TABLE: Final = f"{_DATABASE}.fetches"
_ARRIVE_S: Final = 5.0
"""For a part of one row to reach another replica; typically 0.05 s."""
_POLL_S: Final = 0.02


class Fetches:
    """Of one cluster's replicas."""

    def __init__(self, replicas: Sequence[str], endpoint: Callable[[str], Endpoint]) -> None:
        self._replicas = tuple(replicas)
        self._endpoint = endpoint

    def create(self) -> None:
        """Makes the probe's table on every replica; may be called twice. All shards share it."""
        on_each(self._replicas, self._create)

    def stop(self, nodes: Iterable[str]) -> None:
        """Of every table there is. A table made later fetches, and so does a server that was
        started again: the server keeps the ban per table and in memory (18.16.1, measured)."""
        on_each(nodes, lambda node: query(self._endpoint(node), "SYSTEM STOP FETCHES"))

    def start(self, nodes: Iterable[str]) -> None:
        """May be called twice."""
        on_each(nodes, lambda node: query(self._endpoint(node), "SYSTEM START FETCHES"))

    def fetching(self, node: str) -> bool:
        """Whether a part put on another replica now reaches this one.

        Raises ClusterError when no other replica takes the probe.
        """
        value = uuid.uuid4().int & ((1 << 63) - 1)
        source = self._insert(node, value)
        part = str(self._select(source, f"SELECT _part FROM {_TABLE} WHERE value = {value:d}"))
        deadline = time.monotonic() + _ARRIVE_S
        while time.monotonic() < deadline:
            try:
                if self._has(node, value):
                    return True
                if self._refuses(node, part):
                    # It may have come between the two questions.
                    return self._has(node, value)
            except ClusterError:
                return False
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

    def _insert(self, node: str, value: int) -> str:
        """On the first other replica that takes it, which is returned."""
        failures = []
        for other in self._replicas:
            if other == node:
                continue
            try:
                query(self._endpoint(other), f"INSERT INTO {_TABLE} VALUES", rows=[(value,)])
            except ClusterError as error:
                failures.append(f"{other}: {error}")
                continue
            return other
        raise ClusterError(
            f"{node}: cannot ask whether it fetches, no other replica takes a row: "
            + ("; ".join(failures) or "there is no other")
        )

    def _has(self, node: str, value: int) -> bool:
        return bool(self._select(node, f"SELECT count() FROM {_TABLE} WHERE value = {value:d}"))

    def _refuses(self, node: str, part: str) -> bool:
        """Whether the server itself says that it does not fetch this part because fetches are
        stopped: in 18.16.1 as the error of its attempt (236), in newer ones as the reason why it
        made none."""
        return bool(
            self._select(
                node,
                f"SELECT count() FROM system.replication_queue WHERE database = '{_DATABASE}' "
                f"AND new_part_name = '{part}' AND "
                "(last_exception LIKE '%cancelled%' OR postpone_reason LIKE '%cancelled%')",
            )
        )

    def _select(self, node: str, text: str) -> object:
        """The first value of the first row."""
        return query(self._endpoint(node), text)[0][0]
