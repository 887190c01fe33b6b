"""Starting servers: which are started again, and how long they may take. Ends of servers: what is
said of them."""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.processes import Processes, end_of
from harness.clusters.readiness import Readiness
from harness.core.errors import ClusterError, StartError
from harness.core.protocols import Endpoint
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
        lambda: client,
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


ENDS = {
    "a server that runs": ({"Status": "running", "ExitCode": 0, "OOMKilled": False}, ""),
    "a server that is restarted after the kernel killed it": (
        {"Status": "running", "ExitCode": 0, "OOMKilled": True}, "",
    ),
    "a server that was created and never started": (
        {"Status": "created", "ExitCode": 0, "OOMKilled": False}, "",
    ),
    "a server that refused its configuration": (
        {"Status": "exited", "ExitCode": 76, "OOMKilled": False}, "its container exited with 76",
    ),
    "a server that somebody killed": (
        {"Status": "exited", "ExitCode": 137, "OOMKilled": False},
        "its container exited with 137 (SIGKILL)",
    ),
    "a server that crashed": (
        {"Status": "exited", "ExitCode": 139, "OOMKilled": False},
        "its container exited with 139 (SIGSEGV)",
    ),
    "a server that the kernel killed for its memory": (
        {"Status": "exited", "ExitCode": 137, "OOMKilled": True},
        "its container exited with 137 (SIGKILL), killed for its memory (OOM)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDS)
def test_the_end_of_a_container_is_said_with_its_signal_and_its_cause(case: str) -> None:
    state, text = ENDS[case]
    container: Any = SimpleNamespace(attrs={"State": state})
    assert end_of(container) == text


def lost() -> str:
    raise ClusterError("Docker engine: could not look at it: No such container")


SILENT: dict[str, tuple[Callable[[], str], str]] = {
    "a server that runs and is silent": (lambda: "", ""),
    "a server that ended": (lambda: "its container exited", "; its container exited"),
    "a server whose container was removed": (
        lost, "; Docker engine: could not look at it: No such container",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SILENT)
def test_a_server_that_does_not_answer_is_named_with_its_end_zookeeper_first(case: str) -> None:
    end, text = SILENT[case]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    readiness = Readiness(
        "harness-1",
        Topology.of(replicas=1, keepers=1),
        lambda _: Endpoint("127.0.0.1", port),  # where nobody listens
        refusal=lambda _: None,
        end=lambda _: end(),
        last_lines=lambda _: "",
    )
    keeper, replica = readiness.unready()
    assert keeper == f"zk1 does not answer ([Errno 111] Connection refused){text}"
    assert replica.startswith("ch1 does not answer: ")
    assert replica.endswith(f"(127.0.0.1:{port}){text}")
