"""Four-letter-word requests to ZooKeeper and ClickHouse Keeper servers on their client port."""

import socket
import time
from dataclasses import dataclass
from typing import Final

from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint

_TIMEOUT_S: Final = 1.0
"""Time limit of a whole answer. A server that takes longer is paused, dead or overloaded."""
_BYTES_MAX: Final = 1 << 20
"""Size of an answer that is refused. That to `mntr` has some 5 KB."""
_QUOTED: Final = 100
"""Number of characters that are quoted of an answer."""
_KEEPER: Final = "ClickHouse Keeper version"


@dataclass(frozen=True, slots=True)
class KeeperState:
    """State of a server, from its answer to `srvr`."""

    mode: str
    """leader, follower, standalone; "" if the server does not serve now."""
    epoch: int
    """Term of the leader that made the newest transaction of the server."""
    version: str
    """Version such as "3.8.0"; "" if the server does not serve now."""
    clickhouse: bool = False
    """Whether the server is a ClickHouse Keeper."""
    zxid: int = 0
    """Number of the newest transaction that the server has applied; 0 for a ClickHouse Keeper."""


def request(endpoint: Endpoint, word: str, timeout_s: float = _TIMEOUT_S) -> str:
    """Send a four-letter word and return the whole answer. Raises OSError."""
    deadline = time.monotonic() + timeout_s
    with socket.create_connection((endpoint.host, endpoint.port), timeout_s) as connection:
        connection.sendall(word.encode())
        answer = b""
        while len(answer) <= _BYTES_MAX:
            # A server that sends a byte now and then begins no time limit anew.
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            more = connection.recv(65536)
            if not more:
                return answer.decode(errors="replace")
            answer += more
    raise OSError(f"answers more than {_BYTES_MAX:,} bytes to {word}")


def is_alive(endpoint: Endpoint) -> str | None:
    """Return why the server does not answer, with or without a quorum; None if it does."""
    try:
        answer = request(endpoint, "ruok")
    except OSError as error:
        return f"does not answer ({error})"
    return None if answer == "imok" else f"answers {answer[:_QUOTED]!r} to ruok"


def state(endpoint: Endpoint) -> KeeperState | None:
    """Return the state of a server; None if it does not answer."""
    try:
        return read_state(endpoint)
    except ClusterError:
        return None


def read_state(endpoint: Endpoint) -> KeeperState:
    """Return the state of a server. Raises ClusterError."""
    try:
        lines = _pairs(request(endpoint, "srvr"), ": ")
        if _KEEPER in lines:
            # Its transactions have no epoch. The term is that of Raft's log (`lgif`, since 22.11).
            term = _pairs(request(endpoint, "lgif"), "\t").get("last_log_term", "0")
            version = lines[_KEEPER].removeprefix("v").partition("-")[0]
            return KeeperState(lines.get("Mode", ""), int(term), version, clickhouse=True)
        zxid = int(lines.get("Zxid", "0x0"), 16)
    except OSError as error:
        raise ClusterError(f"does not answer ({error})") from error
    except ValueError as error:
        raise ClusterError(f"answers srvr or lgif with what is no number: {error}") from error
    version = lines.get("Zookeeper version", "").partition("-")[0]
    return KeeperState(lines.get("Mode", ""), zxid >> 32, version, zxid=zxid)


def _pairs(answer: str, separator: str) -> dict[str, str]:
    return dict(line.split(separator, 1) for line in answer.splitlines() if separator in line)
