"""Simulated cluster: every server of a topology on one virtual time, decided by one seed; and the
dialect of its servers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from harness.core.dialect import Dialect, Mechanism
from harness.core.engines import Engine, Engines
from harness.core.errors import StructuredError
from harness.core.link_quality import LinkFault
from harness.core.seed import Seed
from harness.core.topology import Link, Role, Topology
from harness.native import simulator
from harness.sim.bugs import DEFAULT, NEWEST, PROTOCOLS
from harness.sim.world import MS, World

_ZOOKEEPER: Final = Engine(role=Role.ZOOKEEPER, version="3.8.0", build="simulated")
_UNSIMULATED: Final = frozenset(
    {
        *(Mechanism.ASYNC_INSERT, Mechanism.DEDUPLICATION_TOKEN, Mechanism.FAILPOINTS),
        *(Mechanism.REPLICATED_DATABASES, Mechanism.FORGET_PARTITION),
        Mechanism.REFRESHABLE_VIEWS,
        *(Mechanism.REPLICA_ERRORS, Mechanism.ZOOKEEPER_RELOAD),
    }
)
"""Mechanisms that simulated servers lack, whatever their version has."""
_SIMULATED: Final = {
    Mechanism.COPIED_PARTITIONS: "copied-partitions",
    Mechanism.VIEWS: "views",
    Mechanism.ROW_TTL: "row-ttl",
}
"""Mechanisms that simulated servers have only with a mechanism of their protocol."""


def clickhouse_engine(protocol: str) -> Engine:
    """Return the engine of simulated ClickHouse servers with a protocol."""
    version = PROTOCOLS[protocol].version
    return Engine(role=Role.CLICKHOUSE, version=version, build="simulated")


def simulated_engines(topology: Topology, protocol: str) -> Engines:
    """Return the engines of a simulated cluster."""
    engines = {Role.CLICKHOUSE: clickhouse_engine(protocol), Role.ZOOKEEPER: _ZOOKEEPER}
    return Engines(nodes={n.name: engines[n.role] for n in topology.nodes if n.role in engines})


def simulated_dialect(protocol: str) -> Dialect:
    """Return what the simulated servers have: what their version has, less what is not simulated,
    and zero-copy replication, which is."""
    own = clickhouse_engine(protocol).dialect
    simulated = PROTOCOLS[protocol].mechanisms
    lacks = _UNSIMULATED | {one for one, name in _SIMULATED.items() if name not in simulated}
    mechanisms = own.mechanisms - lacks | {Mechanism.ZERO_COPY}
    unsimulated = own.mechanisms & lacks
    return replace(own, mechanisms=mechanisms, unsimulated=unsimulated, chosen_by="--protocol")


def protocol_with(needed: Iterable[Mechanism]) -> str:
    """Return the default protocol; the newest one if its servers lack what is needed."""
    return NEWEST if simulated_dialect(DEFAULT).lacks(needed) else DEFAULT


NO_NODE: Final = "NONODE"
NODE_EXISTS: Final = "NODEEXISTS"
BAD_VERSION: Final = "BADVERSION"
Operation = tuple[Any, ...]
"""Operation of a multi, as `simulator.Simulation.multi` takes it."""


class ServerError(StructuredError):
    """A query failed; `code` is one of ClickHouse's codes, or a client's own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class KeeperError(StructuredError):
    """A request to ZooKeeper failed; `code` is one of ZooKeeper's names, such as NO_NODE."""

    def __init__(self, code: str, path: str) -> None:
        super().__init__(f"{code}{f' at {path}' if path else ''}")
        self.code, self.path = code, path


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """Settings of tables, by the server's names. The defaults suit runs of seconds, not of weeks,
    and make rare paths common."""

    max_replicated_logs_to_keep: int = 40
    """Number of log entries that a replica may be behind before it may be lost."""
    min_replicated_logs_to_keep: int = 10
    cleanup_delay_period: int = 1
    """Seconds between two cleanups of logs, blocks and old parts."""
    old_parts_lifetime: int = 10
    """Seconds for which a part is kept after another has covered it."""
    replicated_deduplication_window: int = 100
    """Number of blocks that are remembered; 0: none is."""
    replicated_deduplication_window_seconds: int = 604_800
    """Age up to which they are remembered, in seconds before the latest."""
    parts_to_merge: int = 6
    """Number of neighbouring parts that are merged. (Real servers weigh sizes and ages.)"""
    max_bytes_to_merge_at_max_space_in_pool: int = 1 << 37
    """1: parts merge only on request. (Sizes are not simulated.)"""
    merge_selecting_sleep_ms: int = 1000
    """Pause after a search that found nothing to merge."""
    merge_with_ttl_timeout: int = 14_400
    """Seconds between two merges of a partition because of its TTL."""

    @classmethod
    def of(cls, dialect: Dialect) -> "TableSettings":
        """Return the settings of tables on servers of this dialect."""
        return cls(
            replicated_deduplication_window=dialect.deduplication_blocks,
            replicated_deduplication_window_seconds=dialect.deduplication_s,
        )


