"""A connection to a simulated server, with the errors of one to a real server."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.clients.clickhouse import ClickHouse, DatabaseError
from harness.sim.dialect import DIALECT
from harness.sim.errors import ServerError
from harness.sim.simulation import Simulation


class SimulatedClickHouse(ClickHouse):
    """May be used in tasks of the simulated world, and from outside of it, which lets the world
    go on."""

    def __init__(self, simulation: Simulation, node: str, *, timeout_s: float = 10.0) -> None:
        self._simulation = simulation
        self._outcomes = DIALECT.write_outcomes
        self._node = node
        self._timeout_ns = round(timeout_s * 1e9)

    def close(self) -> None:
        """There is nothing to close."""

    def _execute(
        self,
        sql: str,
        settings: Mapping[str, int | str],
        rows: Sequence[Any] | None,
        query_id: str = "",
    ) -> Any:
        assert not query_id, "simulated servers have no query ids"
        try:
            return self._simulation.ask(self._node, sql, rows, settings, self._timeout_ns)
        except ServerError as error:
            raise DatabaseError(error.code, error.text, self._outcomes) from error
