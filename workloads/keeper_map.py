"""KeeperMap tables: rows that are nodes in ZooKeeper, which every server writes and reads.

The manual promises "linearizable writes and sequentially consistent reads"
(docs/en/engines/table-engines/special/keepermap.md), and with `keeper_map_strict_mode` an INSERT
that refuses a key that exists, and an UPDATE or DELETE that succeeds "only if it's executed
atomically". A statement that is refused so did nothing, as a user understands it.

A server that loses its connection to ZooKeeper repeats the request of a statement, 20 times by
default, and does not look whether the first one was executed (coordinated-cut-response): an INSERT
may be applied twice, a strict statement refused because of itself, and a strict DELETE may remove
the row that another client has inserted meanwhile, whose version is 0 again. `-o retries=0` turns
that off.

A shape is what is done to the rows: SHAPES has its calls, its client and its checkers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.consistency.objects import ACQUIRE, RELEASE, RowObject
from checkers.ladder import Level
from checkers.suite import mutex_checkers, register_checkers, set_checkers
from harness.clients.clickhouse import ClickHouse, QuerySettings
from harness.clients.coordinated_session import CoordinatedSession
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Call
from harness.core.protocols import Checker, Cluster, Generator, Session, Workload
from harness.core.ranges import unknown_name, validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from workloads.keeper_map_clients import MapClient, MutexClient, RowClient, SetClient
from workloads.keyed_calls import calls_on_keys, register_call
from workloads.options import PacedOptions
from workloads.table import TableWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperMapOptions(PacedOptions):
    """Options of `keeper-map`: what is done to the rows."""

    shape: str = "register"
    """"register": a row for each key, which INSERTs overwrite; "cas": the same, and UPDATEs of an
    expected value; "set": rows that strict INSERTs add; "mutex": a row that a strict INSERT makes
    and a strict DELETE removes."""
    strict: bool = True
    """Whether the statements of "cas", "set" and "mutex" are sent with keeper_map_strict_mode."""
    retries: int = 20
    """Number of times that a server repeats a request to ZooKeeper after it lost the connection,
    which is 20 by default."""
    keys: int = 3
    """Number of keys in use at a time."""
    ops_per_key: int = 60
    """Number of calls on a key before a new one takes its place: calls of unknown outcome make
    every later call harder to judge."""
    ops_per_s: float = 100.0

    @property
    def promise(self) -> Level:
        """Level that the manual promises: a shape without reads is linearizable."""
        known = SHAPES.get(self.shape)
        return Level.LINEARIZABLE if known is not None and not known.reads else Level.SEQUENTIAL

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return (Mechanism.KEEPER_MAP,)

    @property
    def settings(self) -> QuerySettings:
        """Settings of every statement."""
        return {
            "insert_keeper_max_retries": self.retries,
            "keeper_max_retries": self.retries,
        }

    @property
    def strict_settings(self) -> QuerySettings:
        """Settings of statements that are to be strict."""
        return {**self.settings, "keeper_map_strict_mode": int(self.strict)}

    def validate(self, topology: Topology) -> None:  # noqa: ARG002
        """Raise UsageError for options that are out of range."""
        validate_numbers(self)
        if self.shape not in SHAPES:
            raise UsageError(f"shape {unknown_name(self.shape, SHAPES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MapShape:
    """What is done to the rows of a KeeperMap table, and who judges it."""

    promise: str
    """What the manual says, and where."""
    call: Callable[[Seed, int], Call]
    """Function of a key's seed and the number of a call on it."""
    client: type[MapClient]
    checkers: Callable[[Level, bool], Sequence[Checker]]
    """Function of the run's promise, and whether a run without faults is UNKNOWN."""
    reads: bool = True
    """Whether it reads, which may return an older state."""


def _evenly(*fs: str) -> Callable[[Seed, int], Call]:
    """Return a function that draws a call among these, evenly, with its number as its value unless
    it reads."""

    def call(own: Seed, number: int) -> Call:
        f = fs[own.below(number, len(fs))]
        return Call(f=f) if f == "read" else Call(f=f, value=number)

    return call


SHAPES: Final[Mapping[str, MapShape]] = {
    "register": MapShape(
        promise="linearizable writes and sequentially consistent reads (KeeperMap)",
        call=lambda own, number: register_call(own, number, with_cas=False),
        client=RowClient,
        checkers=lambda _, faults: register_checkers(faults_expected=faults, model=RowObject),
    ),
    "cas": MapShape(
        promise="fetching and updating data will succeed only if it's executed atomically "
        "(KeeperMap, Updates)",
        call=lambda own, number: register_call(own, number, with_cas=True),
        client=RowClient,
        checkers=lambda _, faults: register_checkers(faults_expected=faults, model=RowObject),
    ),
    "set": MapShape(
        promise="if the key exists, an exception is thrown (KeeperMap, Inserts)",
        call=_evenly("read", "insert"),
        client=SetClient,
        checkers=lambda promise, faults: set_checkers(promise, faults_expected=faults),
    ),
    "mutex": MapShape(
        promise="fetching and deleting data will succeed only if it can be executed atomically "
        "(KeeperMap, Deletes)",
        call=_evenly(ACQUIRE, RELEASE),
        client=MutexClient,
        checkers=lambda _, faults: mutex_checkers(faults_expected=faults),
        reads=False,
    ),
}
"""Shapes by name."""


def keeper_map(
    options: KeeperMapOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `keeper-map`, of the shape that the options name."""
    shape = SHAPES[options.shape]

    def create(cluster: Cluster, token: str) -> Session:
        database = f"harness_{token}"
        table = f"{database}.t"

        def client(connection: ClickHouse) -> MapClient:
            return shape.client(connection, table, options.settings, strict=options.strict_settings)

        return CoordinatedSession(
            cluster,
            client,
            timeout_s=options.timeout_s,
            database=database,
            statements=(
                f"CREATE DATABASE IF NOT EXISTS {database}",
                f"CREATE TABLE {table} (key Int64, value Int64) ENGINE = KeeperMap('/{token}') "
                "PRIMARY KEY key",
            ),
        )

    def on_key(key: int) -> Generator:
        own = seed.child("call", key)
        return numbered(lambda number: shape.call(own, number))

    return TableWorkload(
        name="keeper-map",
        seed=seed,
        promise=promise,
        create=create,
        calls=calls_on_keys(seed, on_key, keys=options.keys, ops_per_key=options.ops_per_key),
        per_s=options.ops_per_s,
        final_reads=("final-read",) if shape.reads else (),
        judges=shape.checkers(promise, faults_expected),
    )
