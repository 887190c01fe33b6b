"""Tables on an object store that replicas share, with zero-copy replication, or do not share.

Inserts, OPTIMIZE, mutations and DROP PARTITION make and remove parts all the time; old parts go
after a second. With zero copy the replicas refer to the same objects, and locks in ZooKeeper decide
who removes them. Without it, which is the control experiment, each replica has its own objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from checkers.ladder import Level
from checkers.replication.objects import (
    DROP,
    FINAL_LOOK,
    FINAL_READ,
    FINAL_STORE,
    LOOK,
    Objects,
)
from checkers.replication.parts import Parts
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse, DatabaseError
from harness.clients.connect import connect
from harness.clients.object_store import ObjectStore, references, zero_copy_locks
from harness.clients.replicated_table import ReplicatedTable, TableSchema, data_directory
from harness.clients.table_session import TableSession
from harness.core.dialect import Mechanism
from harness.core.errors import ClusterError, UsageError
from harness.core.op import Call, Json, Op, Value
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.ranges import validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from harness.generators.order import final_reads_on, phases
from harness.generators.timing import rate
from workloads.options import PacedOptions

SCHEMA = TableSchema(
    columns="key Int64, value Int64, payload String",
    partition_by="key",
    order_by="value",
    settings={
        "storage_policy": "s3",
        "old_parts_lifetime": 1,
        "cleanup_delay_period": 1,
        "cleanup_delay_period_random_add": 0,
        # No part is merged without a request, so the parts at rest stay as they are.
        "max_bytes_to_merge_at_max_space_in_pool": 1,
    },
)
_REMOVED_NS = 3_000_000_000
"""Time at rest after which the objects of removed parts are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroCopyOptions(PacedOptions):
    """Options of the workload."""

    zero_copy: bool = True
    """Share objects between replicas; if false, each replica has its own."""
    values_per_key: int = 8
    """Number of values of a key, which is a partition; then a fresh key is taken."""
    ops_per_s: float = 8.0
    timeout_s: float = 15.0

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have, also for the control."""
        return (Mechanism.ZERO_COPY,)

    def validate(self, topology: Topology) -> None:
        """Raise UsageError for options that do not fit the topology."""
        validate_numbers(self)
        if not topology.stores:
            raise UsageError(
                "workload zero-copy: this cluster has no object store; expected a cluster that was "
                "brought up for this workload"
            )
        if len(topology.shards) > 1:
            raise UsageError(f"--shards {len(topology.shards)}: expected 1")


@dataclass(frozen=True, slots=True)
class ZeroCopy:
    """Workload of a table on an object store."""

    options: ZeroCopyOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="zero-copy", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Create the table and return the session."""
        zero_copy = {"allow_remote_fs_zero_copy_replication": int(self.options.zero_copy)}
        settings = {**SCHEMA.settings, **zero_copy}
        store = ObjectStore(
            cluster.endpoint(cluster.topology.stores[0]), timeout_s=self.options.timeout_s
        )
        try:
            before = frozenset(store.sizes())
        except DatabaseError as error:
            raise ClusterError(f"the bucket cannot be listed: {error}") from error
        table = TableSession.table(cluster, token, replace(SCHEMA, settings=settings))
        try:
            looks = _Looks(cluster, table, store, before, zero_copy=self.options.zero_copy)
        except DatabaseError as error:
            table.close()
            raise ClusterError(f"the table's directory is unknown: {error}") from error

        def insert(connection: ClickHouse, op: Op) -> Value:
            connection.insert(table.name, [(op.key, op.value, f"payload {op.value}")])
            return op.value

        def change(connection: ClickHouse, op: Op) -> Value:
            statements = {
                "merge": f"OPTIMIZE TABLE {table.name} PARTITION {op.key:d} FINAL",
                "mutate": f"ALTER TABLE {table.name} UPDATE payload = concat(payload, '.') "
                f"IN PARTITION {op.key:d} WHERE 1",
                DROP: f"ALTER TABLE {table.name} DROP PARTITION {op.key:d}",
            }
            connection.command(statements[op.f], {"replication_alter_partitions_sync": 0})
            return None

        def read(connection: ClickHouse, op: Op) -> Value:
            # The hash needs every column.
            rows = connection.rows(
                f"SELECT value, cityHash64(*) FROM {table.name} WHERE key = {op.key:d}"
            )
            return tuple(int(value) for value, _ in rows)

        return TableSession(
            cluster,
            table,
            writes={"insert": insert, "merge": change, "mutate": change, DROP: change},
            reads={
                "read": read,
                FINAL_READ: read,
                LOOK: looks.running,
                FINAL_LOOK: looks.final,
                FINAL_STORE: looks.store,
            },
            timeout_s=self.options.timeout_s,
            more_pending=looks.pending,
        )

    def generator(self) -> Generator:
        """Return inserts, reads and looks; merges and mutations of what was inserted lately; and
        drops of the odd keys, some time after their last insert."""
        per_key, inserts = self.options.values_per_key, 20

        def of_key(f: str, share: float, behind: int = 0) -> tuple[float, Generator]:
            made = numbered(
                lambda n: Call(f=f, key=max(0, int(n * inserts / share) // per_key - behind))
            )
            return share, made

        drops = inserts / (2 * per_key)
        calls = mix(
            self.seed.child("calls"),
            [
                (inserts, numbered(lambda n: Call(f="insert", value=n, key=n // per_key))),
                of_key("merge", 2.0),
                of_key("mutate", 0.5),
                (drops, numbered(lambda n: Call(f=DROP, key=max(1, 2 * n - 3)))),
                of_key("read", 6.0, behind=1),
                (4, repeat(Call(f=LOOK))),
            ],
        )
        return rate(calls, self.options.ops_per_s, self.seed.child("rate"))

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Return reads of each key and a look at each replica, then a look at the store."""
        calls = [*(Call(f=FINAL_READ, key=key) for key in keys), Call(f=FINAL_LOOK)]
        return phases(
            final_reads_on(calls, nodes), final_reads_on([Call(f=FINAL_STORE)], nodes[:1])
        )

    def checkers(self) -> Sequence[Checker]:
        """Return the checkers of rows, parts and objects."""
        least = {"insert": 10, "merge": 1, LOOK: 3}
        return (
            Stats(min_ok=least, faults_expected=self.faults_expected),
            Parts(),
            Objects(zero_copy=self.options.zero_copy),
        )


class _Looks:
    """Looks at replicas and at the store. `before` are the keys of earlier runs."""

    def __init__(
        self,
        cluster: Cluster,
        table: ReplicatedTable,
        store: ObjectStore,
        before: frozenset[str],
        *,
        zero_copy: bool,
    ) -> None:
        self._cluster = cluster
        self._table = table
        self._store = store
        self._before = before
        self._zero_copy = zero_copy
        self._directories: dict[str, str] = {}
        for node in table.replicas:
            connection = connect(cluster, node)
            dialect = cluster.engines.on(node)
            self._directories[node] = data_directory(connection, dialect, table.database, "t")
            connection.close()

    def running(self, connection: ClickHouse, op: Op) -> Value:
        """Return the missing objects of parts that were active before and after the listing."""
        found = self.final(connection, op)
        return {name: found[name] for name in ("references", "missing")}

    def final(self, connection: ClickHouse, op: Op) -> dict[str, Json]:
        """Return also every reference of the replica."""
        before = self._parts(connection)
        parts, held = references(connection, self._directories[str(op.node)])
        sizes = self._store.sizes()
        lacking = {
            part: [key for key in files.values() if key not in sizes and self._store.lacks(key)]
            for part, files in parts.items()
            if part in before
        }
        active = before & self._parts(connection)
        own = {part: files for part, files in parts.items() if part in active}
        others = [key for part, files in parts.items() if part not in own for key in files.values()]
        return {
            "parts": {**own},
            "held": [*held, *others],
            "references": sum(map(len, own.values())),
            "missing": {part: keys for part, keys in lacking.items() if keys and part in active},
        }

    def store(self, connection: ClickHouse, op: Op) -> Value:  # noqa: ARG002
        """Return the objects that stay, with their sizes, and the locks."""
        first = self._store.sizes()
        clock = self._cluster.runtime.clock()
        clock.sleep_until(clock.now_ns() + _REMOVED_NS)
        locks = zero_copy_locks(connection, self._table.path) if self._zero_copy else {}
        kept = {
            key: size
            for key, size in self._store.sizes().items()
            if key in first and key not in self._before
        }
        return {"objects": kept, "locks": {**locks}}

    def pending(self) -> Sequence[str]:
        """Return why parts of the table will still change, a reason each."""
        reasons = [*self._table.unfinished_mutations()]
        for node in self._table.replicas:
            connection = connect(self._cluster, node)
            try:
                old = connection.rows(
                    "SELECT count() FROM system.parts "
                    f"WHERE NOT active AND database = '{self._table.database}'"
                )[0][0]
            except DatabaseError as error:
                reasons.append(f"{node} does not answer: {error.text}")
            else:
                reasons += [f"{node} has {old} old parts to remove"] if old else []
            finally:
                connection.close()
        return reasons

    def _parts(self, connection: ClickHouse) -> frozenset[str]:
        rows = connection.rows(
            f"SELECT name FROM system.parts WHERE active AND database = '{self._table.database}'"
        )
        return frozenset(str(name) for (name,) in rows)
