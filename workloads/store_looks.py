"""Looks at what the replicas of a table refer to, and at what their object store has."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from checkers.look import encode
from checkers.replication.objects import ReferredObjects, Requests, StoredObjects
from harness.clients.clickhouse import ClickHouse, DatabaseError, connect
from harness.clients.object_store import ObjectStore, references, zero_copy_locks
from harness.clients.replicated_table import ReplicatedTable, data_directory
from harness.core.errors import ClusterError
from harness.core.op import Op, Value
from harness.core.protocols import Cluster

_REMOVED_NS = 3_000_000_000
"""Time at rest after which the objects of removed parts are gone."""


class StoreLooks:
    """Looks of one workload's clients."""

    def __init__(
        self, cluster: Cluster, table: ReplicatedTable, *, timeout_s: float, zero_copy: bool
    ) -> None:
        """Note which objects there are from earlier runs. Raises ClusterError."""
        self._cluster = cluster
        self._table = table
        self._zero_copy = zero_copy
        if not cluster.topology.has_store:
            raise ClusterError("this cluster has no object store")
        self._store = ObjectStore(cluster.store_channel(timeout_s))
        try:
            self._before = frozenset(self._store.sizes())
            self._logged = self._store.logged()
        except DatabaseError as error:
            raise ClusterError(f"the bucket cannot be listed: {error}") from error

    def running(self, connection: ClickHouse, op: Op) -> Value:
        """Return the missing objects of parts that were active before and after the listing."""
        return encode(replace(self._referred(connection, op), parts=UNSET, held=UNSET))

    def final(self, connection: ClickHouse, op: Op) -> Value:
        """Return also every reference of the replica."""
        return encode(self._referred(connection, op))

    def _referred(self, connection: ClickHouse, op: Op) -> ReferredObjects:
        database = self._table.database
        dialect = self._cluster.engines.on(str(op.node))
        before = self._parts(connection)
        parts, held = references(connection, data_directory(connection, dialect, database, "t"))
        sizes = self._store.sizes()
        lacking = {
            part: [key for key in files.values() if key not in sizes and self._store.lacks(key)]
            for part, files in parts.items()
            if part in before
        }
        active = before & self._parts(connection)
        own = {part: files for part, files in parts.items() if part in active}
        others = [key for part, files in parts.items() if part not in own for key in files.values()]
        missing = {part: keys for part, keys in lacking.items() if keys and part in active}
        return ReferredObjects(
            own,
            [*held, *others],
            sum(map(len, own.values())),
            missing,
            self._requests([key for keys in missing.values() for key in keys]),
        )

    def store(self, connection: ClickHouse, op: Op) -> Value:  # noqa: ARG002
        """Return the objects that stay, with their sizes and requests, the locks, and who wrote."""
        first = self._store.sizes()
        clock = self._cluster.runtime.clock()
        clock.sleep_until(clock.now_ns() + _REMOVED_NS)
        locks = zero_copy_locks(connection, self._table.path) if self._zero_copy else {}
        kept = {
            key: size
            for key, size in self._store.sizes().items()
            if key in first and key not in self._before
        }
        written = {**self._store.written(self._logged)}
        return encode(StoredObjects(kept, locks, self._requests([*kept]), written))

    def _requests(self, keys: Sequence[str]) -> Requests:
        return msgspec.convert(self._store.requests(keys), Requests)

    def pending(self) -> Sequence[str]:
        """Return why parts of the table will still change, a reason each."""
        reasons = [*self._table.unfinished_mutations()]
        for node in self._table.replicas:
            connection = connect(self._cluster, node)
            try:
                (old,) = connection.row(
                    "SELECT count() FROM system.parts "
                    f"WHERE NOT active AND database = '{self._table.database}'",
                    (int,),
                )
            except DatabaseError as error:
                reasons.append(f"{node} does not answer: {error.text}")
            else:
                reasons += [f"{node} has {old} old parts to remove"] if old else []
            finally:
                connection.close()
        return reasons

    def _parts(self, connection: ClickHouse) -> frozenset[str]:
        rows = connection.rows(
            f"SELECT name FROM system.parts WHERE active AND database = '{self._table.database}'",
            (str,),
        )
        return frozenset(name for (name,) in rows)
