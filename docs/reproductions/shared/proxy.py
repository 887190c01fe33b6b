"""Proxy for a replica's connections that stops single messages selected by their content.

It runs inside a node's pod. The kernel redirects to it what the database sends to ZooKeeper (port
2181) and what other replicas send to the database's interserver port (9009); the kernel also
knows the original destinations. A message that no rule matches passes unchanged. Commands arrive
on a Unix socket, one JSON object per line in and out.

A rule names a channel ("zookeeper", "interserver"), an edge ("request", "response"), an action,
words that the request must contain, words that it must not contain ("without"), words of an
earlier request of the channel without which it does not apply yet ("after") and, for ZooKeeper, the
kind of request ("op"). The actions:
  cut    close both connections instead of forwarding the message;
  half   forward a part of the message, then close both connections;
  stall  forward `stall_bytes` of the message, in as many packets as it comes, and hold back the
         rest until the rules are cleared; shorter messages pass;
  drop   forward nothing in this direction from this message on, and keep the connections open;
  shut   like cut, and close every connection of the channel until the rules are cleared;
  delay  hold back the message and everything behind it for `delay_s`;
  hold   hold back the message and everything behind it until the rule is released or cleared, or
         cut, which ends the connection; `alone`: only the message, as if the thread that sends it
         were slow;
  count  forward the message.
A rule with `skip` lets so many messages pass before it applies. Of the requests to ZooKeeper that
hold and count apply to, "answered" counts the answers.
The proxy uses only the standard library.
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

CONTROL = "/run/harness-proxy.sock"
PORTS = {"zookeeper": 12181, "interserver": 19009}
SO_ORIGINAL_DST = 80
OPS = {
    "get": (4,),
    "multi": (14,),
    "read": (3, 4, 8, 12, 22),
    "write": (1, 2, 5, 14, 15, 19),
}
"""ZooKeeper's type codes: get; multi; exists, get, getChildren, getChildren2 and multiRead; create,
delete, setData, multi, create2 and createContainer."""
HALF_BYTES = 400
_AT_ONCE = struct.pack("ii", 1, 0)
"""Option SO_LINGER with which a connection that is closed sends a reset."""
"""Size of what `half` forwards: the header of an answer and the beginning of a part."""
CHUNK = 1 << 16


@dataclass
class Rule:
    """Messages to match and the action to take on them."""

    name: str
    channel: str
    edge: str
    do: str
    words: list[str]
    delay_s: float = 0.0
    stall_bytes: int = 0
    op: str = "multi"
    without: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    alone: bool = False
    skip: int = 0
    cut: bool = False
    resets: bool = False
    """Whether it ends connections with a reset."""
    hits: int = 0
    answered: int = 0
    cleared: asyncio.Event = field(default_factory=asyncio.Event)

    def matches(self, channel: str, request: bytes) -> bool:
        """Return whether the rule applies to a request."""
        if self.after:  # not yet: only to requests behind this one
            if all(word.encode() in request for word in self.after):
                self.after = []
            return False
        if channel == "zookeeper":
            kind = len(request) >= 12 and struct.unpack_from(">i", request, 8)[0] in OPS[self.op]
        else:
            kind = request.startswith((b"GET ", b"POST "))
        if not kind or channel != self.channel or any(w.encode() in request for w in self.without):
            return False
        if not all(word.encode() in request for word in self.words):
            return False
        self.skip -= 1
        return self.skip < 0


@dataclass
class State:
    """Rules and connections of the proxy."""

    rules: dict[str, Rule] = field(default_factory=dict)
    released: dict[str, Rule] = field(default_factory=dict)
    """Rules that apply to no further message; those that they held back may be unanswered."""
    relays: set["Relay"] = field(default_factory=set)
    stalled: set["Relay"] = field(default_factory=set)
    served: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PORTS, 0))

    def rule(self, channel: str, request: bytes) -> Rule | None:
        """Return the first rule that matches a request."""
        # Every rule sees every request, because some wait for one.
        matching = [rule for rule in self.rules.values() if rule.matches(channel, request)]
        return matching[0] if matching else None

    def shut(self, channel: str) -> bool:
        """Return whether a rule has shut the channel."""
        return any(r.do == "shut" and r.hits and r.channel == channel for r in self.rules.values())

    def execute(self, command: str, arguments: dict[str, Any]) -> Any:
        """Execute one command and return the state after it."""
        if command == "arm":
            rule = Rule(**arguments)
            self.rules[rule.name] = rule
        elif command == "clear":
            for rule in self.rules.values():
                rule.cleared.set()
            self.rules.clear()
            self.released.clear()
            for relay in list(self.stalled):
                relay.end()
        elif command == "release":
            released = self.rules.pop(arguments["name"], None)
            if released is not None:
                self.released[released.name] = released
                released.cut = arguments.get("cut", False)
                released.cleared.set()
        elif command != "state":
            raise ValueError(f"no command {command}")
        return {
            "hits": {name: rule.hits for name, rule in self.rules.items()},
            "unanswered": {
                name: rule.hits - rule.answered
                for name, rule in (self.released | self.rules).items()
                if rule.do in ("hold", "count") and rule.channel == "zookeeper"
            },
            "counts": [name for name, rule in self.rules.items() if rule.do == "count"],
            "stalled": len(self.stalled),
            "served": self.served,
        }


class Relay:
    """Connection of a client, and the one to its original destination."""

    def __init__(self, state: State, channel: str) -> None:
        self._state = state
        self.channel = channel
        self._transports: list[asyncio.WriteTransport] = []
        self._watched: dict[object, Rule] = {}
        """Rules for responses, by the number of their request."""
        self._unanswered: dict[object, Rule] = {}
        """Rules that held back or counted a request, by its number."""
        self._aside: set[asyncio.Task[None]] = set()
        """Messages that are held back alone."""
        self._dropped: set[str] = set()
        """Edges on which nothing is forwarded any more."""
        self._resets = False
        """Whether its connections end with a reset."""
        self._stalling: Rule | None = None
        """Rule by which the response is stalled."""
        self._stall_left = 0
        """Number of its bytes that are still forwarded."""

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward messages until both sides have ended or one is cut."""
        self._transports.append(writer.transport)
        host, port = original(writer.get_extra_info("socket"))
        if self.channel == "interserver":
            host = os.environ["REPLICA"]
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
        there = self._forward(reader, far_writer, "request")
        back = self._forward(far_reader, writer, "response")
        await asyncio.gather(there, back)
        if self not in self._state.stalled:
            self.end()

    def reset(self, rule: Rule) -> None:
        """Abort both connections by a rule, which may want their peers to get a reset."""
        self._resets = self._resets or rule.resets
        self.end()

    def end(self) -> None:
        """Abort both connections."""
        self._state.stalled.discard(self)
        for rule in self._unanswered.values():
            rule.answered += 1  # no answer will come
        self._unanswered.clear()
        for task in self._aside:
            task.cancel()
        for transport in self._transports:
            if self._resets and not transport.is_closing():
                connection = transport.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, edge: str
    ) -> None:
        read_message = read_packet if self.channel == "zookeeper" else read_chunk
        first = True
        try:
            while message := await read_message(reader):
                # The first packets of a ZooKeeper session have no number.
                if self.channel != "zookeeper" or not first:
                    message = await self._filter(message, edge, writer)
                first = False
                if message and edge not in self._dropped:
                    writer.write(message)
                    await writer.drain()
            # Only this side has ended: a client may close its half and still read the response.
            writer.write_eof()
        except (OSError, asyncio.IncompleteReadError):
            self.end()

    async def _filter(self, message: bytes, edge: str, writer: asyncio.StreamWriter) -> bytes:
        """Return what is forwarded of a message, after any delay. Raises OSError for a cut."""
        number = self._number(message)
        if edge == "request":
            rule = self._state.rule(self.channel, message)
            if rule is not None and rule.edge == "response":
                self._watched[number] = rule
                rule = None
            if rule is not None and rule.do in ("hold", "count"):
                self._unanswered[number] = rule
        else:
            if counted := self._unanswered.pop(number, None):
                counted.answered += 1
            rule = self._watched.pop(number, None)
            if rule is not None and self._state.rules.get(rule.name) is not rule:
                rule = None
        if rule is None:
            return await self._stall(message) if edge == "response" else message
        rule.hits += 1
        if rule.do == "delay":
            await asyncio.sleep(rule.delay_s)
            return message
        if rule.do == "count":
            return message
        if rule.do == "hold" and rule.alone and edge == "request":
            task = asyncio.ensure_future(self._set_aside(message, rule, writer))
            self._aside.add(task)
            task.add_done_callback(self._aside.discard)
            return b""
        if rule.do == "hold":
            await rule.cleared.wait()
            if rule.cut:
                raise ConnectionAbortedError(rule.name)
            return message
        if rule.do == "stall":
            self._stalling, self._stall_left = rule, rule.stall_bytes
            return await self._stall(message)
        if rule.do == "drop":
            self._dropped.add(edge)
            self._state.stalled.add(self)
            return b""
        if rule.do == "shut":
            for relay in list(self._state.relays):
                if relay.channel == self.channel:
                    relay.reset(rule)
        if rule.do == "half":
            self._transports[0].write(message[:HALF_BYTES])
            await asyncio.sleep(0.05)  # the kernel sends it before the connection is aborted
        self._resets = self._resets or rule.resets
        raise ConnectionAbortedError(rule.name)

    async def _set_aside(self, message: bytes, rule: Rule, writer: asyncio.StreamWriter) -> None:
        """Forward a message when its rule is released; those behind it do not wait."""
        await rule.cleared.wait()
        if rule.cut:
            self.end()
        else:
            writer.write(message)

    async def _stall(self, message: bytes) -> bytes:
        """Return what is forwarded of a response; the rest of a stalled one waits for its rule."""
        if self._stalling is None:
            return message
        now, later = message[: self._stall_left], message[self._stall_left :]
        self._stall_left -= len(now)
        if not later:
            return now
        self._transports[0].write(now)
        self._state.stalled.add(self)
        await self._stalling.cleared.wait()
        self._stalling = None
        return later

    def _number(self, message: bytes) -> object:
        """Return the number that pairs request and response; None in HTTP, which has none."""
        if self.channel == "zookeeper" and len(message) >= 8:
            return struct.unpack_from(">i", message, 4)[0]
        return None


