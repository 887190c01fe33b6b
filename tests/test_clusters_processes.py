"""Starting servers: which are started again, and how long they may take."""

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.clusters.processes import Processes
from harness.core.errors import StartError
from harness.core.topology import Topology


@dataclass
class Server:
    """A container whose server answers `takes_s` after its start, and the pod beside it."""

    takes_s: float
    status: str = "exited"
    started: list[float] = field(default_factory=list)

    def start(self) -> None:
        self.status = "running"
        self.started.append(time.monotonic())

    def call(self, what: str, **_: Any) -> Any:
        if what == "processes":
            alive = self.status == "running"
            return [{"pid": 1, "name": "server", "states": "S"}] if alive else []
        assert what == "signal"
        self.status = "exited"
        return {"reached": True, "signalled": 1, "processes": []}

    def why_not(self, _node: str) -> str | None:
        return "silent" if time.monotonic() < self.started[-1] + self.takes_s else None


@dataclass
class Engine:
    """Docker's client, of one container."""

    server: Server

    @property
    def containers(self) -> "Engine":
        return self

    def get(self, _name: str) -> Server:
        return self.server


def processes(server: Server) -> Processes:
    client: Any = Engine(server)
    pod: Any = server
    return Processes(
        client,
        Topology.of(replicas=1, keepers=1),
        {"ch1": "ch1"},
        {"ch1": pod},
        server.why_not,
        lambda _node: None,
        lambda _node: "its log",
        lambda _node: None,
    )


def test_a_server_that_is_slow_to_start_gets_more_time_at_each_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.clusters.processes._HANGS_S", 0.1)
    monkeypatch.setattr("harness.clusters.processes._BETWEEN_STARTS_S", 0.0)
    server = Server(takes_s=0.5)
    processes(server).start(["ch1"])
    assert server.why_not("ch1") is None
    assert len(server.started) > 1  # it was taken for hanging at first


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.clusters.processes._HANGS_S", 0.05)
    monkeypatch.setattr("harness.clusters.processes._START_S", 0.2)
    monkeypatch.setattr("harness.clusters.processes._BETWEEN_STARTS_S", 0.0)
    server = Server(takes_s=1e9)
    with pytest.raises(StartError, match=r"ch1: does not answer .* starts on: silent"):
        processes(server).start(["ch1"])
    assert len(server.started) > 1
