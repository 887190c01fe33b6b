"""A simulated cluster: every server of a topology on one virtual time, all of it from one seed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pysimulator

from harness.core.seed import Seed
from harness.core.topology import Link, Role, Topology
from harness.sim.bugs import PROTOCOLS
from harness.sim.errors import KeeperError, ServerError
from harness.sim.settings import TableSettings
from harness.sim.world import MS, World

Operation = tuple[Any, ...]
"""Of a multi, as `pysimulator.Simulation.multi` has them."""


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
        self.rates = dict(rates or {})
        self.servers = pysimulator.Simulation(
            nodes=[(n.name, n.role is Role.ZOOKEEPER, n.keepers) for n in topology.nodes],
            links=_pairs(topology.links()),
            bugs=sorted(bugs | chosen.defects),
            settings=asdict(settings or TableSettings()),
            reading=chosen.reading,
            rates=self.rates,
            seed=seed.child("world").value,
        )
        self.world = World(self.servers)
        self.begun = False

    def up(self) -> None:
        """Starts every server; does not wait."""
        self.begun = True
        self.servers.up()

    def skew(self, name: str, rate: float) -> None:
        """How fast the clock of a ZooKeeper server goes from now on, over all its lives."""
        self.rates[name] = rate
        self.servers.skew(name, rate)

    # --- the network ------------------------------------------------------------------------

    def cut(self, links: Iterable[Link]) -> None:
        """Drops every packet of these links, from now on and what is under way."""
        self.servers.cut(_pairs(links))

    def lose(self, links: Iterable[Link], per_thousand: int) -> None:
        """So many of a thousand packets are lost; 0 ends that."""
        self.servers.lose(_pairs(links), per_thousand)

    # --- clients ----------------------------------------------------------------------------

    def ask(
        self,
        node: str,
        sql: str,
        rows: Sequence[Any] | None,
        settings: Mapping[str, int | str],
        timeout_ns: int,
    ) -> list[tuple[int | str, ...]]:
        """A query from outside; the result by columns, none where there is no row. Raises
        ServerError, also with a client's own codes."""
        number = self.world.number()
        self.servers.ask(number, node, sql, rows, dict(settings), timeout_ns)
        answer: list[tuple[int | str, ...]] = self.answer(number)
        return answer

    def session(self, keepers: Sequence[str]) -> "KeeperSession":
        """A ZooKeeper session from outside, through one of these servers. Raises KeeperError."""
        number = self.world.number()
        self.servers.open_session(number, keepers)
        return KeeperSession(self, self.answer(number))

    def wait_until(self, seen: Callable[[], bool], within_ns: int, poll_ns: int = 20 * MS) -> bool:
        """Lets the world go on until something is seen, at most so long; says whether it was."""
        end_ns = self.world.now_ns + within_ns
        while not seen():
            if self.world.now_ns >= end_ns:
                return False
            self.world.sleep(poll_ns)
        return True

    def answer(self, number: int) -> Any:
        """Waits for the answer to what was begun with a number. Raises ServerError and
        KeeperError."""
        self.world.wait(number)
        answer, error = self.servers.answer(number)
        if error is None:
            return answer
        code, text = error
        raise ServerError(code, text) if isinstance(code, int) else KeeperError(code, text)


class KeeperSession:
    """A ZooKeeper session from outside. Every call waits for its answer, and raises KeeperError."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self._simulation = simulation
        self._number = number

    def read(self, *readings: tuple[str, str]) -> list[Any]:
        """Several reads of one moment, as `pysimulator.Simulation.read` has them."""
        number = self._simulation.world.number()
        self._simulation.servers.read(number, self._number, readings)
        answer: list[Any] = self._simulation.answer(number)
        return answer

    def multi(self, *operations: Operation) -> list[Any]:
        """All or nothing, in the order of all writes; what each operation answers."""
        number = self._simulation.world.number()
        self._simulation.servers.multi(number, self._number, operations)
        answer: list[Any] = self._simulation.answer(number)
        return answer

    def sync(self) -> None:
        """Reads after this see what the leader had committed when the call reached it."""
        number = self._simulation.world.number()
        self._simulation.servers.sync(number, self._number)
        self._simulation.answer(number)

    def close(self) -> None:
        """Ends the session, and its ephemeral nodes with it; does not wait. Once only."""
        self._simulation.servers.close(self._number)


def _pairs(links: Iterable[Link]) -> list[tuple[str, str]]:
    return [(link.source, link.target) for link in links]
