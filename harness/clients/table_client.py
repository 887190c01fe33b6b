"""One node's client of a workload: a function for each kind of call."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from harness.clients.clickhouse import ClickHouse, DatabaseError, failed_read, failed_write
from harness.core.op import Done, Kind, Op, Value

Call: TypeAlias = Callable[[ClickHouse, Op], Value]
"""Makes the call, raises DatabaseError, and returns what an ok carries."""


class TableClient:
    """Calls end by the table of outcomes: those of `writes` as writes, those of `reads` as
    reads."""

    def __init__(
        self, connection: ClickHouse, *, writes: Mapping[str, Call], reads: Mapping[str, Call]
    ) -> None:
        self._connection = connection
        self._writes = writes
        self._reads = reads

    def invoke(self, op: Op) -> Done:
        """Raises KeyError for a call that the workload has not."""
        write = self._writes.get(op.f)
        call = write or self._reads[op.f]
        try:
            return Done(Kind.OK, call(self._connection, op))
        except DatabaseError as error:
            return failed_write(error) if write else failed_read(error)

    def close(self) -> None:
        """May be called twice."""
        self._connection.close()
