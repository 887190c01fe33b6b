"""A session with real ZooKeeper servers: every request has a time limit, and a lost session stays
lost."""

from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)

from harness.core.connections import SESSION_S, ZooKeeperError
from harness.core.protocols import Endpoint

if TYPE_CHECKING:
    # Imported only when needed: slow to load, and simulated servers do without it.
    from kazoo.client import KazooClient

CONNECT_TIMEOUT_S = 3.0
_POLL_S: Final = 0.05
"""Pause between two looks at whether kazoo has a connection."""
_REQUEST_S: Final = 0.01
"""Time that each of many requests may add to the limit for all of them."""


class KazooSession:
    """A session with any of the servers at `endpoints`. `timeout_s` bounds an answer, and all the
    answers to a few requests that are sent together."""

    def __init__(self, endpoints: Sequence[Endpoint], *, timeout_s: float = 3.0) -> None:
        self._hosts = ",".join(f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints)
        self._timeout_s = timeout_s
        self._client: KazooClient | None = None
        self._session: int | None = None
        """Number of the session; -1 once a request had no answer."""
        self._first: int | None = None
        """Number of the session, whatever became of it."""

    def ask(self, request: str, *arguments: Any, **named: Any) -> Any:
        """Return the answer to one request, named as kazoo names it."""
        return self.ask_all([(request, arguments)], **named)[0]

    def ask_all(
        self, requests: Sequence[tuple[str, tuple[Any, ...]]], **named: Any
    ) -> tuple[Any, ...]:
        """Send several requests without waiting in between, and return the answers in this
        order."""
        client = self._opened()
        sent = [
            getattr(client, f"{name}_async")(*arguments, **named) for name, arguments in requests
        ]
        return tuple(self._answers(sent))

    def each(self, request: str, paths: Sequence[str]) -> dict[str, Any]:
        """Return the answers to reads by path; None where there is no such node."""
        client = self._opened()
        sent = [getattr(client, f"{request}_async")(path) for path in paths]
        return dict(zip(paths, self._answers(sent, absent=True), strict=True))

    def multi(self, *operations: tuple[Any, ...]) -> tuple[Any, ...]:
        """Execute all operations or none, and return the answer of each."""
        transaction = self._opened().transaction()
        for name, *arguments in operations:
            getattr(transaction, name)(*arguments)
        (answers,) = self._answers([transaction.commit_async()])
        for answer in answers:
            undone = isinstance(answer, (RolledBackError, RuntimeInconsistency))
            if isinstance(answer, KazooException) and not undone:
                raise answer
        return tuple(answers)

    def ask_in_order(
        self, request: str, path: str, watch: Callable[[str, int], None] | None = None
    ) -> tuple[Any, int]:
        """Return the answer to a read, and its place among all messages that the session got."""
        connection = self._opened()._connection

        def lose(event: Any) -> None:
            if event.type == "NONE":  # kazoo's own word for a lost connection
                connection.listeners[path](event.type, connection.arrived)

        if watch is not None:
            connection.listeners[path] = watch
        answer = self.ask(request, path, None if watch is None else lose)
        # No other request is under way, so that this is the last answer that has come.
        return answer, connection.answered

    def stop_pings(self) -> None:
        """Send no pings from now on."""
        self._opened()._connection.sends_pings = False

    def has_expired(self) -> bool:
        """Return whether a server says that the session has expired: then kazoo has opened another
        one."""
        end = monotonic() + self._timeout_s
        while self._client is not None and monotonic() < end:
            now = self._client.client_id
            if self._client.connected and now is not None:
                return bool(now[0] != self._first)
            sleep(_POLL_S)
        return False

    def end(self) -> None:
        """End the session and wait for the answer."""
        from harness.clusters.kazoo_connection import ask_to_end

        self._answers([ask_to_end(self._opened())])
        self.close()

    def abandon(self) -> None:
        """Cut the connection and leave the session to expire."""
        client, self._client = self._client, None
        if client is not None:
            from harness.clusters.kazoo_connection import cut

            cut(client)

    def close(self) -> None:
        """End the session; may be called twice. Does not wait for a server that is silent."""
        client, self._client = self._client, None
        if client is not None:
            from harness.clusters.kazoo_connection import end_session

            end_session(client)

    def _answers(self, sent: Sequence[Any], *, absent: bool = False) -> list[Any]:
        """Return the answers; None in place of NoNodeError if nodes may be `absent`."""
        end = monotonic() + self._timeout_s + _REQUEST_S * len(sent)
        answers: list[Any] = []
        for request in sent:
            try:
                answers.append(request.get(timeout=max(0.0, end - monotonic())))
            except NoNodeError:
                if not absent:
                    raise
                answers.append(None)
            except Exception as error:
                is_lost = isinstance(error, (ConnectionLoss, SessionExpiredError))
                if isinstance(error, KazooException) and not is_lost:
                    raise
                # No answer in time, or one that kazoo cannot decode.
                self._session = -1
                text = f"{type(error).__name__}: {error}".rstrip(": ")
                raise ZooKeeperError(True, text) from error
        return answers

    def _opened(self) -> "KazooClient":
        if self._client is None:
            self._client = self._connected()
            self._session = self._first = self._client.client_id[0]
        elif self._client.client_id is None or self._client.client_id[0] != self._session:
            raise ZooKeeperError(True, "the session is lost")
        return self._client

    def _connected(self) -> "KazooClient":
        from harness.clusters.kazoo_connection import end_session, new_client

        client = new_client(self._hosts, SESSION_S)
        if not client.start_async().wait(CONNECT_TIMEOUT_S) or not client.connected:
            end_session(client)
            raise ZooKeeperError(False, f"no session with {self._hosts}")
        return client
