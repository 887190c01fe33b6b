"""Tables on an object store that replicas share, with zero-copy replication, or do not share.

Inserts, OPTIMIZE, mutations and DROP PARTITION make and remove parts all the time; old parts go
after a second. With zero copy the replicas refer to the same objects, and locks in ZooKeeper decide
who removes them. Without it, which is the control experiment, each replica has its own objects.
With `detach` partitions are detached and attached again. With `rebuild` replicas are dropped and
created again, and with `drop_replica` another replica drops them first. With `move` new parts are
on a local disk, and replicas move partitions to the store and back.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from checkers.ladder import Level
from checkers.replication.objects import (
    DROP,
    FINAL_LOOK,
    FINAL_READ,
    FINAL_STORE,
    LOOK,
    REATTACH,
    REBUILD,
    Objects,
)
from checkers.replication.parts import Parts
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse, DatabaseError, QuerySettings, connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clients.table_session import TableSession
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Call, Op, Value
from harness.core.protocols import Cluster, Generator, Session, Workload
from harness.core.ranges import validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import at_most_in_flight, numbered, repeat
from harness.generators.choose import mix
from workloads.options import PacedOptions
from workloads.store_looks import StoreLooks
from workloads.table import TableWorkload, look_once

SCHEMA = TableSchema(
    columns="key Int64, value Int64, payload String",
    partition_by="key",
    order_by="value",
    settings={
        "old_parts_lifetime": 1,
        "cleanup_delay_period": 1,
        "cleanup_delay_period_random_add": 0,
        # No part is merged without a request, so the parts at rest stay as they are.
        "max_bytes_to_merge_at_max_space_in_pool": 1,
    },
)
RESTORE: Final = "restore"
_DETACHED_NS: Final = 500_000_000
"""Time for which a partition stays detached."""
_BETWEEN_NS: Final = 2_000_000_000
"""Time from one rebuild to the next."""
_REBUILD_S: Final = 60.0
"""Time limit of each statement of a rebuild, which waits for fetches and removes every part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroCopyOptions(PacedOptions):
    """Options of the workload."""

    zero_copy: bool = True
    """Share objects between replicas; if false, each replica has its own."""
    detach: bool = False
    """Detach and attach partitions. With zero copy, servers refuse that by default."""
    move: bool = False
    """Insert into a local volume, and move partitions between it and the object store."""
    rebuild: bool = False
    """Drop the table on a replica and create it there again."""
    drop_replica: bool = False
    """Detach the table on a replica, drop this replica on another one, and create it again. On 24.8
    and 25.8 no such call ends with zero copy if the replica has parts, see the scenario
    dropped-replica."""
    values_per_key: int = 5
    """Number of values of a key, which is a partition; then a fresh key is taken."""
    ops_per_s: float = 8.0
    timeout_s: float = 15.0

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have, also for the control."""
        return (Mechanism.ZERO_COPY,)

    @property
    def unsimulated(self) -> str:
        """Option that simulated servers do not understand; "" if there is none."""
        chosen = {"rebuild": self.rebuild, "drop-replica": self.drop_replica}
        return next((f"-o {name}=true" for name, on in chosen.items() if on), "")

    @property
    def min_ok(self) -> Mapping[str, int]:
        """Number of acknowledged calls that a verdict needs, by f."""
        chosen = {REATTACH: self.detach, REBUILD: self.rebuild or self.drop_replica}
        asked = {**chosen, "move": self.move}
        return {"insert": 10, "merge": 1, LOOK: 3, **{f: 1 for f, on in asked.items() if on}}

    @property
    def table_settings(self) -> Mapping[str, int | str]:
        """Return the settings of the table."""
        return {
            **SCHEMA.settings,
            "storage_policy": "hybrid" if self.move else "s3",
            "allow_remote_fs_zero_copy_replication": int(self.zero_copy),
            "disable_detach_partition_for_zero_copy_replication": int(not self.detach),
        }

    def validate(self, topology: Topology) -> None:
        """Raise UsageError for options that do not fit the topology."""
        validate_numbers(self)
        if not topology.has_store:
            raise UsageError(
                "workload zero-copy: this cluster has no object store; expected a cluster that was "
                "brought up for this workload"
            )
        if len(topology.shards) > 1:
            raise UsageError(f"--shards {len(topology.shards)}: expected 1")
        if self.detach and (self.rebuild or self.drop_replica):
            name = "rebuild" if self.rebuild else "drop-replica"
            raise UsageError(
                f"-o {name}=true: a replica that is dropped loses what -o detach=true has detached "
                "there; expected one of the two"
            )


def zero_copy(
    options: ZeroCopyOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload."""

    def create(cluster: Cluster, token: str) -> Session:
        table = TableSession.table(cluster, token, replace(SCHEMA, settings=options.table_settings))
        looks = StoreLooks(cluster, table, timeout_s=options.timeout_s, zero_copy=options.zero_copy)
        calls = PartitionCalls(cluster, table)
        rebuilds = REBUILD in options.min_ok
        changes = ("merge", "mutate", "move", DROP)
        return TableSession(
            cluster,
            table,
            writes={
                "insert": calls.insert,
                REATTACH: calls.reattach,
                REBUILD: calls.rebuild,
                RESTORE: calls.restore,
                **dict.fromkeys(changes, calls.change),
            },
            reads={
                "read": calls.read,
                FINAL_READ: calls.read,
                LOOK: looks.running,
                FINAL_LOOK: looks.final,
                FINAL_STORE: looks.store,
            },
            timeout_s=options.timeout_s,
            more_pending=lambda: (
                *(calls.unfinished_rebuilds() if rebuilds else ()),
                *looks.pending(),
            ),
        )

    return TableWorkload(
        name="zero-copy",
        seed=seed,
        promise=promise,
        create=create,
        calls=_mix(options, seed),
        beside=_rebuilds(options, seed),
        per_s=options.ops_per_s,
        look=look_once(FINAL_STORE),
        final_once=(FINAL_LOOK,),
        judges=(
            Stats(min_ok=options.min_ok, faults_expected=faults_expected),
            Parts(),
            Objects(zero_copy=options.zero_copy),
        ),
    )


