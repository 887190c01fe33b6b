"""Collection of the servers' logs from their containers, running or not."""

import base64
import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from harness.clusters.engine import engine_request
from harness.clusters.pods import PodAgent
from harness.core.errors import ClusterError
from harness.core.topology import Node, Role

_SERVER_LOGS: Final = "/var/log/clickhouse-server"
_LAST_LINES: Final = 15
_LINE_MAX: Final = 400
_FRAME: Final = re.compile(r"\d+\. | \(version ")
"""Pattern of a line of a stack trace, or of the line after it; a line of the log begins with a
date such as 2026.11.23."""
_TRANSACTIONS: Final = "/datalog"
_SNAPSHOTS: Final = "/data"
_PACKED: Final = "/tmp/transactions.tar.gz"  # noqa: S108 # in the pod, whose only user is root
_PACKING_S: Final = 60
"""Time limit of packing and sending a log."""
_KILL_S: Final = 10.0
"""Time after the limit in which the packing ends."""
_NO_LOG: Final = 3
_TIMED_OUT: Final = 124
"""Statuses of packing where there is no log, and when the time was over."""
_CHUNK: Final = 1 << 20
TRANSACTIONS_FILE: Final = "txnlog.tar.gz"
"""Archive of a ZooKeeper server's transaction log, the files version-2/log.<first zxid>, and of its
snapshots, version-2/snapshot.<zxid>."""


def collect_node(
    client: docker.DockerClient,
    container: str,
    pod: str,
    agent: PodAgent,
    node: Node,
    directory: Path,
    since_s: float | None,
    before: bytes = b"",
) -> None:
    """Write `directory`/stdout.log and ClickHouse's log files or ZooKeeper's transaction log.

    The object store's stdout.log has a line of JSON for each request.

    What does not exist is left out. `pod` is the container that holds the node's volumes in memory.
    `since_s`, seconds since 1970, limits stdout.log and the transaction log to what was written
    later; ClickHouse's files are truncated by `truncate_logs` instead. `before` is the output of
    the node's removed containers. Raises ClusterError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with engine_request(f"read the logs of {node.name}"):
        try:
            found = client.containers.get(container)
        except NotFound:
            return
        (directory / "stdout.log").write_bytes(before + output_of(found, since_s))
        if node.role is Role.CLICKHOUSE:
            for name, content in _files(found.id or container, client, _SERVER_LOGS):
                (directory / name).write_bytes(content)
        elif node.role is Role.ZOOKEEPER:
            transactions = _from_pod(client, pod, agent, since_s) or _from_container(
                client, found.id or container
            )
            if transactions:
                (directory / TRANSACTIONS_FILE).write_bytes(transactions)


def output_of(container: Container, since_s: float | None) -> bytes:
    """Return what a container has written to its standard streams since then."""
    return container.logs(stdout=True, stderr=True, since=since_s)


def transactions_of(
    client: docker.DockerClient, container: str, pod: str, agent: PodAgent
) -> bytes | None:
    """Return the archive of a ZooKeeper server's transaction log; None if it has none. Raises
    ClusterError."""
    with engine_request("read a transaction log"):
        return _from_pod(client, pod, agent, None) or _from_container(client, container)


def transactions_since(agent: PodAgent, file: str, offset: int) -> tuple[Sequence[str], bytes]:
    """Return the names of the files of a ZooKeeper server's transaction log, oldest first, and the
    bytes of one of them from `offset` on, at most `_CHUNK`. Raises ClusterError."""
    directory = f"/volumes{_TRANSACTIONS}/version-2"
    got = agent.call("piece", directory=directory, name=file, offset=offset, bytes_max=_CHUNK)
    logs = [name for name in got["files"] if name.startswith("log.")]
    # The file is allocated ahead, so that most of the piece is zeros.
    written: bytes = zlib.decompress(base64.b64decode(got["packed"]))
    return sorted(logs, key=lambda name: int(name.removeprefix("log."), 16)), written.ljust(
        got["bytes"], b"\0"
    )


def errors_of(agent: PodAgent, bytes_max: int) -> str:
    """Return the end of a ClickHouse server's error log. Raises ClusterError, also if there is no
    such file."""
    return agent.run(
        "tail", "-c", str(bytes_max), f"/volumes{_SERVER_LOGS}/clickhouse-server.err.log"
    )


def truncate_logs(agent: PodAgent) -> None:
    """Truncate a ClickHouse server's log files; the server appends at their new end."""
    agent.run(
        "find", f"/volumes{_SERVER_LOGS}", "-type", "f", "-exec", "truncate", "-s", "0", "{}", "+"
    )


