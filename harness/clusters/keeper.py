"""What ZooKeeper servers say of themselves, in four-letter words on the client's port."""

import socket
from dataclasses import dataclass
from typing import Final

from harness.core.protocols import Endpoint

_TIMEOUT_S: Final = 1.0
"""A server that takes longer is paused, dead or drowning."""


@dataclass(frozen=True, slots=True)
class KeeperState:
    """The answer to `srvr`."""

    mode: str
    """leader, follower, standalone; "" when it serves nobody now."""
    epoch: int
    """Of the newest transaction: which leader's term it has seen."""
    version: str
    """Such as "3.8.0"; "" when it serves nobody now."""


def ask(endpoint: Endpoint, word: str, timeout_s: float = _TIMEOUT_S) -> str:
    """The whole answer. Raises OSError."""
    with socket.create_connection((endpoint.host, endpoint.port), timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(word.encode())
        answer = b""
        while more := connection.recv(65536):
            answer += more
    return answer.decode(errors="replace")


def is_alive(endpoint: Endpoint) -> str | None:
    """Why the server does not answer, quorum or not; None when it does."""
    try:
        answer = ask(endpoint, "ruok")
    except OSError as error:
        return f"does not answer ({error})"
    return None if answer == "imok" else f"answers {answer!r} to ruok"


def state(endpoint: Endpoint) -> KeeperState | None:
    """None: it does not answer."""
    try:
        answer = ask(endpoint, "srvr")
    except OSError:
        return None
    lines = dict(line.split(": ", 1) for line in answer.splitlines() if ": " in line)
    zxid = int(lines.get("Zxid", "0x0"), 16)
    version = lines.get("Zookeeper version", "").partition("-")[0]
    return KeeperState(lines.get("Mode", ""), zxid >> 32, version)