class Simulation:
    """Simulated servers. The world advances while a caller outside its tasks waits for an
    answer."""

    def __init__(
        self,
        topology: Topology,
        seed: Seed,
        *,
        bugs: frozenset[str] = frozenset(),
        protocol: str = DEFAULT,
        without: frozenset[str] = frozenset(),
        settings: TableSettings | None = None,
        rates: Mapping[str, float] | None = None,
    ) -> None:
        """Create servers that do not run. `protocol` is one of PROTOCOLS, `without` are defects of
        it that the servers do not have; `rates` are the speeds of some nodes' clocks, by default 1.
        """
        chosen = PROTOCOLS[protocol]
        self.rates = dict(rates or {})
        self.servers = simulator.Simulation(
            nodes=[(n.name, n.role.value, n.keepers) for n in topology.nodes],
            links=_pairs(topology.links()),
            bugs=sorted(bugs | chosen.defects - without),
            mechanisms=sorted(chosen.mechanisms),
            settings=asdict(settings or TableSettings.of(simulated_dialect(protocol))),
            reading=chosen.reading,
            rates=self.rates,
            seed=seed.child("world").value,
        )
        self.world = World(self.servers)
        self.begun = False

    def up(self) -> None:
        """Start every server, without waiting."""
        self.begun = True
        self.servers.up()

    def skew(self, name: str, rate: float) -> None:
        """Set the speed of a server's clock, which outlasts restarts of the server."""
        self.rates[name] = rate
        simulator.Machines(self.servers).skew(name, rate)

    # --- the network ------------------------------------------------------------------------

    def cut(self, links: Iterable[Link]) -> None:
        """Drop every packet of these links from now on, including those under way."""
        self.servers.cut(_pairs(links))

    def degrade(self, links: Iterable[Link], fault: LinkFault, amount: float) -> None:
        """Give these links a fault; the amount 0 ends it."""
        self.servers.degrade(_pairs(links), fault, amount)

    # --- clients ----------------------------------------------------------------------------

    def ask(
        self,
        node: str,
        sql: str,
        rows: Sequence[Any] | None,
        settings: Mapping[str, int | str],
        timeout_ns: int,
        opened_ns: int | None = None,
    ) -> list[tuple[int | str, ...]]:
        """Execute a query from outside the cluster, on a connection that was opened then, or else
        now. Return the result by columns, none if there is no row. Raises ServerError, also with a
        client's own codes."""
        opened_ns = self.world.now_ns if opened_ns is None else opened_ns
        number = self.world.number()
        self.servers.ask(number, node, sql, rows, dict(settings), timeout_ns, opened_ns)
        answer: list[tuple[int | str, ...]] = self.answer(number)
        return answer

    def session(self, keepers: Sequence[str]) -> "KeeperSession":
        """Open a ZooKeeper session from outside the cluster, through one of these servers. Raises
        KeeperError."""
        number = self.world.number()
        self.servers.open_session(number, keepers)
        return KeeperSession(self, self.answer(number))

    def wait_until(self, seen: Callable[[], bool], within_ns: int, poll_ns: int = 20 * MS) -> bool:
        """Let the world advance until `seen` holds, for at most `within_ns`; return whether it
        did."""
        end_ns = self.world.now_ns + within_ns
        while not seen():
            if self.world.now_ns >= end_ns:
                return False
            self.world.sleep(poll_ns)
        return True

    def answer(self, number: int) -> Any:
        """Wait for the answer to the request with this number. Raises ServerError and
        KeeperError."""
        self.world.wait(number)
        answer, error = self.servers.answer(number)
        if error is None:
            return answer
        code, text = error
        raise ServerError(code, text) if isinstance(code, int) else KeeperError(code, text)


class KeeperSession:
    """ZooKeeper session of a caller outside the cluster. Every call waits for its answer and raises
    KeeperError."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self._simulation = simulation
        self._number = number

    def read(self, *readings: tuple[str, str]) -> list[Any]:
        """Make several reads at one moment, as `simulator.Simulation.read` takes them."""
        number = self._simulation.world.number()
        self._simulation.servers.read(number, self._number, readings)
        answer: list[Any] = self._simulation.answer(number)
        return answer

    def multi(self, *operations: Operation) -> list[Any]:
        """Execute all operations or none, at one place in the order of writes; return the answer of
        each."""
        number = self._simulation.world.number()
        self._simulation.servers.multi(number, self._number, operations)
        answer: list[Any] = self._simulation.answer(number)
        return answer

    def sync(self) -> None:
        """Let later reads see what the leader had committed when the call reached it."""
        number = self._simulation.world.number()
        self._simulation.servers.sync(number, self._number)
        self._simulation.answer(number)

    def close(self) -> None:
        """End the session, and its ephemeral nodes with it, without waiting. It may be called
        once."""
        self._simulation.servers.close(self._number)


def _pairs(links: Iterable[Link]) -> list[tuple[str, str]]:
    return [(link.source, link.target) for link in links]