def _from_pod(
    client: docker.DockerClient, pod: str, agent: PodAgent, since_s: float | None
) -> bytes | None:
    """Return the transaction log's files and the snapshots that were written since then, from a
    pod's memory.

    The engine cannot copy files out of a tmpfs, so the pod packs them. The server may write
    meanwhile; the copy then ends in the middle of a transaction. Raises ClusterError if there is a
    log that the pod cannot pack, or not in time.
    """
    try:
        if client.containers.get(pod).status != "running":
            return None
    except NotFound:
        return None
    newer = "" if since_s is None else f"--newer-mtime=@{since_s}"
    snapshots = f"-C /volumes{_SNAPSHOTS} version-2"
    directory = f"/volumes{_TRANSACTIONS}"
    packing = f"tar -czf {_PACKED} {newer} -C {directory} version-2 {snapshots}"
    # A status of 1 says that a file grew meanwhile.
    packed = f"{{ {packing}; [ $? -le 1 ]; }} && base64 -w 0 {_PACKED}"
    sending = f"[ -d {directory}/version-2 ] || exit {_NO_LOG}; {packed}"
    argv = ["timeout", str(_PACKING_S), "sh", "-c", sending]
    done = agent.call("run", wait_s=_PACKING_S + _KILL_S, argv=argv, text="")
    if done["status"] == _NO_LOG:
        return None
    if done["status"] == _TIMED_OUT:
        raise ClusterError(
            f"{pod}: its ZooKeeper log was not packed within {_PACKING_S} s, and is not stored; "
            "run fewer clusters at a time on this machine, or make a shorter run"
        )
    if done["status"]:
        raise ClusterError(
            f"{pod}: its ZooKeeper log was not packed, and is not stored: {done['stderr'].strip()}"
        )
    return base64.b64decode(done["stdout"])


def _from_container(client: docker.DockerClient, container: str) -> bytes | None:
    try:
        chunks, _ = client.api.get_archive(container, f"{_TRANSACTIONS}/version-2")
    except NotFound:
        return None
    return gzip.compress(b"".join(chunks))


def last_lines(client: docker.DockerClient, container: str, node: Node) -> str:
    """Return the end of a node's log; for ClickHouse, of its error log if there is one."""
    with engine_request(f"read the logs of {node.name}"):
        try:
            found = client.containers.get(container)
        except NotFound:
            return "(no container, hence no log)"
        text = found.logs(stdout=True, stderr=True, tail=_LAST_LINES)
        if node.role is Role.CLICKHOUSE:
            files = dict(_files(found.id or container, client, _SERVER_LOGS))
            text += files.get("clickhouse-server.err.log", b"")
    return informative_lines(text.decode(errors="replace")) or "(its log is empty)"


def informative_lines(text: str) -> str:
    """Return the last informative lines of a log, with long lines cut off.

    Blank lines and frames of a stack trace, such as "7. clickhouse-server(…)", are left out.
    """
    lines = [line for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    return "\n".join(
        line if len(line) <= _LINE_MAX else f"{line[:_LINE_MAX]}…" for line in lines[-_LAST_LINES:]
    )


def _files(container: str, client: docker.DockerClient, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each regular file in a container's directory, without its path."""
    try:
        chunks, _ = client.api.get_archive(container, path)
    except NotFound:
        return
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield PurePosixPath(member.name).name, content.read()