async def read_packet(reader: asyncio.StreamReader) -> bytes:
    """Return the next packet of ZooKeeper's protocol with its length prefix; b"" at the end."""
    head = await reader.read(4)
    if not head:
        return b""
    head += await reader.readexactly(4 - len(head))
    return head + await reader.readexactly(struct.unpack(">i", head)[0])


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes that have arrived. A request for a part fits in one packet."""
    return await reader.read(CHUNK)


def original(connection: socket.socket) -> tuple[str, int]:
    """Return the original destination of a redirected connection."""
    raw = connection.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
    port, address = struct.unpack_from("!2xH4s", raw)
    return socket.inet_ntoa(address), port


def serving(
    state: State, channel: str
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Return the callback that handles the connections of one channel."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = Relay(state, channel)
        # asyncio holds only a weak reference to a task that waits for both its sides.
        state.relays.add(relay)
        try:
            await relay.run(reader, writer)
        finally:
            state.relays.discard(relay)

    return accept


async def main() -> None:
    """Serve until the process is killed."""
    state = State()

    async def control_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            command, arguments = json.loads(line)
            writer.write(json.dumps(state.execute(command, arguments)).encode() + b"\n")
            await writer.drain()
        writer.close()

    for channel, port in PORTS.items():
        await asyncio.start_server(serving(state, channel), "0.0.0.0", port)  # noqa: S104
    with contextlib.suppress(FileNotFoundError):
        os.unlink(CONTROL)
    control = await asyncio.start_unix_server(control_client, CONTROL)
    print("ready", flush=True)
    sys.stdout.close()
    await control.serve_forever()


# --- in a reproduction -----------------------------------------------------------------------------
# The proxy is a container of its own between the replica REPLICA and its ZooKeeper server TARGET, and
# before the replica's port from which others fetch parts; nothing redirects connections to it. Without arguments it serves; with them it asks the
# one that serves:
#
#   arm RULE           apply a rule, a JSON object
#   await NAME COUNT   wait until a rule holds back so many messages
#   stopped NAME       wait until a rule has applied to a message
#   release NAME       remove a rule, and wait until what it held back is answered
#   cut NAME           remove a rule, and end the connections of what it held back
#   clear              remove all rules

AWAITED_S = 20
PORTS = {"zookeeper": 2181, "interserver": 9009}


def original(connection):
    """Return where a connection is to go."""
    return os.environ["TARGET"], connection.getsockname()[1]


def ask(command, arguments):
    """Return the state of the proxy that serves, after a command."""
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(CONTROL)
        control.sendall(json.dumps([command, arguments]).encode() + b"\n")
        with control.makefile() as answer:
            return json.loads(answer.readline())


def wait_for(look):
    """Wait until the state is as a look wants it; return the exit status."""
    end = time.monotonic() + AWAITED_S
    while time.monotonic() < end:
        if look(ask("state", {})):
            return 0
        time.sleep(0.005)
    return 1


def client(command, *arguments):
    """Do what a command says; return the exit status."""
    name = arguments[0] if arguments else ""
    if command == "arm":
        return int(not ask("arm", json.loads(name))["hits"])
    if command == "clear":
        return len(ask("clear", {})["hits"])
    if command == "await":
        return wait_for(lambda state: state["unanswered"].get(name, 0) >= int(arguments[1]))
    if command == "stopped":
        return wait_for(lambda state: state["hits"].get(name, 0))
    ask("release", {"name": name, "cut": command == "cut"})
    return wait_for(lambda state: command == "cut" or not state["unanswered"].get(name, 0))


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(client(*sys.argv[1:]))
    asyncio.run(main())
