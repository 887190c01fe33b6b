"""Reads the whole tree that one ZooKeeper server shows, in few round trips.

It speaks the client protocol of ZooKeeper 3.4 to 3.9 (zookeeper.jute) itself, because a client of
one request at a time needs seconds for what takes a tenth of one in batches.
"""

import socket
import struct
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.conform.jute import Jute, JuteError
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint

TIMEOUT_S: Final = 20.0
"""Limit of time for a whole tree."""
BYTES_MAX: Final = 1 << 27
"""Limit of size for it."""
NODES_MAX: Final = 200_000
"""Number of nodes of a tree from which it is not read."""
_BATCH: Final = 500
"""Requests that are sent before the first answer is read."""
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_CONNECT: Final = struct.Struct(">iqiqi16s")
_SESSION_MS: Final = 30_000
_GET_DATA: Final = 4
_SYNC: Final = 9
_GET_CHILDREN: Final = 12
_CLOSE: Final = -11
_NO_NODE: Final = -101


class KeeperNode(NamedTuple):
    """A node as one server shows it, without the times of its changes."""

    data: int
    """CRC-32 of its data."""
    created: int
    """Transaction that created it; those of its last data and of its last children follow."""
    changed: int
    children_changed: int
    version: int
    child_version: int
    """Counts the changes of its children; sequential nodes are named by it."""
    acl_version: int
    session: int
    """The session that it ends with; 0 if it outlives all."""


@dataclass(frozen=True, slots=True)
class KeeperTree:
    """The tree of one server."""

    nodes: Mapping[str, KeeperNode]
    zxid: int
    """A transaction that the server had applied before any of it was read."""


def read_tree(endpoint: Endpoint) -> KeeperTree:
    """Return the tree that a server shows after a sync, of what changes meanwhile perhaps a part.
    Raises ClusterError."""
    with _session(endpoint) as session:
        zxid = session.sync()
        nodes: dict[str, KeeperNode] = {}
        level = ["/"]
        while level:
            below: list[str] = []
            for path, node, children in session.read(level):
                nodes[path] = node
                below += [f"{path.rstrip('/')}/{child}" for child in children]
            if len(nodes) + len(below) > NODES_MAX:
                raise ClusterError(f"its tree has over {NODES_MAX:,} nodes")
            level = below
        return KeeperTree(nodes, zxid)


def read_nodes(endpoint: Endpoint, paths: Iterable[str]) -> Mapping[str, KeeperNode]:
    """Return nodes as a server shows them after a sync, without those that do not exist. Raises
    ClusterError."""
    with _session(endpoint) as session:
        session.sync()
        return {path: node for path, node, _ in session.read([*paths])}


def _session(endpoint: Endpoint) -> "closing[_TreeReader]":
    return closing(_TreeReader(endpoint))


class _TreeReader:
    """A session with one server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._until = time.monotonic() + TIMEOUT_S
        self._received = 0
        try:
            self._socket = socket.create_connection((endpoint.host, endpoint.port), TIMEOUT_S)
        except OSError as error:
            raise ClusterError(f"cannot be reached: {error}") from error
        self._send([_CONNECT.pack(0, 0, _SESSION_MS, 0, 16, bytes(16))])
        self._answer()

    def close(self) -> None:
        """End the session, so that nothing of it is left for the server to expire."""
        with suppress(ClusterError):
            self._call([(_CLOSE, b"")])
        self._socket.close()

    def sync(self) -> int:
        """Let the server catch up with its leader; return the last transaction it has applied."""
        ((zxid, _),) = self._call([(_SYNC, _text("/"))])
        return zxid

    def read(self, paths: Sequence[str]) -> list[tuple[str, KeeperNode, list[str]]]:
        """Return the nodes that exist, each with the names of its children."""
        found = []
        for start in range(0, len(paths), _BATCH):
            batch = paths[start : start + _BATCH]
            asked = [
                (what, _text(path) + b"\0") for path in batch for what in (_GET_DATA, _GET_CHILDREN)
            ]
            answers = self._call(asked)
            for path, (_, data), (_, listed) in zip(
                batch, answers[::2], answers[1::2], strict=True
            ):
                if data is None or listed is None:
                    continue
                content = data.buffer()
                names = [listed.text() for _ in range(listed.int32())]
                stat = _STAT.unpack(data.raw(_STAT.size))
                found.append((path, _node(content, stat), names))
        return found

    def _call(self, requests: Sequence[tuple[int, bytes]]) -> list[tuple[int, Jute | None]]:
        """Return of each answer its transaction and its content; None of a node that is missing."""
        self._send([struct.pack(">ii", n, what) + body for n, (what, body) in enumerate(requests)])
        found: list[tuple[int, Jute | None]] = []
        try:
            for _ in requests:
                answer = self._answer()
                _, zxid, error = answer.int32(), answer.int64(), answer.int32()
                if error not in (0, _NO_NODE):
                    raise ClusterError(f"it answered with error {error}")
                found.append((zxid, None if error else answer))
        except JuteError as error:
            raise ClusterError(f"its answer cannot be read: {error}") from error
        return found

    def _send(self, frames: Sequence[bytes]) -> None:
        try:
            self._socket.sendall(b"".join(struct.pack(">i", len(one)) + one for one in frames))
        except OSError as error:
            raise ClusterError(f"the connection was lost: {error}") from error

    def _answer(self) -> Jute:
        length = int.from_bytes(self._take(4), "big", signed=True)
        if not 0 <= length <= BYTES_MAX:
            raise ClusterError(f"it sent an answer of {length} bytes")
        return Jute(self._take(length))

    def _take(self, count: int) -> bytes:
        self._received += count
        if self._received > BYTES_MAX:
            raise ClusterError(f"its tree has over {BYTES_MAX:,} bytes")
        taken = bytearray()
        while len(taken) < count:
            left_s = self._until - time.monotonic()
            if left_s <= 0:
                raise ClusterError(f"its tree was not read in {TIMEOUT_S:g} s")
            try:
                self._socket.settimeout(left_s)
                piece = self._socket.recv(min(count - len(taken), 1 << 20))
            except OSError as error:
                raise ClusterError(f"the connection was lost: {error}") from error
            if not piece:
                raise ClusterError("it closed the connection")
            taken += piece
        return bytes(taken)


def _node(data: bytes, stat: tuple[int, ...]) -> KeeperNode:
    created, changed, _, _, version, child_version, acl_version, session, _, _, children = stat
    return KeeperNode(
        zlib.crc32(data), created, changed, children, version, child_version, acl_version, session
    )


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded
