"""Inserts that are cancelled while the server works on them.

Their outcome is unknown: the server may notice the cancellation before the commit, after it, or not
at all.
"""

from collections.abc import Sequence
from enum import StrEnum
from threading import Thread

from harness.clients.clickhouse import ClickHouse, DatabaseError, QuerySettings
from harness.clients.insert_modes import DRAWN
from harness.clients.statement import Statement
from harness.core.clock import Clock
from harness.core.dialect import Mechanism
from harness.core.op import Op, Value
from harness.core.seed import Seed

WITHIN_MS = 60
"""Maximum delay of a cancellation, in milliseconds. An insert takes 10 to 60."""


class Cancel(StrEnum):
    """Ways to cancel inserts."""

    NEVER = "never"
    KILL = "kill"
    """KILL QUERY from another connection."""
    TIME = "time"
    """A small `max_execution_time`."""
    BOTH = "both"
    """KILL QUERY for some inserts, a small `max_execution_time` for others."""

    @property
    def by_kill(self) -> bool:
        """Return whether some inserts are cancelled by KILL QUERY."""
        return self in (Cancel.KILL, Cancel.BOTH)

    @property
    def by_time(self) -> bool:
        """Return whether some inserts are cancelled by a small `max_execution_time`."""
        return self in (Cancel.TIME, Cancel.BOTH)

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return (Mechanism.SUBSECOND_LIMITS,) if self.by_time else ()


def hurried(
    settings: Sequence[QuerySettings], seed: Seed, one_in: int
) -> tuple[QuerySettings, ...]:
    """Return the settings of inserts, one in `one_in` of which has too little time."""
    own = seed.child("time")
    out: list[QuerySettings] = []
    for value in range(DRAWN):
        given = settings[value % len(settings)]
        if own.below(value, one_in) == 0:
            limit_ms = 1 + own.child("limit").below(value, WITHIN_MS)
            given = {**given, "max_execution_time": f"{limit_ms / 1e3:.3f}"}
        out.append(given)
    return tuple(out)


class Killed:
    """The inserts of one client, of which one in so many is killed from another connection."""

    def __init__(
        self, insert: Statement, killer: ClickHouse, clock: Clock, seed: Seed, one_in: int
    ) -> None:
        self._insert = insert
        self._killer = killer
        self._clock = clock
        self._seed = seed.child("kill")
        self._one_in = one_in

    def __call__(self, connection: ClickHouse, op: Op) -> Value:
        """Return the value. Raises DatabaseError."""
        assert isinstance(op.value, int), "values are numbers"
        if self._seed.below(op.value, self._one_in) != 0:
            return self._insert(connection, op)
        query_id = f"{self._insert.table}-{op.index}"
        delay_ms = self._seed.child("delay").below(op.value, WITHIN_MS)
        killing = Thread(target=self._kill, args=(query_id, delay_ms), name=f"kill {query_id}")
        killing.start()
        try:
            return self._insert(connection, op, query_id)
        finally:
            killing.join()

    def _kill(self, query_id: str, delay_ms: int) -> None:
        self._clock.sleep_until(self._clock.now_ns() + delay_ms * 1_000_000)
        try:
            self._killer.command(f"KILL QUERY WHERE query_id = '{query_id}' ASYNC")
        except DatabaseError:
            return  # the insert goes on, as one that is not cancelled
