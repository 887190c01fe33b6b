"""Answers of ZooKeeper and ClickHouse Keeper to four-letter words, as recorded."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from harness.clusters.keeper import KeeperState, is_alive, state
from harness.core.protocols import Endpoint

ZOOKEEPER_SRVR = """\
Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25
Latency min/avg/max: 0/0.5/12
Received: 212
Sent: 211
Connections: 3
Outstanding: 0
Zxid: 0x30000002a
Mode: follower
Node count: 33
"""
KEEPER_SRVR = """\
ClickHouse Keeper version: v21.11.1.1-prestable-7a4a0b0edef0ad6e0aa662cd3b90c3f4acf796e7
Latency min/avg/max: 0/0/0
Received: 2
Sent: 2
Connections: 1
Outstanding: 0
Zxid: 0x22
Mode: leader
Node count: 4
"""
"""Answer in the manual of ClickHouse Keeper, section "4lw commands", with the Zxid in the format of
current servers (src/Coordination/FourLetterCommand.cpp, formatZxid). No real Keeper was
available."""
KEEPER_LGIF = """\
first_log_idx\t1
first_log_term\t1
last_log_idx\t101
last_log_term\t7
last_committed_log_idx\t100
leader_committed_log_idx\t101
target_committed_log_idx\t101
last_snapshot_idx\t50
"""
NOT_SERVING = "This instance is not currently serving requests"


@contextmanager
def server(answers: Mapping[str, str]) -> Iterator[Endpoint]:
    """Answer words on a free port, and close a connection at an unknown word, as both servers
    do."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(answers.get(connection.recv(4).decode(), "").encode())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Endpoint("127.0.0.1", listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"srvr": ZOOKEEPER_SRVR}, KeeperState("follower", 3, "3.8.0", zxid=0x30000002A)),
        ({"srvr": NOT_SERVING}, KeeperState("", 0, "")),
        (
            {"srvr": KEEPER_SRVR, "lgif": KEEPER_LGIF},
            KeeperState("leader", 7, "21.11.1.1", clickhouse=True),
        ),
        # before 22.11
        ({"srvr": KEEPER_SRVR}, KeeperState("leader", 0, "21.11.1.1", clickhouse=True)),
    ],
    ids=["zookeeper", "no leader", "keeper", "keeper without lgif"],
)
def test_the_state_of_a_server(answers: Mapping[str, str], expected: KeeperState) -> None:
    with server(answers) as endpoint:
        assert state(endpoint) == expected


def test_a_server_is_alive_that_says_so() -> None:
    with server({"ruok": "imok"}) as endpoint:
        assert is_alive(endpoint) is None
        assert state(endpoint) == KeeperState("", 0, "")
    assert "does not answer" in str(is_alive(endpoint))
    assert state(endpoint) is None
