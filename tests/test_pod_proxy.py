"""The proxy in a replica's pod: what it says of its rules, and how it ends connections."""

import asyncio
import struct
from typing import Any

import pytest

from compose.images.pod import pod_proxy
from compose.images.pod.pod_proxy import Relay, State

RULE = {"name": "pull", "channel": "zookeeper", "edge": "request", "do": "hold", "words": ["/log"]}


def test_a_rule_is_asked_before_a_released_one_of_its_name() -> None:
    state = State()
    state.execute("arm", RULE)
    state.rules["pull"].hits = 1
    assert state.execute("release", {"name": "pull"})["unanswered"] == {"pull": 1}
    assert state.execute("arm", RULE)["unanswered"] == {"pull": 0}


def packet(data: bytes) -> bytes:
    """Return a packet of ZooKeeper's protocol."""
    return struct.pack(">i", len(data)) + data


async def read_after_a_cut(resets: bool, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return what a client reads whose multi a rule has cut."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        writer.close()

    state = State()
    state.execute("arm", {**RULE, "do": "cut", "resets": resets})
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    monkeypatch.setattr(pod_proxy, "original", lambda _: address)

    async def relay(*streams: Any) -> None:
        await Relay(state, "zookeeper").run(*streams)

    proxy = await asyncio.start_server(relay, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*proxy.sockets[0].getsockname())
    try:
        writer.write(packet(b"a session") + packet(struct.pack(">ii", 1, 14) + b"/log"))
        return await reader.read()
    finally:
        writer.transport.abort()
        proxy.close()
        server.close()


def test_a_cut_closes_a_connection_or_resets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(read_after_a_cut(False, monkeypatch)) == b""
    with pytest.raises(ConnectionResetError):
        asyncio.run(read_after_a_cut(True, monkeypatch))
