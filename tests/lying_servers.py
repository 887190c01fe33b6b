"""Servers that answer as the protocols begin and then lie: plain sockets, a thread each."""

import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

from harness.core.protocols import Endpoint

Handler = Callable[[socket.socket], None]
"""Serves one connection; an OSError ends it."""


@contextmanager
def serving(handle: Handler) -> Iterator[Endpoint]:
    """Serve connections on a free port, and end them with the block."""
    opened: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            handle(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                opened.append(listener.accept()[0])
                threads.append(threading.Thread(target=serve, args=(opened[-1],), daemon=True))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield Endpoint("127.0.0.1", listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for connection in opened:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for one in (thread, *threads):
                one.join()


def endless(data: bytes) -> Iterator[bytes]:
    """Yield the same bytes for ever, many at a time."""
    many = data * (1 + 65536 // len(data))
    while True:
        yield many


def dripping(data: bytes, pause_s: float = 0.02) -> Iterator[bytes]:
    """Yield the same bytes for ever, one at a time, sooner than any time-out of a single read."""
    while True:
        for byte in data:
            time.sleep(pause_s)
            yield bytes([byte])


def four_letter_words(answers: Mapping[str, Iterable[bytes]]) -> Handler:
    """Answer words as ZooKeeper does; say nothing to others."""

    def handle(connection: socket.socket) -> None:
        word = connection.recv(64).decode(errors="replace")
        for part in answers.get(word, ()):
            connection.sendall(part)

    return handle


def http(head: bytes, body: Iterable[bytes]) -> Handler:
    """Answer every HTTP request so."""

    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(head)
        for part in body:
            connection.sendall(part)

    return handle


def varint(number: int) -> bytes:
    """Return a number as the native protocol has it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def text(value: str) -> bytes:
    """Return a string of the native protocol."""
    return varint(len(value.encode())) + value.encode()


HELLO = b"\0" + text("ClickHouse") + varint(25) + varint(8) + varint(51000)
"""Greeting of a server whose protocol is so old that little else must be sent."""
PROGRESS = b"\3\1\1"
END = b"\5"


def block(*columns: tuple[str, Sequence[object]], rows: int | None = None) -> bytes:
    """Return a block of columns of a type and values, or of a number of rows that it has not."""
    count = len(columns[0][1]) if rows is None else rows
    out = b"\1" + text("") + varint(len(columns)) + varint(count)
    for kind, values in columns:
        out += text("c") + text(kind)
        for value in values:
            out += text(value) if isinstance(value, str) else struct.pack("<Q", value)
    return out


QUERY = re.compile(rb"(SELECT|INSERT|CREATE|DROP|SYSTEM|ALTER|DESCRIBE|OPTIMIZE|KILL)[^\0]*")


def clickhouse(answer: Callable[[str], Iterable[bytes]], hello: Iterable[bytes] = ()) -> Handler:
    """Greet as ClickHouse does, or as `hello`, and answer queries by their text."""

    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        for part in hello or (HELLO,):
            connection.sendall(part)
        sent = b""
        while more := connection.recv(65536):
            sent += more
            if sent == b"\4":
                connection.sendall(b"\4")
            elif not sent.endswith(b"\2\0\0\0"):  # the empty block after a query
                continue
            elif found := QUERY.search(sent):
                for part in answer(found[0].removesuffix(b"\2").decode()):
                    connection.sendall(part)
            sent = b""

    return handle
