"""kazoo's client with limits on what a server may send, and for how long. Slow to load."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from socket import SHUT_RDWR
from threading import Thread
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Close, Watch
from kazoo.protocol.states import EVENT_TYPE_MAP
from kazoo.retry import KazooRetry

ANSWER_BYTES_MAX: Final = 1 << 26
"""Size of an answer that is refused. ZooKeeper's own limit for a node, `jute.maxbuffer`, is 1 MB; a
list of children may be larger."""
CLOSE_S: Final = 1.0
"""Time after which the connection of a session is cut that its server does not end."""


class _KazooConnection(ConnectionHandler):  # type: ignore[misc] # kazoo has no types
    """Connection that refuses answers of a size that none has, and counts its messages."""

    arrived = 0
    """Number of messages that have come."""
    answered = 0
    """Number of messages that had come with the last answer to a request, itself included."""

    listeners: Mapping[str, Callable[[str, int], None]]
    """By path: who is told of each event of a watch, with its type and its number. kazoo itself
    forgets a watch with its first event, and would hide a second one."""

    sends_pings = True
    """Whether a session without requests is kept alive."""

    def _send_ping(self, connect_timeout: float) -> None:
        if self.sends_pings:
            super()._send_ping(connect_timeout)

    def zk_loop(self) -> None:
        """Read and write until the session ends. What a server made the loop raise ends it, and the
        requests that wait for an answer learn that."""
        with suppress(Exception):
            super().zk_loop()

    def _read_socket(self, read_timeout: float) -> Any:
        self.arrived += 1
        return super()._read_socket(read_timeout)

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        if event.path in self.listeners:
            self.listeners[event.path](EVENT_TYPE_MAP.get(event.type, "unknown"), self.arrived)
        super()._read_watch_event(buffer, offset)

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        self.answered = self.arrived  # before anybody learns of the answer
        return super()._read_response(header, buffer, offset)

    def _read(self, length: int, timeout: float) -> bytes:
        if not 0 <= length <= ANSWER_BYTES_MAX:
            raise ConnectionDropped(f"an answer of {length:,} bytes")
        return bytes(super()._read(length, timeout))


def new_client(hosts: str, session_s: float) -> KazooClient:
    """Return a client that is not started."""
    retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.2)
    client = KazooClient(hosts=hosts, timeout=session_s, connection_retry=retry)
    client._connection = _KazooConnection(client, client._conn_retry.copy())
    client._connection.listeners = {}
    # The loss of a connection is told to its watches before there is another one.
    client.handler.dispatch_callback = lambda callback: callback.func(*callback.args)
    return client


class _AnsweredClose(Close):  # type: ignore[misc] # kazoo has no types
    """Request that ends a session, whose answer somebody waits for."""

    def __bool__(self) -> bool:
        """Return that it is a request: kazoo hands on no answer to an empty tuple."""
        return True

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> bool:  # noqa: ARG003
        """Return that the session is over."""
        return True


def ask_to_end(client: KazooClient) -> Any:
    """Ask a server to end the session, and return the answer as kazoo's own requests do."""
    answer = client.handler.async_result()
    client._call(_AnsweredClose(), answer)
    return answer


def cut(client: KazooClient) -> None:
    """Cut the connection of a session, which no later connection takes up again. Does not wait."""
    client._stopped.set()  # before the cut, which would have kazoo connect again
    with suppress(OSError, AttributeError):  # it may be connecting just now
        client._connection._socket.shutdown(SHUT_RDWR)
    Thread(target=_release, args=(client,), name="zookeeper-cut", daemon=True).start()


def _release(client: KazooClient) -> None:
    with suppress(Exception):  # nobody waits for it
        client._safe_close()
        client.close()


def end_session(client: KazooClient) -> None:
    """End a session, in a thread that nobody waits for. A server that sends bytes for ever would
    hold kazoo's own thread for ever."""
    Thread(target=_end, args=(client,), name="zookeeper-close", daemon=True).start()


def _end(client: KazooClient) -> None:
    stop = Thread(target=_stop, args=(client,), name="zookeeper-stop", daemon=True)
    stop.start()
    stop.join(CLOSE_S)
    while stop.is_alive():
        with suppress(OSError, AttributeError):  # it may be connecting just now
            client._connection._socket.shutdown(SHUT_RDWR)
        stop.join(CLOSE_S)


def _stop(client: KazooClient) -> None:
    with suppress(Exception):  # nobody waits for it, and the session ends by itself
        client.stop()
        client.close()
