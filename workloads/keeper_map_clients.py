"""Clients of the workload `keeper-map`: how each call of a shape becomes statements.

A strict statement that ZooKeeper refused, because a node exists or has another version, ends as
fail: the manual says that it did nothing. Everything else ends by the table of outcomes.
"""

from collections.abc import Callable, Mapping
from typing import Final

from checkers.consistency.objects import ACQUIRE, RELEASE
from checkers.sets.key_sets import READS
from checkers.zookeeper.multi import CAS
from harness.clients.clickhouse import (
    ClickHouse,
    DatabaseError,
    QuerySettings,
    failed_read,
    failed_write,
)
from harness.core.op import Done, Kind, Op

KEEPER_EXCEPTION: Final = 999
THROWN: Final = 395
"""Code of `throwIf`, which is computed before a request is sent."""
REFUSALS: Final = ("Node exists", "Bad version")
"""What ZooKeeper says of a request that it refused."""
SET_SHIFT: Final = 32
"""Number of bits of a row's key that are its value, in a set."""


class MapClient:
    """Makes the calls of one worker on a KeeperMap table."""

    def __init__(
        self, connection: ClickHouse, table: str, settings: QuerySettings, *, strict: QuerySettings
    ) -> None:
        """Create a client. `settings` are those of statements that need not be strict."""
        self.connection = connection
        self.table = table
        self.settings = settings
        self.strict = strict

    @property
    def requests(self) -> Mapping[str, Callable[[Op], Done]]:
        """Return the method that makes the calls of each f."""
        raise NotImplementedError

    def invoke(self, op: Op) -> Done:
        """Make the call."""
        try:
            return self.requests[op.f](op)
        except DatabaseError as error:
            return failed_read(error) if op.f in READS else failed_write(error)

    def insert(self, key: int, value: int, settings: QuerySettings) -> None:
        """Insert a row. Raises DatabaseError."""
        self.connection.insert(self.table, [(key, value)], settings)

    def close(self) -> None:
        """Close the connection; idempotent."""
        self.connection.close()


class RowClient(MapClient):
    """Reads, writes and compare-and-sets of one row for each key."""

    @property
    def requests(self) -> Mapping[str, Callable[[Op], Done]]:
        """Return the method of each f."""
        return {"write": self._write, CAS: self._cas, **dict.fromkeys(READS, self._read)}

    def _value(self, op: Op) -> int | None:
        sql = f"SELECT value FROM {self.table} WHERE key = {op.key:d}"
        return next(iter(self.connection.numbers(sql, self.settings)), None)

    def _read(self, op: Op) -> Done:
        return Done(Kind.OK, self._value(op))

    def _write(self, op: Op) -> Done:
        assert isinstance(op.value, int), "a write has a number"
        self.insert(op.key or 0, op.value, self.settings)
        return Done(Kind.OK, op.value)

    def _cas(self, op: Op) -> Done:
        """Update the row if it has the expected value. An UPDATE of a key without a row succeeds
        and does nothing, so that the row is looked for before; no call removes one."""
        assert isinstance(op.value, tuple), "a cas has what it expects and what it sets"
        expected, new = op.value
        if self._value(op) is None:
            return Done(Kind.FAIL, error="MISMATCH: no row")
        sql = (
            f"ALTER TABLE {self.table} UPDATE value = {new} + throwIf(value != {expected}) "
            f"WHERE key = {op.key:d}"
        )
        try:
            self.connection.command(sql, self.strict)
        except DatabaseError as error:
            if error.code == THROWN:
                return Done(Kind.FAIL, error="MISMATCH: another value")
            return _refused(error)
        return Done(Kind.OK, op.value)


class SetClient(MapClient):
    """Strict INSERTs of rows, and reads of all rows of a key."""

    @property
    def requests(self) -> Mapping[str, Callable[[Op], Done]]:
        """Return the method of each f."""
        return {"insert": self._insert, **dict.fromkeys(READS, self._read)}

    def _insert(self, op: Op) -> Done:
        assert isinstance(op.value, int), "an insert has a number"
        try:
            self.insert(((op.key or 0) << SET_SHIFT) + op.value, op.value, self.strict)
        except DatabaseError as error:
            return _refused(error)
        return Done(Kind.OK, op.value)

    def _read(self, op: Op) -> Done:
        sql = f"SELECT value FROM {self.table} WHERE bitShiftRight(key, {SET_SHIFT}) = {op.key:d}"
        return Done(Kind.OK, self.connection.numbers(sql, self.settings))


class MutexClient(MapClient):
    """Acquires a mutex by a strict INSERT of its row, and releases it by a strict DELETE of the row
    with its own token. A client that holds a mutex does not acquire it again, and one that does not
    hold it does not release it."""

    def __init__(
        self, connection: ClickHouse, table: str, settings: QuerySettings, *, strict: QuerySettings
    ) -> None:
        super().__init__(connection, table, settings, strict=strict)
        self._held: dict[int, int] = {}
        """Tokens of the mutexes that the client holds."""

    @property
    def requests(self) -> Mapping[str, Callable[[Op], Done]]:
        """Return the method of each f."""
        return {ACQUIRE: self._acquire, RELEASE: self._release}

    def _acquire(self, op: Op) -> Done:
        assert op.key is not None, "a mutex has a key"
        assert isinstance(op.value, int), "an acquire has a token"
        if op.key in self._held:
            return Done(Kind.FAIL, error="HELD: by this client")
        try:
            self.insert(op.key, op.value, self.strict)
        except DatabaseError as error:
            return _refused(error)
        self._held[op.key] = op.value
        return Done(Kind.OK, op.value)

    def _release(self, op: Op) -> Done:
        token = self._held.pop(op.key or 0, None)
        if token is None:
            return Done(Kind.FAIL, error="NOT HELD: by this client")
        sql = f"ALTER TABLE {self.table} DELETE WHERE key = {op.key:d} AND value = {token}"
        self.connection.command(sql, self.strict)
        return Done(Kind.OK, op.value)


def _refused(error: DatabaseError) -> Done:
    """Return how a strict statement ended: as fail if ZooKeeper refused its request."""
    if error.code == KEEPER_EXCEPTION and any(word in error.text for word in REFUSALS):
        return Done(Kind.FAIL, error=f"REFUSED: {error.text}")
    return failed_write(error)
