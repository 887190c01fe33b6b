"""Queries about the objects of a table: those that exist, and those that parts refer to."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from harness.clients.clickhouse import ClickHouse, DatabaseError
from harness.clusters.bucket import object_path, object_sizes
from harness.core.connections import QueryError, StoreChannel
from harness.core.outcomes import NETWORK

_REQUESTS: Final = "/-/requests"
"""Path at which our own object store returns the requests that concerned a key."""
_LOCKS: Final = "/clickhouse/zero_copy/zero_copy_s3"
"""Nodes of the locks of zero-copy replication: <table>/<part>/<blob>/<replica>."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """Bucket of an object store, read over S3's protocol, without faults in between."""

    channel: StoreChannel

    def sizes(self) -> dict[str, int]:
        """Return the size of every object by its key, see `object_sizes`. Raises DatabaseError."""
        with _as_database_error():
            return object_sizes(self.channel)

    def lacks(self, key: str) -> bool:
        """Return whether an object does not exist. Raises DatabaseError."""
        with _as_database_error():
            status, _ = self.channel.request("HEAD", object_path(self.channel.bucket, key))
        if status not in (200, 404):
            raise DatabaseError(NETWORK, f"the object store answers {status} for {key}")
        return status == 404

    def requests(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the requests that were to write or delete each object, in order: "source",
        "method", "status", "fault" if one applied, and "ago_s"; nothing without keys. Raises
        DatabaseError.

        A user's own object store has no such list; then the result is empty.
        """
        return self._requests(keys) if keys else {}

    def logged(self) -> frozenset[str]:
        """Return the keys that anyone ever asked to write or delete. Raises DatabaseError."""
        return frozenset(self._requests(()))

    def written(self, but: Collection[str]) -> dict[str, int]:
        """Return the number of objects that each node ever wrote, gone or not, without those of
        `but`. Raises DatabaseError."""
        sources = [
            {r["source"] for r in requests if (r["method"], r["status"]) == ("PUT", 200)}
            for key, requests in self._requests(()).items()
            if key not in but
        ]
        return Counter(source for of_key in sources for source in of_key)

    def _requests(self, keys: Sequence[str]) -> dict[str, Any]:
        if not self.channel.logs_requests:
            return {}
        with _as_database_error():
            status, text = self.channel.request("POST", _REQUESTS, json.dumps([*keys]))
        if status != 200:
            raise DatabaseError(NETWORK, f"the object store answers {status} at {_REQUESTS}")
        return dict(json.loads(text))


@contextmanager
def _as_database_error() -> Iterator[None]:
    try:
        yield
    except QueryError as error:
        raise DatabaseError(error.code, error.text) from error


def references(
    connection: ClickHouse, directory: str
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the keys of a table's objects as a replica knows them. Raises DatabaseError.

    By directory of a part, active or not, the keys by file; and the keys of all other files below
    the table's directory, such as detached parts.
    """
    rows = connection.rows(
        "SELECT local_path, remote_path FROM system.remote_data_paths "
        f"WHERE position(local_path, '{directory}/') > 0 ORDER BY local_path, remote_path",
        (str, str),
    )
    parts: dict[str, dict[str, str]] = {}
    others: list[str] = []
    for path, key in rows:
        names = path.partition(f"{directory}/")[2].split("/")
        if len(names) == 2:
            parts.setdefault(names[0], {})[names[1]] = key
        else:
            others.append(key)
    return parts, others


def zero_copy_locks(
    connection: ClickHouse, table_path: str
) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the replicas that hold a lock, by part and blob. Raises DatabaseError."""

    def children(paths: Sequence[str]) -> dict[str, list[str]]:
        if not paths:
            return {}
        listed = ", ".join(f"'{path}'" for path in paths)
        found: dict[str, list[str]] = {path: [] for path in paths}
        for path, name in connection.rows(
            f"SELECT path, name FROM system.zookeeper WHERE path IN ({listed}) ORDER BY path, name",
            (str, str),
        ):
            found.setdefault(path, []).append(name)
        return found

    ids = connection.rows(
        "SELECT value FROM system.zookeeper "
        f"WHERE path = '{table_path}' AND name = 'table_shared_id'",
        (str,),
    )
    if not ids:
        raise DatabaseError(60, f"{table_path} has no table_shared_id")
    base = f"{_LOCKS}/{ids[0][0]}"
    parts = children([base])[base]
    blobs = children([f"{base}/{part}" for part in parts])
    holders = children([f"{path}/{blob}" for path, own in blobs.items() for blob in own])
    return {
        part: {blob: holders[f"{base}/{part}/{blob}"] for blob in blobs[f"{base}/{part}"]}
        for part in parts
    }
