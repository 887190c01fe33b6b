"""Connections to a cluster's servers: every cluster makes its own, over the network or within a
simulation."""

from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any, Final, Protocol, TypeAlias

from harness.core.bucket import Bucket
from harness.core.errors import StructuredError
from harness.core.op import Done, Kind
from harness.core.outcomes import UNREADABLE

Shape: TypeAlias = tuple[type | EllipsisType, ...]
"""Type of each column of a result; `...` at the end stands for any other columns."""
SESSION_S: Final = 6.0
"""Timeout of the harness's own sessions with real ZooKeeper servers."""
_QUOTED: Final = 100
"""Number of characters that are quoted of a row."""


class QueryError(StructuredError):
    """A query failed: `code` is the server's, or one of the client's own negative ones."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


def check_shape(columns: Sequence[Sequence[Any]], shape: Shape, count: int | None = None) -> None:
    """Raise QueryError, which says what came instead, unless a result has columns of these types,
    and this number of rows if one is given. Without rows it has no columns."""
    lengths = {len(column) for column in columns}
    types = [kind for kind in shape if isinstance(kind, type)]
    least, most = len(types), len(types) if len(types) == len(shape) else len(columns)
    fits = not columns or (least <= len(columns) <= most and len(lengths) == 1)
    for column, expected in zip(columns, types, strict=False):
        fits = fits and all(issubclass(kind, expected) for kind in set(map(type, column)))
    size = max(lengths, default=0)
    if fits and count in (None, size):
        return
    expected_rows = "rows" if count is None else "1 row" if count == 1 else f"{count} rows"
    first = str(tuple(column[0] for column in columns if column))[:_QUOTED]
    raise QueryError(
        UNREADABLE,
        f"expected {expected_rows} of ({', '.join(kind.__name__ for kind in types)}), got "
        + (f"{size}, the first {first}" if columns else "none"),
    )


class QueryChannel(Protocol):
    """Carries the queries of one client to one ClickHouse server. Connects on first use, and again
    after a failure. Not for two threads at once."""

    def ask(
        self,
        sql: str,
        settings: Mapping[str, int | str],
        rows: Sequence[Any] | None,
        query_id: str = "",
    ) -> Any:
        """Return the result by columns, no columns at all where there is no row; nothing of an
        insert of `rows`. Raise QueryError."""
        ...

    def keep_session(self) -> None:
        """From now on, refuse a query as unsent if the connection before it was lost, since what
        the server knew of that session is gone; the next query connects again."""
        ...

    def disconnect(self) -> None:
        """Close the connection; may be called twice."""
        ...


class StoreChannel(Protocol):
    """Carries requests to an object store in S3's protocol, without faults in between. For several
    threads."""

    @property
    def bucket(self) -> Bucket:
        """Bucket that the requests are about."""
        ...

    @property
    def logs_requests(self) -> bool:
        """Whether the store has a log of the requests to it, as our own has."""
        ...

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        """Return the status and the body of the answer. Raise QueryError if there is none."""
        ...


class ZooKeeperError(StructuredError):
    """A request had no answer. `sent`: it may have taken effect."""

    def __init__(self, sent: bool, text: str) -> None:
        super().__init__(text)
        self.sent = sent

    @property
    def done(self) -> Done:
        """Return how a write ended that failed so. A read that did not answer retires its process
        too, for the next session is another one and may read older state."""
        return Done(Kind.INFO if self.sent else Kind.FAIL, error=str(self))


class ZooKeeper(Protocol):
    """A ZooKeeper session, opened on the first request. Once it could not answer in time it answers
    nothing more: close it. Not for two threads at once."""

    def ask(self, request: str, *arguments: Any, **named: Any) -> Any:
        """Return the answer to one request, named as kazoo names it: "get", "set", "create",
        "sync". Raise ZooKeeperError, and what ZooKeeper itself says: NoNodeError,
        BadVersionError."""
        ...

    def ask_all(
        self, requests: Sequence[tuple[str, tuple[Any, ...]]], **named: Any
    ) -> tuple[Any, ...]:
        """Send several requests without waiting in between, and return the answers in this
        order. Raise as `ask` does."""
        ...

    def each(self, request: str, paths: Sequence[str]) -> dict[str, Any]:
        """Return the answers to reads by path; None where there is no such node."""
        ...

    def multi(self, *operations: tuple[Any, ...]) -> tuple[Any, ...]:
        """Execute all operations or none, and return the answer of each: of ("create", path, data)
        the path; of ("set_data", path, data[, version]) a value with the node's new `version`; of
        ("check", path, version) and ("delete", path) nothing of use. Raise as `ask` does, with
        what ZooKeeper says of the operation that it refused."""
        ...

    def ask_in_order(
        self, request: str, path: str, watch: Callable[[str, int], None] | None = None
    ) -> tuple[Any, int]:
        """Return the answer to a read, and its place among all messages that the session got.
        `watch` is told the type of each event of the path and its place, before any later answer
        is known, until another takes its place; with the type NONE that the connection was lost,
        and the watch with it."""
        ...

    def stop_pings(self) -> None:
        """Send no pings from now on, so that requests alone keep the session alive."""
        ...

    def has_expired(self) -> bool:
        """Return whether the session has expired, after a request without an answer: whether a
        server says so within the time limit for answers."""
        ...

    def end(self) -> None:
        """End the session and wait for the answer. Raise ZooKeeperError."""
        ...

    def abandon(self) -> None:
        """Cut the connection and leave the session to expire, as the end of a client's process
        does."""
        ...

    def close(self) -> None:
        """End the session; may be called twice. Does not wait for a server that is silent."""
        ...
