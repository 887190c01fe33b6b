"""Servers that never end their answer, or answer something else than was asked: each is one error
in a limited time and memory."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from lying_servers import (
    END,
    HELLO,
    PROGRESS,
    Handler,
    block,
    clickhouse,
    dripping,
    endless,
    four_letter_words,
    http,
    serving,
    text,
    varint,
)
from real_servers import wait_until

from harness.clients.clickhouse import ClickHouse, DatabaseError
from harness.clients.replicated_table import drop_database
from harness.clusters import bucket, http_answer, kazoo_session
from harness.clusters.bucket import object_sizes, remove_objects
from harness.clusters.driver import Driver
from harness.clusters.kazoo_session import KazooSession
from harness.clusters.keeper import read_state, state
from harness.clusters.replica import query_value
from harness.clusters.store_http import HttpStoreChannel
from harness.core.bucket import Bucket
from harness.core.connections import QueryError, ZooKeeperError
from harness.core.errors import ClusterError
from harness.core.outcomes import CLIENT_TIMEOUT, UNREADABLE, UNSENT

LIMIT_S = 0.3
SOON_S = 20.0
"""Time in which a loaded machine ends any call here; a lie lasts for ever."""

ROW = block(("UInt64", [7]))
HEAD = b"\1" + text("") + b"\1\1" + text("c") + text("String")
"""Block of one row, up to the length of its string."""
NESTED = b"\2" + (bytes(7) + b"\1") * 1_500
"""Exceptions without texts, one in the other."""


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    before = time.monotonic()
    yield
    assert time.monotonic() - before < SOON_S


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        pytest.param(
            lambda: dripping(PROGRESS),
            CLIENT_TIMEOUT,
            "timed out|no whole answer",
            id="slow progress",
        ),
        pytest.param(
            lambda: endless(PROGRESS), UNREADABLE, "an answer of more than", id="progress"
        ),
        pytest.param(lambda: endless(ROW), UNREADABLE, "an answer of more than", id="blocks"),
        pytest.param(
            lambda: [HEAD, varint(1 << 60), END],
            UNREADABLE,
            "cannot be read: (MemoryError|OverflowError)",
            id="a string longer than memory",
        ),
        pytest.param(
            lambda: chain([HEAD, varint(1 << 32)], endless(b"x")),
            UNREADABLE,
            "an answer of more than",
            id="a string longer than an answer",
        ),
        pytest.param(
            lambda: [block(("String", ()), rows=1 << 30)],
            UNREADABLE,
            "an answer of 1,073,741,824 strings",
            id="strings that are not there",
        ),
        pytest.param(
            lambda: [NESTED],
            UNREADABLE,
            "cannot be read: RecursionError",
            id="exceptions in exceptions",
        ),
        pytest.param(
            lambda: [ROW, block(("UInt64", [7]), ("UInt64", [7])), END],
            UNREADABLE,
            "cannot be read: IndexError",
            id="blocks of different width",
        ),
    ],
)
def test_a_query_ends_whatever_clickhouse_answers(
    answer: Callable[[], Iterable[bytes]], code: int, said: str
) -> None:
    with serving(clickhouse(lambda _: answer())) as endpoint:
        limit_s = LIMIT_S if code == CLIENT_TIMEOUT else SOON_S
        asking = Driver(endpoint, limit_s, bytes_max=1 << 14)
        with pytest.raises(QueryError, match=said) as error:
            asking.ask("SELECT 7", {}, None)
        asking.disconnect()
    assert error.value.code == code


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        (lambda: endless(PROGRESS), "got Progress|more than"),
        (lambda: chain([b"\0", varint(1 << 40)], endless(b"x")), "an answer of more than"),
        (lambda: chain([b"\0", varint(1 << 40)], dripping(b"x")), "did not answer in time"),
        (lambda: [NESTED], "RecursionError"),
        (lambda: [b"\0\1\xff"], "UnicodeDecodeError"),
    ],
)
def test_a_query_is_not_sent_to_a_server_that_greets_for_ever(
    hello: Callable[[], Iterable[bytes]], said: str
) -> None:
    with serving(clickhouse(lambda _: [ROW, END], hello())) as endpoint:
        limit_s = LIMIT_S if "time" in said else SOON_S
        asking = Driver(endpoint, limit_s, bytes_max=1 << 14)
        with pytest.raises(QueryError, match=said) as error:
            asking.ask("SELECT 7", {}, None)
        asking.disconnect()
    assert error.value.code == UNSENT


def test_each_answer_has_its_own_limits() -> None:
    """A connection outlives the time and the size of one answer."""
    with serving(clickhouse(lambda _: [ROW, END])) as endpoint:
        asking = Driver(endpoint, SOON_S, bytes_max=len(HELLO) + len(ROW) + len(END))
        for _ in range(10):
            assert asking.ask("SELECT 7", {}, None) == [(7,)]
        asking.disconnect()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([END], "expected 1 row of (str), got none"),
        ([ROW, END], "expected 1 row of (str), got 1, the first (7,)"),
        (
            [block(("String", ["25.8"]), ("String", ["1"])), END],
            "expected 1 row of (str), got 1, the first ('25.8', '1')",
        ),
        ([HEAD, b"\1\xff", END], "expected 1 row of (str), got 1, the first (b'\\xff',)"),
        (
            [block(("String", ["25.8", "25.3"])), END],
            "expected 1 row of (str), got 2, the first ('25.8',)",
        ),
        (
            [block(("String", ["x" * 1_000] * 2)), END],
            f"expected 1 row of (str), got 2, the first ('{'x' * 98}",
        ),
    ],
)
def test_a_result_of_another_shape_is_an_error_that_says_what_came(
    rows: Iterable[bytes], said: str
) -> None:
    with serving(clickhouse(lambda _: rows)) as endpoint:
        with pytest.raises(ClusterError) as asked:
            query_value(endpoint, "SELECT version()", str)
        client = ClickHouse(Driver(endpoint, SOON_S))
        with pytest.raises(DatabaseError) as called:
            client.row("SELECT version()", (str,))
        client.close()
    assert str(asked.value) == f"127.0.0.1:{endpoint.port}: SELECT version(): {said}"
    assert str(called.value) == f"{UNREADABLE}: SELECT version(): {said}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda: endless(b"Mode: leader\n"), "answers more than 1,048,576 bytes to srvr"),
        (lambda: dripping(b"Mode: leader\n"), "timed out"),
        (lambda: [b"Zxid: many\n"], "answers srvr or lgif with what is no number"),
    ],
)
def test_a_four_letter_word_is_not_answered_for_ever(
    answer: Callable[[], Iterable[bytes]], said: str
) -> None:
    words = {"srvr": answer()}
    with serving(four_letter_words(words)) as endpoint, pytest.raises(ClusterError, match=said):
        read_state(endpoint)
    words = {"srvr": answer()}
    with serving(four_letter_words(words)) as endpoint:
        assert state(endpoint) is None


CONNECTED = struct.pack(">iiq", 0, 6_000, 1) + struct.pack(">i", 16) + bytes(16) + b"\0"
"""Answer to a client that asks for a session."""


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def zookeeper(answer: Callable[[], Iterable[bytes]], hello: Iterable[bytes] = ()) -> Handler:
    """Open a session, and answer everything after it so."""

    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        for part in hello or (framed(CONNECTED),):
            connection.sendall(part)
        connection.recv(65536)
        for part in answer():
            connection.sendall(part)
        while connection.recv(65536):
            pass

    return handle


def reply(body: bytes, xid: int = 1) -> bytes:
    return framed(struct.pack(">iqi", xid, 1, 0) + body)


PING = reply(b"", -2)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(list, id="none"),
        pytest.param(lambda: dripping(PING), id="a byte now and then"),
        pytest.param(lambda: endless(PING), id="pings"),
        pytest.param(lambda: chain([struct.pack(">i", 2**31 - 1)], endless(b"x")), id="2 GB"),
        pytest.param(lambda: [struct.pack(">i", -1)], id="a negative length"),
        pytest.param(lambda: [reply(b"", 77)], id="another request"),
        pytest.param(lambda: [reply(struct.pack(">i", 99) + b"x")], id="a node that ends early"),
    ],
)
def test_a_session_with_a_server_that_lies_ends(
    answer: Callable[[], Iterable[bytes]], capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(zookeeper(answer)) as endpoint:
        session = KazooSession([endpoint], timeout_s=LIMIT_S)
        with pytest.raises(ZooKeeperError) as error:
            session.ask("get", "/harness")
        assert error.value.sent
        with pytest.raises(ZooKeeperError, match="the session is lost"):
            session.ask("get", "/harness")
        session.close()
        wait_until(lambda: not kazoo_threads(), "no thread waits for the server")
    assert capfd.readouterr().err == ""


def kazoo_threads() -> list[str]:
    return [
        thread.name
        for thread in threading.enumerate()
        if "zk_loop" in thread.name or thread.name.startswith("zookeeper-")
    ]


@pytest.mark.parametrize(
    "hello",
    [
        pytest.param(list, id="none"),
        pytest.param(lambda: chain([struct.pack(">i", 2**31 - 1)], endless(b"x")), id="2 GB"),
        pytest.param(lambda: chain([struct.pack(">i", 99)], dripping(b"x")), id="slowly"),
        pytest.param(lambda: [framed(b"x")], id="garbage"),
    ],
)
def test_no_session_begins_with_a_server_that_lies(
    hello: Callable[[], Iterable[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kazoo_session, "CONNECT_TIMEOUT_S", LIMIT_S)
    with serving(zookeeper(list, iter(hello()))) as endpoint:
        session = KazooSession([endpoint], timeout_s=LIMIT_S)
        with pytest.raises(ZooKeeperError, match="no session with 127") as error:
            session.ask("get", "/harness")
        assert not error.value.sent
        wait_until(lambda: not kazoo_threads(), "no thread waits for the server")


OK = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "body", "said"),
    [
        (OK, lambda: endless(b"x"), "an answer of more than 1,000,000 bytes"),
        (OK, lambda: dripping(b"x"), "no whole answer within 0.3 s"),
        (b"", lambda: dripping(OK), "no whole answer within 0.3 s"),
        (b"", lambda: endless(b"HTTP/1.1 100 Continue\r\n\r\n"), "no whole answer within 0.3 s"),
        (b"", lambda: endless(b"x"), "got more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\n", lambda: endless(b"a: b\r\n"), "got more than 100 headers"),
    ],
)
def test_an_object_store_that_answers_for_ever_is_given_up(
    head: bytes, body: Callable[[], Iterable[bytes]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_answer, "BYTES_MAX", 1_000_000)
    limit_s = LIMIT_S if "within" in said else SOON_S
    with serving(http(head, body())) as endpoint:
        own = Bucket(f"http://127.0.0.1:{endpoint.port}", "b")
        with pytest.raises(QueryError, match=said):
            HttpStoreChannel(own, limit_s).request("GET", "/b")


@dataclass(frozen=True)
class Pages:
    """Store that has another page of its listing for ever."""

    keys: Iterator[str]
    bucket: Bucket = field(default_factory=lambda: Bucket("http://s", "b", "p/"))
    logs_requests: bool = False

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        if method == "DELETE":
            return 204, ""
        key = next(self.keys)
        return 200, (
            "<ListBucketResult><IsTruncated>true</IsTruncated><Contents>"
            f"<Key>{key}</Key><Size>1</Size></Contents></ListBucketResult>"
        )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (lambda: repeat("a"), "without end: 1 up to 'a'"),
        (lambda: (f"{at:04d}" for at in count()), "without end: 101 up to '0099'"),
    ],
)
def test_a_listing_without_end_is_given_up(
    keys: Callable[[], Iterator[str]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "OBJECTS_MAX", 100)
    with pytest.raises(QueryError, match=said):
        object_sizes(Pages(keys()))
    with pytest.raises(QueryError, match=said):
        remove_objects(Pages(keys()))


def test_a_database_that_stays_on_a_server_is_named_with_the_statement_that_drops_it() -> None:
    engines = SimpleNamespace(on=lambda _: SimpleNamespace(drop_database="DROP DATABASE {}".format))
    cluster: Any = SimpleNamespace(engines=engines)
    with serving(clickhouse(lambda _: [END])) as alive, serving(clickhouse(lambda _: [])) as silent:
        connections = {
            "ch1": ClickHouse(Driver(alive, SOON_S)),
            "ch2": ClickHouse(Driver(silent, LIMIT_S)),
        }
        left = drop_database(cluster, "d", connections)
        for connection in connections.values():
            connection.close()
    assert left == ["ch2 was not cleaned up (timed out): DROP DATABASE d"]
