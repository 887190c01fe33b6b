"""A session with real ZooKeeper servers: every request has a time limit, and a lost session stays
lost."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import ConnectionLoss, NoNodeError, SessionExpiredError

from harness.core.connections import ZooKeeperError
from harness.core.protocols import Endpoint

if TYPE_CHECKING:
    # Imported only when needed: slow to load, and simulated servers do without it.
    from kazoo.client import KazooClient

CONNECT_TIMEOUT_S = 3.0
SESSION_S = 6.0


class KazooSession:
    """A session with any of the servers at `endpoints`. `timeout_s` bounds each answer."""

    def __init__(self, endpoints: Sequence[Endpoint], *, timeout_s: float = 3.0) -> None:
        self._hosts = ",".join(f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints)
        self._timeout_s = timeout_s
        self._client: KazooClient | None = None
        self._session: int | None = None

    def ask(self, request: str, *arguments: Any, **named: Any) -> Any:
        """Return the answer to one request, named as kazoo names it."""
        return self.ask_all([(request, arguments)], **named)[0]

    def ask_all(
        self, requests: Sequence[tuple[str, tuple[Any, ...]]], **named: Any
    ) -> tuple[Any, ...]:
        """Send several requests without waiting in between, and return the answers in this
        order."""
        client = self._opened()
        try:
            sent = [
                getattr(client, f"{name}_async")(*arguments, **named)
                for name, arguments in requests
            ]
            return tuple(one.get(timeout=self._timeout_s) for one in sent)
        except _silences() as error:
            self._session = -1
            raise ZooKeeperError(True, f"{type(error).__name__}: {error}".rstrip(": ")) from error

    def each(self, request: str, paths: Sequence[str]) -> dict[str, Any]:
        """Return the answers to reads by path; None where there is no such node."""
        client = self._opened()
        try:
            sent = {path: getattr(client, f"{request}_async")(path) for path in paths}
            return {path: _or_none(one.get, self._timeout_s) for path, one in sent.items()}
        except _silences() as error:
            self._session = -1
            raise ZooKeeperError(True, f"{type(error).__name__}: {error}".rstrip(": ")) from error

    def close(self) -> None:
        """End the session; may be called twice. Does not wait for a server that is silent."""
        client, self._client = self._client, None
        if client is not None:
            Thread(target=_stop, args=(client,), name="zookeeper-close", daemon=True).start()

    def _opened(self) -> "KazooClient":
        if self._client is None:
            self._client = self._connected()
            self._session = self._client.client_id[0]
        elif self._client.client_id is None or self._client.client_id[0] != self._session:
            raise ZooKeeperError(True, "the session is lost")
        return self._client

    def _connected(self) -> "KazooClient":
        from kazoo.client import KazooClient
        from kazoo.retry import KazooRetry

        client = KazooClient(
            hosts=self._hosts,
            timeout=SESSION_S,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=0.2),
        )
        if not client.start_async().wait(CONNECT_TIMEOUT_S) or not client.connected:
            Thread(target=_stop, args=(client,), name="zookeeper-close", daemon=True).start()
            raise ZooKeeperError(False, f"no session with {self._hosts}")
        return client


def _silences() -> tuple[type[Exception], ...]:
    """Return what kazoo raises if there is no answer."""
    from kazoo.handlers.threading import KazooTimeoutError

    return ConnectionLoss, SessionExpiredError, KazooTimeoutError


def _or_none(get: Callable[..., Any], timeout_s: float) -> Any:
    try:
        return get(timeout=timeout_s)
    except NoNodeError:
        return None


def _stop(client: "KazooClient") -> None:
    with suppress(Exception):  # nobody waits for it, and the session ends by itself
        client.stop()
        client.close()
