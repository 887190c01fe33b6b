"""Stands on the way of a replica's connections and stops single messages, by what they are.

Runs inside a node's pod. The kernel redirects to it what the database sends to ZooKeeper (port
2181) and what other replicas ask of its interserver port (9009); whither they meant to go it asks
the kernel. What no rule names passes unchanged. It is told what to do over a Unix socket, a JSON
object a line in and out.

A rule names a channel ("zookeeper", "interserver"), an edge ("request", "response"), what to do
there, words that the request must contain, and of ZooKeeper's requests which kind ("op"):
  cut    the message does not pass, and both connections end at once;
  half   a part of it passes, then as cut;
  drop   from this message on nothing passes this way, and the connections stay;
  shut   as cut, and every connection of the channel ends at once until the rules are cleared;
  delay  the message, and all behind it, waits;
  hold   the message, and all behind it, waits until the rules are cleared.
Standard library only.
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

CONTROL = "/run/harness-proxy.sock"
PORTS = {"zookeeper": 12181, "interserver": 19009}
SO_ORIGINAL_DST = 80
OPS = {"get": 4, "multi": 14}
"""ZooKeeper's codes of a read and of a transaction."""
HALF_BYTES = 400
"""The head of an answer and the beginning of a part."""
CHUNK = 1 << 16


@dataclass
class Rule:
    """What to do with which messages."""

    name: str
    channel: str
    edge: str
    do: str
    words: list[str]
    delay_s: float = 0.0
    op: str = "multi"
    hits: int = 0
    cleared: asyncio.Event = field(default_factory=asyncio.Event)

    def names(self, channel: str, request: bytes) -> bool:
        """Whether the request is one of its own."""
        if channel == "zookeeper":
            asks = len(request) >= 12 and struct.unpack_from(">i", request, 8)[0] == OPS[self.op]
        else:
            asks = request.startswith((b"GET ", b"POST "))
        return asks and channel == self.channel and all(w.encode() in request for w in self.words)


@dataclass
class State:
    """Of the whole proxy."""

    rules: dict[str, Rule] = field(default_factory=dict)
    passages: set["Passage"] = field(default_factory=set)
    stalled: set["Passage"] = field(default_factory=set)
    served: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PORTS, 0))

    def rule(self, channel: str, request: bytes) -> Rule | None:
        """The first that names the request."""
        return next((r for r in self.rules.values() if r.names(channel, request)), None)

    def shut(self, channel: str) -> bool:
        """Whether a rule has shut the channel."""
        return any(r.do == "shut" and r.hits and r.channel == channel for r in self.rules.values())

    def told(self, command: str, arguments: dict[str, Any]) -> Any:
        """Carries out one command."""
        if command == "arm":
            rule = Rule(**arguments)
            self.rules[rule.name] = rule
        elif command == "clear":
            for rule in self.rules.values():
                rule.cleared.set()
            self.rules.clear()
            for passage in list(self.stalled):
                passage.end()
        elif command != "state":
            raise ValueError(f"no command {command}")
        return {
            "hits": {name: rule.hits for name, rule in self.rules.items()},
            "stalled": len(self.stalled),
            "served": self.served,
        }


