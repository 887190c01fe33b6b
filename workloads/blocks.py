"""Workloads of quorum inserts in which every value is known by its part: one row is one block, and
blocks are never merged. They differ in their mix of calls and their checkers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from checkers.ladder import Level
from checkers.look import encode
from checkers.quorum.quorum_parts import FINAL, OBSERVE, PartsOfValues
from checkers.replication.agreed import TRANSACTIONS
from harness.clients.clickhouse import ClickHouse
from harness.clients.insert_modes import InsertMode, mechanisms_of, modes_of
from harness.clients.replicated_table import TableSchema
from harness.clients.set_calls import COLUMNS, SEQUENTIAL, inserts, quorum, reads
from harness.clients.table_session import TableSession
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Call, Op, Value
from harness.core.protocols import Checker, Cluster, Generator, Session, Workload
from harness.core.ranges import AUTO, Quorum, majority, quoted, validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.choose import mix
from harness.generators.order import phases
from workloads.options import PacedOptions
from workloads.table import TableWorkload, look_once
from workloads.transactions import look_at_transactions, transactions
from workloads.zookeeper_looks import parts_of_replicas, quorum_state

SCHEMA = TableSchema(COLUMNS, settings={"max_bytes_to_merge_at_max_space_in_pool": 1})
"""Schema of a table in which nothing merges."""
SEQUENTIAL_READS = (
    "what is judged are sequentially consistent reads, which do not work with parallel quorum "
    "inserts"
)
"""Reason why the inserts of some workloads cannot be parallel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOptions(PacedOptions):
    """Options of workloads of blocks: how inserts are acknowledged, and how fast they come."""

    quorum_least: ClassVar[int] = 2
    serial_only: ClassVar[str] = ""
    """Reason why inserts cannot be parallel; "" if they can."""

    insert: str = "quorum"
    """"quorum", or "parallel": quorum inserts that do not wait for each other."""
    quorum: Quorum = 2
    """Number of replicas that must have a part before its insert is acknowledged; 1: no quorum;
    "auto": a majority."""
    quorum_timeout_ms: int = 3000
    """Time after which an insert without a quorum ends as info, in milliseconds."""
    values_per_key: int = 400
    """Number of values that are inserted into one key, which is a partition."""
    ops_per_s: float = 60.0

    def validate(self, topology: Topology) -> None:
        """Raise UsageError for options that are out of range or do not fit the topology."""
        validate_numbers(self)
        least, replicas = self.quorum_least, len(topology.shards[0])
        if not least <= (majority(replicas) if self.quorum == AUTO else self.quorum) <= replicas:
            raise UsageError(f"--quorum {self.quorum}: expected {least} to {replicas}")
        if self.insert not in (InsertMode.QUORUM, InsertMode.PARALLEL):
            raise UsageError(f"--insert {quoted(self.insert)}: expected one of quorum parallel")
        if self.parallel and self.serial_only:
            raise UsageError(f"--insert {self.insert}: {self.serial_only}; expected quorum")

    @property
    def parallel(self) -> bool:
        """Return whether several quorum inserts may be in flight."""
        return self.insert == InsertMode.PARALLEL

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return mechanisms_of(modes_of(self.insert), self.quorum)


def blocks(
    name: str,
    options: BlockOptions,
    seed: Seed,
    promise: Level,
    judges: Sequence[Checker],
    *,
    shares: Mapping[str, int],
    looks_per_s: float,
    patience: Sequence[int] = (1,),
) -> Workload:
    """Return a workload of quorum inserts whose blocks are never merged.

    `shares` is the mix of the calls: "insert"; "read", sequentially consistent; "where", which
    lists the part of each value. Worker 0 looks at ZooKeeper `looks_per_s` times a second. Inserts
    take the `patience`, multiples of the quorum timeout, in turn.
    """
    per_key, per_turn = options.values_per_key, shares["insert"]

    def create(cluster: Cluster, token: str) -> Session:
        settings = [
            quorum(options.quorum, n * options.quorum_timeout_ms, parallel=options.parallel)
            for n in patience
        ]
        table = TableSession.table(cluster, token, SCHEMA)

        def where(connection: ClickHouse, op: Op) -> Value:
            sql = f"SELECT value, _part FROM {table.name} WHERE key = {op.key:d}"
            rows = connection.rows(f"{sql} ORDER BY value, _part", (int, str))
            return encode(PartsOfValues([(int(value), part) for value, part in rows]))

        return TableSession(
            cluster,
            table,
            writes={"insert": inserts(table.name, *settings)},
            reads={
                "read": reads(table.name, SEQUENTIAL),
                "final-read": reads(table.name),
                "where": where,
                "final-where": where,
            },
            timeout_s=options.timeout_s,
            looks={
                OBSERVE: quorum_state,
                FINAL: parts_of_replicas,
                TRANSACTIONS: transactions(cluster),
            },
        )

    def call(f: str, share: int) -> Generator:
        """Return inserts, or calls on the key that was inserted into lately."""
        if f == "insert":
            return numbered(lambda n: Call(f=f, value=n, key=n // per_key))
        return numbered(lambda n: Call(f=f, key=n * per_turn // share // per_key))

    parts = [(share, call(f, share)) for f, share in shares.items()]
    return TableWorkload(
        name=name,
        seed=seed,
        promise=promise,
        create=create,
        calls=mix(seed.child("calls"), parts),
        per_s=options.ops_per_s,
        observer=(OBSERVE, looks_per_s),
        look=lambda nodes: phases(look_once(FINAL)(nodes), look_at_transactions(nodes)),
        final_reads=("final-read", "final-where"),
        judges=judges,
    )
