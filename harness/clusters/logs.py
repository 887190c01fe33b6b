"""The servers' logs, out of their containers, running or not."""

import gzip
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from harness.clusters.engine import asking_engine
from harness.clusters.pods import PodAgent
from harness.core.topology import Node, Role

_SERVER_LOGS: Final = "/var/log/clickhouse-server"
_LAST_LINES: Final = 15
_LINE_MAX: Final = 400
_FRAME: Final = re.compile(r"\d+\. | \(version ")
"""A line of a stack trace, or what follows it; a line of the log begins with a date, such as
2026.11.23."""
_TRANSACTIONS: Final = "/datalog"
_PACKED: Final = "/tmp/transactions.tar.gz"  # noqa: S108 # in the pod, whose only user is root
TRANSACTIONS_FILE: Final = "txnlog.tar.gz"
"""Of a ZooKeeper server: its transaction log, the files version-2/log.<first zxid>."""


def collect_node(
    client: docker.DockerClient,
    container: str,
    pod: str,
    node: Node,
    directory: Path,
    since_s: float | None,
    before: bytes = b"",
) -> None:
    """Writes `directory`/stdout.log; of a ClickHouse server its log files too, of a ZooKeeper
    server its transaction log. What does not exist is left out. `pod` is the container that holds
    the node's volumes in memory. `since_s`, seconds since 1970: only what was written after, but
    for ClickHouse's files, which `emptied` begins anew. `before` is what containers of the node
    that were removed had written."""
    directory.mkdir(parents=True, exist_ok=True)
    with asking_engine(f"read the logs of {node.name}"):
        try:
            found = client.containers.get(container)
        except NotFound:
            return
        (directory / "stdout.log").write_bytes(before + written(found, since_s))
        if node.role is Role.CLICKHOUSE:
            for name, content in _files(found.id or container, client, _SERVER_LOGS):
                (directory / name).write_bytes(content)
        else:
            transactions = _held(client, pod, since_s) or _archive(client, found.id or container)
            if transactions:
                (directory / TRANSACTIONS_FILE).write_bytes(transactions)


def written(container: Container, since_s: float | None) -> bytes:
    """What a container's server has written to its standard streams, since then."""
    return container.logs(stdout=True, stderr=True, since=since_s)


def emptied(agent: PodAgent) -> None:
    """Cuts a ClickHouse server's log files to nothing; it goes on at their beginning."""
    agent.run(
        "find", f"/volumes{_SERVER_LOGS}", "-type", "f", "-exec", "truncate", "-s", "0", "{}", "+"
    )


def _held(client: docker.DockerClient, pod: str, since_s: float | None) -> bytes | None:
    """The transaction log out of the pod, for the engine copies nothing out of memory; of its
    files those that were written to since then. The server may write meanwhile: what is copied
    then ends in the middle of a transaction."""
    try:
        found = client.containers.get(pod)
    except NotFound:
        return None
    if found.status != "running":
        return None
    # Through a file: docker-py loses what a command writes before the answer's headers are read.
    newer = "" if since_s is None else f"--newer-mtime=@{since_s}"
    packed = f"tar -C /volumes{_TRANSACTIONS} -czf {_PACKED} {newer} version-2 2>/dev/null"
    exit_code, _ = found.exec_run(["sh", "-c", packed])
    if exit_code not in (0, 1):  # 1: a file grew meanwhile
        return None
    chunks, _ = client.api.get_archive(found.id or pod, _PACKED)
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        content = archive.extractfile(PurePosixPath(_PACKED).name)
        return content.read() if content else None


def _archive(client: docker.DockerClient, container: str) -> bytes | None:
    try:
        chunks, _ = client.api.get_archive(container, f"{_TRANSACTIONS}/version-2")
    except NotFound:
        return None
    return gzip.compress(b"".join(chunks))


def last_lines(client: docker.DockerClient, container: str, node: Node) -> str:
    """The end of what a node has logged; of ClickHouse, of its log of errors when there is one."""
    with asking_engine(f"read the logs of {node.name}"):
        try:
            found = client.containers.get(container)
        except NotFound:
            return "(no container, hence no log)"
        text = found.logs(stdout=True, stderr=True, tail=_LAST_LINES)
        if node.role is Role.CLICKHOUSE:
            files = dict(_files(found.id or container, client, _SERVER_LOGS))
            text += files.get("clickhouse-server.err.log", b"")
    return telling(text.decode(errors="replace")) or "(its log is empty)"


def telling(text: str) -> str:
    """Return the last lines of a log that say something: no blank lines, no frames of a stack trace
    such as "7. clickhouse-server(…)", and of long lines the beginning."""
    lines = [line for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    return "\n".join(
        line if len(line) <= _LINE_MAX else f"{line[:_LINE_MAX]}…" for line in lines[-_LAST_LINES:]
    )


def _files(container: str, client: docker.DockerClient, path: str) -> Iterator[tuple[str, bytes]]:
    """The plain files of a directory in a container, by their own names; no other path."""
    try:
        chunks, _ = client.api.get_archive(container, path)
    except NotFound:
        return
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield PurePosixPath(member.name).name, content.read()
