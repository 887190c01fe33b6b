"""Killing, pausing, starting servers, and what the kernel says of them.

Signals are sent from the pod, which sees the database's processes because the two containers
share a process namespace. `docker pause` would freeze the control group instead: a frozen
process looks asleep to the kernel's process table, so nobody could verify it, and a real SIGSTOP
is what operators and other harnesses mean by a pause.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import docker
from docker.models.containers import Container

from harness.clusters.engine import asking_engine
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.errors import ClusterError, FaultError

_SIGNAL_S: Final = 10.0
"""A thread stops when it next leaves the kernel, which an fsync may delay."""
_EXIT_S: Final = 20.0
"""For the engine to notice that a server's processes are gone."""
_TERM_S: Final = 30
"""For a server to end after SIGTERM. ClickHouse waits for its merges and its sessions."""
_ANSWER_S: Final = 60.0
"""For a started server to answer on its port."""


class Processes:
    """The servers of one cluster.

    `answers(node)` says why a server does not answer on its own port, None when it does;
    `last_lines(node)` is the end of its log.
    """

    def __init__(
        self,
        client: docker.DockerClient,
        containers: Mapping[str, str],
        pods: Mapping[str, PodAgent],
        answers: Callable[[str], str | None],
        last_lines: Callable[[str], str],
    ) -> None:
        self._client = client
        self._containers = containers
        self._pods = pods
        self._answers = answers
        self._last_lines = last_lines

    def kill(self, nodes: Iterable[str]) -> None:
        """SIGKILL; returns when the processes are gone. Of what does not run, nothing happens."""
        on_each(nodes, lambda node: self._signal(node, "KILL", "gone"))

    def pause(self, nodes: Iterable[str]) -> None:
        """SIGSTOP; returns when every thread is stopped. Raises FaultError for a server that
        does not run."""
        on_each(nodes, self._pause)

    def resume(self, nodes: Iterable[str]) -> None:
        """SIGCONT; returns when no thread is stopped."""
        on_each(nodes, lambda node: self._signal(node, "CONT", "continued"))

    def running(self, node: str) -> bool:
        """Whether the kernel has a process of the server."""
        return bool(self._list(node))

    def paused(self, node: str) -> bool:
        """Whether there are processes of the server and every thread of theirs is stopped."""
        processes = self._list(node)
        return bool(processes) and all(set(p["states"]) <= set("TtZX") for p in processes)

    def start(self, nodes: Iterable[str]) -> None:
        """Starts what does not run, and returns when each server answers on its own port, with
        or without a quorum behind it. Raises ClusterError."""
        on_each(nodes, self._start)

    def restart(self, nodes: Iterable[str]) -> None:
        """SIGTERM, wait, start. Raises FaultError when a server had to be killed after all; it
        has been started again then."""
        on_each(nodes, self._restart)

    def _list(self, node: str) -> list[dict[str, Any]]:
        processes: list[dict[str, Any]] = self._pods[node].ask("processes")
        return processes

    def _signal(self, node: str, name: str, until: str) -> int:
        done = self._pods[node].ask("signal", name=name, until=until, wait_s=_SIGNAL_S)
        if not done["reached"]:
            left = " ".join(f"{p['pid']} {p['name']} {p['states']}" for p in done["processes"])
            raise FaultError(
                f"{node}: not {until} {_SIGNAL_S:g} s after SIG{name}; processes and states of "
                f"their threads: {left}"
            )
        return int(done["signalled"])

    def _pause(self, node: str) -> None:
        if not self._signal(node, "STOP", "stopped"):
            raise FaultError(f"{node}: cannot be paused, its server does not run")

    def _container(self, node: str) -> Container:
        with asking_engine(f"find the container of {node}"):
            return self._client.containers.get(self._containers[node])

    def _start(self, node: str) -> None:
        deadline = time.monotonic() + _ANSWER_S
        if not self.running(node):
            container = self._exited(node)
            with asking_engine(f"start {node}"):
                container.start()
        self._await_answer(node, deadline)

    def _exited(self, node: str) -> Container:
        """The container, once the engine knows that its processes are gone: until then it would
        take a start for done."""
        deadline = time.monotonic() + _EXIT_S
        while True:
            container = self._container(node)
            if container.status in ("exited", "created"):
                return container
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{node}: has no process, yet the engine still calls its container "
                    f"{container.status} after {_EXIT_S:g} s"
                )
            time.sleep(0.02)

    def _await_answer(self, node: str, deadline: float) -> None:
        while (why := self._answers(node)) is not None:
            if not self.running(node):
                raise ClusterError(
                    f"{node}: ended right after its start:\n{self._last_lines(node)}"
                )
            if time.monotonic() > deadline:
                state = "it is paused" if self.paused(node) else why
                raise ClusterError(
                    f"{node}: does not answer {_ANSWER_S:g} s after its start: {state}\n"
                    f"{self._last_lines(node)}"
                )
            time.sleep(0.05)

    def _restart(self, node: str) -> None:
        container = self._container(node)
        with asking_engine(f"stop {node}"):
            container.stop(timeout=_TERM_S)
            container.reload()
            killed = container.attrs["State"]["ExitCode"] == 137
        self._start(node)
        if killed:
            raise FaultError(
                f"{node}: did not end {_TERM_S} s after SIGTERM, was killed and started again"
            )
