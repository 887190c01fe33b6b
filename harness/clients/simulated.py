"""A connection to a simulated server, with the errors of one to a real server."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.clients.clickhouse import NO_SETTINGS, DatabaseError
from harness.sim.errors import ServerError
from harness.sim.simulation import Simulation


class SimulatedClickHouse:
    """The same calls as ClickHouse has. May be called in tasks of the simulated world, and from
    outside of it, which lets the world go on."""

    def __init__(self, simulation: Simulation, node: str, *, timeout_s: float = 10.0) -> None:
        self._simulation = simulation
        self._node = node
        self._timeout_ns = round(timeout_s * 1e9)

    def insert(
        self, table: str, rows: Sequence[Sequence[Any]], settings: Mapping[str, Any] = NO_SETTINGS
    ) -> None:
        """Inserts the rows as one block. Raises DatabaseError."""
        self._execute(f"INSERT INTO {table} VALUES", rows, settings)

    def columns(
        self, sql: str, settings: Mapping[str, Any] = NO_SETTINGS
    ) -> Sequence[Sequence[Any]]:
        """The result by columns; no columns at all where there is no row. Raises DatabaseError."""
        return list(zip(*self._execute(sql, None, settings), strict=True))

    def rows(self, sql: str, settings: Mapping[str, Any] = NO_SETTINGS) -> list[tuple[Any, ...]]:
        """The result by rows. Raises DatabaseError."""
        return self._execute(sql, None, settings)

    def command(self, sql: str, settings: Mapping[str, Any] = NO_SETTINGS) -> None:
        """Runs what returns nothing, such as CREATE or SYSTEM. Raises DatabaseError."""
        self._execute(sql, None, settings)

    def close(self) -> None:
        """There is nothing to close."""

    def _execute(
        self, sql: str, rows: Sequence[Any] | None, settings: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        try:
            return self._simulation.ask(self._node, sql, rows, settings, self._timeout_ns)
        except ServerError as error:
            raise DatabaseError(error.code, error.text) from error