def _rebuilds(options: ZeroCopyOptions, seed: Seed) -> Generator | None:
    """Return rebuilds, one at a time: two at once would drop both copies of a row."""
    chosen = [Call(f=REBUILD)] if options.rebuild else []
    chosen += [Call(f=REBUILD, value={"by": "another"})] if options.drop_replica else []
    if not chosen:
        return None
    return at_most_in_flight(
        lambda n: chosen[n % len(chosen)],
        most=1,
        pause_ns=_BETWEEN_NS,
        seed=seed.child("rebuilds"),
        first_ns=_BETWEEN_NS,
    )


def _mix(options: ZeroCopyOptions, seed: Seed) -> Generator:
    """Return inserts, reads and looks; merges and mutations of what was inserted lately; and, some
    time after a key's last insert, drops of the odd keys, moves of the even ones, and DETACH with
    ATTACH of every second even one."""
    per_key, inserts = options.values_per_key, 20

    def lately(n: int, share: float, behind: int = 0) -> int:
        return max(0, int(n * inserts / share) // per_key - behind)

    def move(n: int) -> Call:
        # Two calls for each even key, at about the same time. Of four pairs the last moves back
        # what the one before has moved.
        pair = n // 2
        back = pair % 4 == 3
        to = "local" if back else "remote"
        return Call(f="move", key=max(0, 2 * (pair - 1 - back)), value={"to": to})

    calls = [
        (inserts, numbered(lambda n: Call(f="insert", value=n, key=n // per_key))),
        (2, numbered(lambda n: Call(f="merge", key=lately(n, 2)))),
        (0.5, numbered(lambda n: Call(f="mutate", key=lately(n, 0.5)))),
        (inserts / (2 * per_key), numbered(lambda n: Call(f=DROP, key=max(1, 2 * n - 3)))),
        (6, numbered(lambda n: Call(f="read", key=lately(n, 6, behind=1)))),
        (4, repeat(Call(f=LOOK))),
    ]
    if options.detach:
        reattaches = numbered(lambda n: Call(f=REATTACH, key=max(0, 4 * n - 2)))
        calls.append((inserts / (4 * per_key), reattaches))
    if options.move:
        calls.append((2 * inserts / (2 * per_key), numbered(move)))
    return mix(seed.child("calls"), calls)


class PartitionCalls:
    """Calls of the clients on one table."""

    def __init__(self, cluster: Cluster, table: ReplicatedTable) -> None:
        self._cluster = cluster
        self._replicated = table
        self._table = table.name

    def insert(self, connection: ClickHouse, op: Op) -> Value:
        """Insert one row."""
        connection.insert(self._table, [(op.key, op.value, f"payload {op.value}")])
        return op.value

    def read(self, connection: ClickHouse, op: Op) -> Value:
        """Return the values of a key; the hash needs every column."""
        rows = connection.rows(
            f"SELECT value, cityHash64(*) FROM {self._table} WHERE key = {op.key:d}", (int, int)
        )
        return tuple(value for value, _ in rows)

    def change(self, connection: ClickHouse, op: Op) -> Value:
        """Change a partition, without waiting for other replicas."""
        to = op.value["to"] if isinstance(op.value, dict) else ""
        statements = {
            "merge": f"OPTIMIZE TABLE {self._table} PARTITION {op.key:d} FINAL",
            "mutate": f"ALTER TABLE {self._table} UPDATE payload = concat(payload, '.') "
            f"IN PARTITION {op.key:d} WHERE 1",
            "move": f"ALTER TABLE {self._table} MOVE PARTITION {op.key:d} TO VOLUME '{to}'",
            DROP: f"ALTER TABLE {self._table} DROP PARTITION {op.key:d}",
        }
        connection.command(statements[op.f], {"replication_alter_partitions_sync": 0})
        return op.value

    def reattach(self, connection: ClickHouse, op: Op) -> Value:
        """Detach a partition on every replica, attach it again from this one's copy, and return the
        values that it had."""
        held = self.read(connection, op)
        everywhere: QuerySettings = {"replication_alter_partitions_sync": 2}
        connection.command(f"ALTER TABLE {self._table} DETACH PARTITION {op.key:d}", everywhere)
        clock = self._cluster.runtime.clock()
        clock.sleep_until(clock.now_ns() + _DETACHED_NS)
        connection.command(f"ALTER TABLE {self._table} ATTACH PARTITION {op.key:d}", everywhere)
        return held

    def rebuild(self, _: ClickHouse, op: Op) -> Value:
        """Drop the table on a replica, after the others have fetched what it has, and create it
        there again. If the op says so, another replica drops the replica while it is away."""
        node = str(op.node)
        others = [other for other in self._replicated.replicas if other != node]
        with self._connected(node) as connection:
            for other in others:
                # Its fetches suffice; its merges and mutations may take much longer.
                self._elsewhere(other, f"SYSTEM SYNC REPLICA {self._table} LIGHTWEIGHT")
            if op.value is not None:
                self._drop_replica(connection, node, by=others[0])
            self._drop_and_create(connection, node)
        return op.value

    def restore(self, _: ClickHouse, op: Op) -> Value:
        """Have another replica drop a replica, and restore it from the parts that it has."""
        node = str(op.node)
        by = next(other for other in self._replicated.replicas if other != node)
        with self._connected(node) as connection:
            self._drop_replica(connection, node, by=by)
            connection.command(f"SYSTEM RESTORE REPLICA {self._table}")
        return op.value

    def unfinished_rebuilds(self) -> Sequence[str]:
        """Finish the rebuilds that faults have interrupted, as an operator would; return what was
        done, and what failed, a sentence each."""
        said: list[str] = []
        for node in self._replicated.replicas:
            try:
                with self._connected(node) as connection:
                    said += self._finish(connection, node)
            except DatabaseError as error:
                said.append(f"{node} cannot be rebuilt: {error.text}")
        return said

    def _finish(self, connection: ClickHouse, node: str) -> Sequence[str]:
        database = self._replicated.database
        made = connection.numbers(
            f"SELECT is_readonly FROM system.replicas WHERE database = '{database}'"
        )
        if not made:
            self._replicated.create_on(connection, node)
            return [f"{node} has its table again"]
        (known,) = connection.row(
            f"SELECT count() FROM system.zookeeper WHERE path = '{self._replicated.path}/replicas' "
            f"AND name = '{node}'",
            (int,),
        )
        if not made[0] or known:
            return []
        # Another replica has dropped it.
        self._drop_and_create(connection, node)
        return [f"{node} has a new table"]

    def _drop_replica(self, connection: ClickHouse, node: str, *, by: str) -> None:
        """Detach the table on a replica, which another one drops meanwhile, and attach it."""
        connection.command(f"DETACH TABLE {self._table} SYNC")
        try:
            self._elsewhere(by, f"SYSTEM DROP REPLICA '{node}' FROM TABLE {self._table}")
        finally:
            connection.command(f"ATTACH TABLE {self._table}")

    def _drop_and_create(self, connection: ClickHouse, node: str) -> None:
        # A rebuild that a fault interrupted may have left no table.
        connection.command(f"DROP TABLE IF EXISTS {self._table} SYNC")
        self._replicated.create_on(connection, node)

    def _elsewhere(self, node: str, statement: str) -> None:
        with self._connected(node) as connection:
            connection.command(statement)

    def _connected(self, node: str) -> closing[ClickHouse]:
        return closing(connect(self._cluster, node, timeout_s=_REBUILD_S))