class Passage:
    """One connection of a client, and the one to where it meant to go."""

    def __init__(self, state: State, channel: str) -> None:
        self._state = state
        self.channel = channel
        self._transports: list[asyncio.WriteTransport] = []
        self._watched: dict[object, Rule] = {}
        """By the number of a request, the rule for its response."""
        self._dropped: set[str] = set()
        """Edges on which nothing passes any more."""

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until either side ends."""
        self._transports.append(writer.transport)
        host, port = original(writer.get_extra_info("socket"))
        if self.channel == "interserver":
            host = "127.0.0.1"
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port)
        except OSError:
            self.end()
            return
        self._transports.append(far_writer.transport)
        if self._state.shut(self.channel):
            self.end()
            return
        self._state.served[self.channel] += 1
        there = self._pumped(reader, far_writer, "request")
        back = self._pumped(far_reader, writer, "response")
        await asyncio.gather(there, back)
        if self not in self._state.stalled:
            self.end()

    def end(self) -> None:
        """Both connections, at once."""
        self._state.stalled.discard(self)
        for transport in self._transports:
            transport.abort()

    async def _pumped(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, edge: str
    ) -> None:
        framed = frame if self.channel == "zookeeper" else chunk
        first = True
        try:
            while message := await framed(reader):
                # The first packets of a ZooKeeper session have no number.
                if self.channel != "zookeeper" or not first:
                    message = await self._judged(message, edge)
                first = False
                if message and edge not in self._dropped:
                    writer.write(message)
                    await writer.drain()
            # Only one side is done: one that has asked for a part says no more, and listens.
            writer.write_eof()
        except (OSError, asyncio.IncompleteReadError):
            self.end()

    async def _judged(self, message: bytes, edge: str) -> bytes:
        """What of a message passes."""
        number = self._number(message)
        if edge == "request":
            rule = self._state.rule(self.channel, message)
            if rule is not None and rule.edge == "response":
                self._watched[number] = rule
                rule = None
        else:
            rule = self._watched.pop(number, None)
            if rule is not None and self._state.rules.get(rule.name) is not rule:
                rule = None
        if rule is None:
            return message
        rule.hits += 1
        if rule.do == "delay":
            await asyncio.sleep(rule.delay_s)
            return message
        if rule.do == "hold":
            await rule.cleared.wait()
            return message
        if rule.do == "drop":
            self._dropped.add(edge)
            self._state.stalled.add(self)
            return b""
        if rule.do == "shut":
            for passage in list(self._state.passages):
                if passage.channel == self.channel:
                    passage.end()
        if rule.do == "half":
            self._transports[0].write(message[:HALF_BYTES])
            await asyncio.sleep(0.05)  # for the kernel to send it before the end
        raise ConnectionAbortedError(rule.name)

    def _number(self, message: bytes) -> object:
        """ZooKeeper's answers carry the number of their request; HTTP answers in turn."""
        if self.channel == "zookeeper" and len(message) >= 8:
            return struct.unpack_from(">i", message, 4)[0]
        return None


async def frame(reader: asyncio.StreamReader) -> bytes:
    """One of ZooKeeper's packets, its length before it; b"" at the end."""
    head = await reader.read(4)
    if not head:
        return b""
    head += await reader.readexactly(4 - len(head))
    return head + await reader.readexactly(struct.unpack(">i", head)[0])


async def chunk(reader: asyncio.StreamReader) -> bytes:
    """What has come; a question for a part is less than a packet."""
    return await reader.read(CHUNK)


def original(connection: socket.socket) -> tuple[str, int]:
    """Where a redirected connection meant to go."""
    raw = connection.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
    port, address = struct.unpack_from("!2xH4s", raw)
    return socket.inet_ntoa(address), port


def serving(
    state: State, channel: str
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Takes the connections of one channel."""

    async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passage = Passage(state, channel)
        # Held here: asyncio itself would let go of one that waits for both its sides.
        state.passages.add(passage)
        try:
            await passage.run(reader, writer)
        finally:
            state.passages.discard(passage)

    return taken


async def main() -> None:
    """For ever."""
    state = State()

    async def controlled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            command, arguments = json.loads(line)
            writer.write(json.dumps(state.told(command, arguments)).encode() + b"\n")
            await writer.drain()
        writer.close()

    for channel, port in PORTS.items():
        await asyncio.start_server(serving(state, channel), "0.0.0.0", port)  # noqa: S104
    with contextlib.suppress(FileNotFoundError):
        os.unlink(CONTROL)
    control = await asyncio.start_unix_server(controlled, CONTROL)
    print("ready", flush=True)
    sys.stdout.close()
    await control.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
