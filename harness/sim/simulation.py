"""A simulated cluster: every server of a topology on one virtual time, all of it from one seed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harness.core.seed import Seed
from harness.core.topology import Role, Topology
from harness.sim.bugs import PROTOCOLS
from harness.sim.errors import ServerError
from harness.sim.keeper.messages import Disk, Ensemble
from harness.sim.keeper.server import LEADING, KeeperServer
from harness.sim.keeper.session import KeeperSession
from harness.sim.network import Network
from harness.sim.record import Fact
from harness.sim.server import Server, ServerDisk
from harness.sim.table.settings import TableSettings
from harness.sim.world import MS, SECOND, Future, Process, TimedOutError, World

CLIENT_NS: Final = 300_000
"""Between a client and a server, median. That network is never cut: it is the harness' own."""
CONNECT_TIMEOUT_NS: Final = 2 * SECOND

NETWORK, UNSENT, CLIENT_TIMEOUT = -1, -2, -3
"""The client's own errors, as harness/core/outcomes.py has them."""


class Simulation:
    """Servers by name. What is asked of the world from outside of its tasks lets it go on."""

    def __init__(
        self,
        topology: Topology,
        seed: Seed,
        *,
        bugs: frozenset[str] = frozenset(),
        protocol: str = "server",
        settings: TableSettings | None = None,
        rates: Mapping[str, float] | None = None,
    ) -> None:
        """`protocol`: one of PROTOCOLS. `rates`: how fast the clocks of some nodes go; 1 unless
        given."""
        chosen = PROTOCOLS[protocol]
        self.topology = topology
        self.world = World(seed.child("world"))
        self.network = Network(self.world, topology)
        self.ensemble = Ensemble(self.world, self.network, topology.keepers, bugs | chosen.defects)
        self.rates = dict(rates or {})
        self.keepers: dict[str, KeeperServer] = {}
        self.servers: dict[str, Server] = {}
        self._settings = settings or TableSettings()
        self._reading = chosen.reading
        self._keeper_disks = {name: Disk() for name in topology.keepers}
        self._server_disks = {name: ServerDisk() for name in topology.replicas}
        self._fetches_stopped: dict[str, None] = {}

    def up(self) -> None:
        """Starts every server; does not wait."""
        for name in self.topology.names:
            self._make(name)
        for name in self.topology.names:
            self._begin(name)

    def _make(self, name: str) -> None:
        node = self.topology.node(name)
        if node.role is Role.ZOOKEEPER:
            disk = self._keeper_disks[name]
            rate = self.rates.get(name, 1.0)
            self.keepers[name] = KeeperServer(name, self.ensemble, disk, rate)
        else:
            self.servers[name] = Server(
                name,
                self._server_disks[name],
                self.ensemble,
                node.keepers,
                self.keepers,
                self._settings,
                self._reading,
            )

    def _begin(self, name: str) -> None:
        if name in self.keepers:
            self.keepers[name].begin(self.keepers)
        else:
            self.servers[name].begin(self.servers)

    # --- processes --------------------------------------------------------------------------

    def _life(self, name: str) -> KeeperServer | Server:
        return self.keepers[name] if name in self.keepers else self.servers[name]

    def kill(self, name: str) -> None:
        """SIGKILL; of what does not run, nothing happens."""
        if self.running(name):
            self._life(name).die()

    def stop(self, name: str) -> None:
        """SIGTERM."""
        if not self.running(name):
            return
        life = self._life(name)
        if isinstance(life, Server):
            life.stop()
        else:
            life.die()

    def start(self, name: str) -> None:
        """A new life; of what runs, nothing happens."""
        if not self.running(name):
            self._make(name)
            self._begin(name)

    def running(self, name: str) -> bool:
        """Whether the process exists."""
        return self._life(name).process.alive

    def pause(self, name: str) -> None:
        """SIGSTOP."""
        if self.running(name):
            self.world.pause(self._life(name).process)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self.world.resume(self._life(name).process)

    def paused(self, name: str) -> bool:
        """Whether it is stopped by SIGSTOP."""
        return self.running(name) and self._life(name).process.paused

    def answers(self, name: str) -> bool:
        """Whether the server would answer a query, or a ZooKeeper server serves clients."""
        if not self.running(name) or self.paused(name):
            return False
        life = self._life(name)
        return life.answers if isinstance(life, Server) else life.serves

    # --- what is known of them --------------------------------------------------------------

    def leader(self) -> str | None:
        """The ZooKeeper server of the newest epoch that leads."""
        leading = [
            (server.epoch, name)
            for name, server in self.keepers.items()
            if server.process.alive
            and not server.process.paused
            and server.role == LEADING
            and server.serves
        ]
        return max(leading)[1] if leading else None

    def unready(self) -> Sequence[str]:
        """Why the cluster cannot serve now."""
        out = [f"{name} does not answer" for name in self.topology.names if not self.answers(name)]
        return out or ([] if self.leader() else ["ZooKeeper has no leader"])

    def stop_fetches(self, names: Iterable[str]) -> None:
        """Of every table that exists, until the server ends."""
        for name in names:
            for table in self.servers[name].tables.values():
                table.fetches_stopped = True

    def start_fetches(self, names: Iterable[str]) -> None:
        """May be called twice."""
        for name in names:
            for table in self.servers[name].tables.values():
                if table.fetches_stopped:
                    table.fetches_stopped = False
                    table.queue.wake()

    def fetching(self, name: str) -> bool:
        """Whether its tables fetch."""
        return self.answers(name) and not any(
            table.fetches_stopped for table in self.servers[name].tables.values()
        )

    def fetch_ns(self, name: str, ns: int | None = None) -> int:
        """The median time of a replica's fetches, over all its lives; `ns` sets it."""
        disk = self._server_disks[name]
        disk.fetch_ns = disk.fetch_ns if ns is None else ns
        return disk.fetch_ns

    def skew(self, name: str, rate: float) -> None:
        """How fast the clock of a ZooKeeper server goes from now on, over all its lives."""
        self.rates[name] = rate
        self.keepers[name].skew(rate)

    def record(self) -> list[Fact]:
        """Everything of note that was committed, and the sessions that should have ended."""
        record, leader = self.ensemble.record, self.leader()
        if leader is not None:
            for silent_ns, allowed_ns in self.keepers[leader].sessions():
                if silent_ns > allowed_ns:
                    record.session_ended(self.world.now_ns, silent_ns, allowed_ns)
        return record.facts

    # --- clients ----------------------------------------------------------------------------

    def ask(
        self,
        node: str,
        sql: str,
        rows: Sequence[Any] | None,
        settings: Mapping[str, Any],
        timeout_ns: int,
    ) -> list[tuple[Any, ...]]:
        """A query from outside. Raises ServerError, also with a client's own codes."""
        world = self.world
        world.sleep(world.around(CLIENT_NS))
        server = self.servers[node]
        if not server.process.alive or not server.answers:
            raise ServerError(UNSENT, f"{node}: connection refused")
        if server.process.paused:
            world.sleep(CONNECT_TIMEOUT_NS)
            raise ServerError(UNSENT, f"{node}: no answer to a ping")
        future = Future()
        server.ask(future, sql, rows, settings)
        try:
            answer: list[tuple[Any, ...]] = world.wait(future, timeout_ns)
        except TimedOutError:
            raise ServerError(CLIENT_TIMEOUT, f"no answer from {node} in time") from None
        except ConnectionResetError as error:
            raise ServerError(NETWORK, f"{node}: {error}") from None
        world.sleep(world.around(CLIENT_NS))
        return answer

    def session(self, keepers: Sequence[str]) -> KeeperSession:
        """A ZooKeeper session from outside, through one of these servers. Raises KeeperError."""
        name = keepers[self.world.below(len(keepers))]
        own = Process("client")
        number = self.ensemble.fresh_session()
        session = KeeperSession(name, own, self.ensemble, self.keepers[name], number)
        session.open()
        return session

    def wait_until(self, seen: Any, within_ns: int, poll_ns: int = 20 * MS) -> bool:
        """Lets the world go on until something is seen, at most so long; says whether it was."""
        end_ns = self.world.now_ns + within_ns
        while not seen():
            if self.world.now_ns >= end_ns:
                return False
            self.world.sleep(poll_ns)
        return True
