"""A session with ZooKeeper: every request has a time limit, and a lost session stays lost."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import ConnectionLoss, KazooException, SessionExpiredError

from harness.core.op import Done, Kind
from harness.core.protocols import Endpoint

if TYPE_CHECKING:
    # Slow to load, and of no use to simulated servers: loaded where it is needed.
    from kazoo.client import KazooClient

CONNECT_TIMEOUT_S = 3.0
SESSION_S = 6.0


class ZooKeeperError(Exception):
    """A request had no answer. `sent`: it may have taken effect."""

    def __init__(self, sent: bool, text: str) -> None:
        super().__init__(text)
        self.sent = sent

    @property
    def done(self) -> Done:
        """How a write ended that failed so; a read that did not answer retires its process too,
        for the next session is another one and may read older state."""
        return Done(Kind.INFO if self.sent else Kind.FAIL, error=str(self))


class ZooKeeper:
    """One session, opened on the first request, with any of `endpoints`. Once it could not answer
    in time it answers nothing more: close it. Not for two threads at once."""

    def __init__(self, endpoints: Sequence[Endpoint], *, timeout_s: float = 3.0) -> None:
        self._hosts = ",".join(f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints)
        self._timeout_s = timeout_s
        self._client: KazooClient | None = None
        self._session: int | None = None

    def ask(self, request: str, *arguments: Any, **named: Any) -> Any:
        """The answer to one request, named as kazoo names it: "get", "set", "create", "sync".

        Raises ZooKeeperError, and what ZooKeeper itself says: NoNodeError, BadVersionError.
        """
        return self.ask_all([(request, arguments)], **named)[0]

    def ask_all(
        self, requests: Sequence[tuple[str, tuple[Any, ...]]], **named: Any
    ) -> tuple[Any, ...]:
        """Several, sent one after the other without waiting, answered in this order."""
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

    def each(
        self, request: str, paths: Sequence[str], missing: type[KazooException]
    ) -> dict[str, Any]:
        """The answers by path; None where ZooKeeper raised `missing`."""
        client = self._opened()
        try:
            sent = {path: getattr(client, f"{request}_async")(path) for path in paths}
            return {path: _or_none(one.get, self._timeout_s, missing) for path, one in sent.items()}
        except _silences() as error:
            self._session = -1
            raise ZooKeeperError(True, f"{type(error).__name__}: {error}".rstrip(": ")) from error

    def close(self) -> None:
        """May be called twice. Does not wait for a server that is silent."""
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
    """What kazoo raises when there is no answer."""
    from kazoo.handlers.threading import KazooTimeoutError

    return ConnectionLoss, SessionExpiredError, KazooTimeoutError


def _or_none(get: Callable[..., Any], timeout_s: float, missing: type[KazooException]) -> Any:
    try:
        return get(timeout=timeout_s)
    except missing:
        return None


def _stop(client: "KazooClient") -> None:
    with suppress(Exception):  # nobody waits for it, and the session ends by itself
        client.stop()
        client.close()
