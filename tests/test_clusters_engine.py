"""A Docker engine that goes away, stays away, or comes back: each answer is one clear error."""

import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from compose.plan import Image, Images
from harness.clusters import engine as engines
from harness.clusters.base_image import require_images
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.engine import engine, engine_request, outlasting
from harness.core.engines import Engine
from harness.core.errors import ClusterError, EngineLostError
from harness.core.topology import Role, Topology

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PING = HEAD + b"Content-Length: 2\r\n\r\nOK"
VERSION = HEAD + b'Content-Length: 21\r\n\r\n{"ApiVersion":"1.41"}'


class FakeEngine:
    """Socket that answers pings, and everything else with the same bytes, after which it closes
    the connection."""

    def __init__(self, path: Path) -> None:
        self.answer = b""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while head := connection.recv(65536):
                path = head.split()[1].rpartition(b"/")[2]
                known = {b"_ping": PING, b"version": VERSION}.get(path)
                connection.sendall(self.answer if known is None else known)
                if known is None:
                    return


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
    fake = FakeEngine(tmp_path / "engine.sock")
    yield fake
    fake.close()


REQUESTS: dict[str, Callable[[Any], object]] = {
    "list": lambda client: client.containers.list(all=True),
    "copy": lambda client: b"".join(client.api.get_archive("ch1", "/var/log")[0]),
    "build": lambda client: client.images.build(fileobj=io.BytesIO(b"FROM x"), tag="y"),
}
ANSWERS = {
    "the engine goes away before it answers a list": ("list", b"", EngineLostError, "aborted"),
    "the engine goes away in the middle of a list": (
        "list", HEAD + b"Content-Length: 99\r\n\r\n[{", EngineLostError, "Connection broken",
    ),
    "the engine goes away in the middle of a copy": (
        "copy", CHUNKED + b"20\r\nlog", EngineLostError, "Connection broken",
    ),
    "the engine goes away in the middle of a build": (
        "build", CHUNKED + b'20\r\n{"str', EngineLostError, "Connection broken",
    ),
    "something else than an engine answers a build": (
        "build", HEAD + b"Content-Length: 6\r\n\r\n<html>", EngineLostError, "Expecting value",
    ),
    "something else than an engine answers a list": (
        "list", HEAD + b"Content-Length: 6\r\n\r\n<html>", EngineLostError, "Expecting value",
    ),
    "the engine is there and refuses": (
        "list", b'HTTP/1.1 500 No\r\nContent-Length: 18\r\n\r\n{"message":"full"}', ClusterError,
        "full",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_each_answer_that_is_none_is_one_error(fake: FakeEngine, case: str) -> None:
    request, fake.answer, kind, text = ANSWERS[case]
    client = engine(5)
    with pytest.raises(ClusterError) as raised, engine_request(request):
        REQUESTS[request](client)
    client.close()
    assert type(raised.value) is kind
    assert str(raised.value).startswith(f"Docker engine: could not {request}: ")
    assert text in str(raised.value)


def test_what_must_be_done_is_done_once_the_engine_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "engine.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    monkeypatch.setattr(engines, "_POLL_S", 0)
    refused: list[str] = []
    fakes: list[FakeEngine] = []

    def version() -> object:
        try:
            client = engine(5)
        except EngineLostError as error:
            refused.append(str(error))
            if len(refused) == 3:
                fakes.append(FakeEngine(path))
            raise
        answer = client.version()
        client.close()
        return answer

    assert outlasting(version) == {"ApiVersion": "1.41"}
    assert len(refused) == 3
    fakes[0].close()


def test_an_engine_that_stays_away_is_not_awaited_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
    monkeypatch.setattr(engines, "_RESTART_S", 0.1)
    monkeypatch.setattr(engines, "_POLL_S", 0.01)
    with pytest.raises(EngineLostError, match=r"none answers.*start it"):
        outlasting(engine)


def test_an_engine_that_is_there_and_refuses_is_asked_once() -> None:
    asked: list[int] = []

    def refuse() -> None:
        asked.append(1)
        raise ClusterError("harness-1: could not be removed in 30 s: harness-1-ch1 is left")

    with pytest.raises(ClusterError, match="could not be removed"):
        outlasting(refuse)
    assert asked == [1]


def test_an_engine_that_accepts_and_does_not_answer_need_not_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "engine.sock"))
        silent.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        with pytest.raises(EngineLostError, match=r"It accepts connections.*restart it") as raised:
            engine(1)
    assert "Install" not in str(raised.value)


def test_servers_that_do_not_start_and_cannot_be_removed_are_both_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
    monkeypatch.setattr(engines, "_RESTART_S", 0)
    topology = Topology.of(replicas=1, keepers=1)
    servers = {
        Role.CLICKHOUSE: Engine(role=Role.CLICKHOUSE, version="25.8.2.1"),
        Role.ZOOKEEPER: Engine(role=Role.ZOOKEEPER, version="3.8.0"),
    }
    images = Images("pod", {role: {"": Image("tag", engine)} for role, engine in servers.items()})
    cluster = DockerCluster(topology, tmp_path / "cluster", images=images)
    monkeypatch.setattr(cluster._containers, "start", Mock(side_effect=ClusterError("no space")))
    with pytest.raises(
        ClusterError, match=r"(?s)^no space\nDocker engine: none answers.*; harness clean removes"
    ):
        cluster.up()


def test_an_image_that_was_removed_is_not_looked_for_in_a_registry(fake: FakeEngine) -> None:
    body = b'{"message":"No such image: harness/pod:1"}'
    fake.answer = b"HTTP/1.1 404 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    client = engine(5)
    with pytest.raises(ClusterError, match=r"harness/pod:1: this image was removed.*run again"):
        require_images(client, ["harness/pod:1"])
    client.close()
