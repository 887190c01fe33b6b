"""Clients of the workload `zookeeper`, with ZooKeeper servers that keep their word and that lie."""

import socket
import struct
from collections.abc import Iterator, Sequence

import pytest
from lying_servers import Handler, serving
from test_lying_servers import CONNECTED, framed

from checkers.look import decode
from checkers.zookeeper.watches import WATCH, WatchedNode
from harness.clusters.kazoo_session import KazooSession
from harness.core.clock import WallClock
from harness.core.op import Kind, Op
from workloads.zookeeper_clients import ChildrenClient, WatchClient

EXISTS, SYNC, CLOSE = 3, 9, -11
"""Types of requests."""
NO_NODE = -101
"""Error of an answer."""
EVENT = framed(struct.pack(">iqi", -1, -1, 0) + struct.pack(">iii", 3, 3, 4) + b"/n/0")
"""Event of a watch: the node's data changed."""


def requests(connection: socket.socket) -> Iterator[tuple[int, int]]:
    """Yield the number and the type of each request after the first, which opens the session."""
    stream = connection.makefile("rb")
    opening = True
    while head := stream.read(4):
        body = stream.read(struct.unpack(">i", head)[0])
        if not opening:
            xid, kind = struct.unpack(">ii", body[:8])
            yield xid, kind
        else:
            connection.sendall(framed(CONNECTED))
        opening = False


def stat(version: int) -> bytes:
    """Return the stat of a node."""
    return struct.pack(">qqqqiiiqiiq", 1, 1, 0, 0, version, 0, 0, 0, 1, 0, 1)


def showing(script: Sequence[int | str]) -> Handler:
    """Answer each question for the node with the next version of the script, the last for ever,
    with an event where the script says so."""

    def handle(connection: socket.socket) -> None:
        left = list(script)
        for xid, kind in requests(connection):
            body = struct.pack(">i", 2) + b"/n" if kind == SYNC else b""
            if kind == EXISTS:
                while left[0] == "event":
                    connection.sendall(EVENT)
                    left.pop(0)
                version = left.pop(0) if len(left) > 1 else left[0]
                assert isinstance(version, int), "a script ends with a version"
                body = stat(version)
            connection.sendall(framed(struct.pack(">iqi", xid, 1, 0) + body))
            if kind == CLOSE:
                return

    return handle


@pytest.mark.parametrize(
    ("script", "look", "wrong"),
    [
        ([3, 3, "event", 4, 5], WatchedNode(3, [3, 4, 5], [1]), []),
        ([3, "event", 5, 7], WatchedNode(3, [5, 7], [0]), []),
        ([3, 4, "event", 5], WatchedNode(3, [4, 5], [1]), ["late"]),
        ([3, "event", 4, "event", 5], WatchedNode(3, [4, 5], [0, 1]), ["twice"]),
        ([3, "event", 3, 4, 5], WatchedNode(3, [3, 4, 5], [0]), ["unfounded"]),
        ([3, 4, 5], None, ["lost-event"]),
        # An event of a watch that was set before is none of this one's.
        (["event", 3, 3, "event", 4, 5], WatchedNode(3, [3, 4, 5], [1]), []),
    ],
)
def test_the_place_of_an_event_is_that_among_the_answers_on_the_wire(
    script: list[int | str], look: WatchedNode | None, wrong: list[str]
) -> None:
    with serving(showing(script)) as endpoint:
        client = WatchClient(lambda: KazooSession([endpoint]), "/n", WallClock(), synced=True)
        op = Op(index=0, process=0, kind=Kind.INVOKE, f=WATCH, time_ns=0, key=0)
        done = client.invoke(op)
        client.close()
    assert done.kind is Kind.OK, done.error
    end = Op(index=1, process=0, kind=Kind.OK, f=WATCH, time_ns=0, value=done.value)
    seen = decode(end, WatchedNode)
    assert seen.violations() == wrong
    if look is not None:
        assert seen == look


def test_a_zookeeper_that_has_lost_the_node_above_all_others_answers_nothing() -> None:
    def forgetful(connection: socket.socket) -> None:
        for xid, kind in requests(connection):
            connection.sendall(framed(struct.pack(">iqi", xid, 1, 0 if kind == CLOSE else NO_NODE)))

    with serving(forgetful) as endpoint:
        client = ChildrenClient(lambda: KazooSession([endpoint]), "/n", WallClock(), synced=True)
        done = client.invoke(
            Op(index=0, process=0, kind=Kind.INVOKE, f="insert", time_ns=0, key=0, value=1)
        )
        client.close()
    assert (done.kind, done.error) == (Kind.INFO, "NoNodeError: /n is gone")
