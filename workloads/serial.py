"""Numbers of series: `generateSerialID`, called on any server.

A series is a node in ZooKeeper. A call reads its number and sets the next one, if nobody did so in
between (src/Functions/generateSerialID.cpp), so that over all servers the numbers of a series count
from 0, and a call that begins after another has ended gets a higher one. The manual promises
"sequential numbers starting from the previous counter value". A call without an answer may have
taken a number, which nobody gets then.
"""

from dataclasses import dataclass

from checkers.consistency.objects import NEXT
from checkers.ladder import Level
from checkers.suite import serial_checkers
from harness.clients.clickhouse import ClickHouse
from harness.clients.coordinated_session import CoordinatedSession
from harness.clients.table_client import TableClient
from harness.core.dialect import COORDINATED, Mechanism
from harness.core.op import Call, Op, Value
from harness.core.protocols import Cluster, Session, Workload
from harness.core.seed import Seed
from harness.generators.calls import repeat
from workloads.keyed_calls import calls_on_keys
from workloads.options import PacedOptions
from workloads.table import TableWorkload

SERIES_PATH = f"{COORDINATED}/series"


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialOptions(PacedOptions):
    """Options of `serial`: how many series there are."""

    keys: int = 3
    """Number of series."""
    ops_per_s: float = 100.0

    @property
    def promise(self) -> Level:
        """Level that the numbers imply: each call takes the next one."""
        return Level.LINEARIZABLE

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return (Mechanism.SERIAL_IDS,)


def serial(options: SerialOptions, seed: Seed, promise: Level, faults_expected: bool) -> Workload:
    """Return the workload `serial`."""

    def create(cluster: Cluster, token: str) -> Session:
        def take(connection: ClickHouse, op: Op) -> Value:
            """Return the next number of the series."""
            sql = f"SELECT toInt64(generateSerialID('{series_name(token, op.key)}'))"
            (number,) = connection.row(sql, (int,))
            return int(number)

        return CoordinatedSession(
            cluster,
            lambda connection: TableClient(connection, writes=dict.fromkeys(NEXT, take), reads={}),
            timeout_s=options.timeout_s,
            series_path=SERIES_PATH,
            series=series_name(token, None),
        )

    return TableWorkload(
        name="serial",
        seed=seed,
        promise=promise,
        create=create,
        calls=calls_on_keys(seed, lambda _: repeat(Call(f=NEXT[0])), keys=options.keys),
        per_s=options.ops_per_s,
        final_reads=NEXT[1:],
        judges=serial_checkers(faults_expected=faults_expected),
    )


def series_name(token: str, key: int | None) -> str:
    """Return the name of a run's series; without a key, how all of them begin."""
    return f"harness_{token}_{'' if key is None else key}"
