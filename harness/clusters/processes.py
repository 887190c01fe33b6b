"""Server processes: kill, pause, start, and their state as the kernel reports it.

Signals are sent from the pod, which sees the database's processes because the two containers
share a process namespace. `docker pause` would freeze the control group instead. A frozen process
looks asleep in the kernel's process table, so the pause could not be verified, and operators and
other harnesses mean SIGSTOP by a pause.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from harness.clusters.engine import engine_request, environment_of
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.capabilities import CanKill, CanPause, CanRestart
from harness.core.errors import ClusterError, FaultError, StartError
from harness.core.topology import Role, Topology

_SIGNAL_S: Final = 30.0
"""Time limit of a signal. A thread stops when it next leaves the kernel, which an fsync may delay.
"""
_EXIT_S: Final = 60.0
"""Time for the engine to notice that a server's processes are gone."""
_NOTICE_S: Final = 10.0
"""Time after which the engine is asked to kill a container without processes: one that missed the
exit looks again then. 20.10 was seen to call such a container running for over a minute."""
_TERM_S: Final = 30
"""Time for a server to end after SIGTERM. ClickHouse waits for its merges and its sessions."""
_UPGRADE_TERM_S: Final = 60
"""Time for a server to end that is replaced by another version. With open connections of peers and
clients, 24.8 takes 30 s under load."""
_UPGRADE_EXITS_MAX: Final = 3
"""Number of exits at the start on another version's data after which a server refuses them."""
_START_S: Final = 120.0
"""Time for a started server to answer on its port; normally it takes 0.5 to 1 s. Machines that
stood still for tens of seconds have been seen."""
_EXITS_S: Final = 30.0
"""Time after which a server that exits at its start is not started again."""
_HANGS_S: Final = 10.0
"""Time after which a server that does not answer counts as hanging and is started again; it doubles
with each start that hangs. On a busy machine 25.8 takes 15 s."""
_ELECTED_S: Final = 5.0
"""Time for ZooKeeper servers to elect a leader after a start; normally it takes 0.5 to 1 s. Without
a quorum they never do."""
_BETWEEN_STARTS_S: Final = 0.5
_POLL_S: Final = 0.05
_NEXT: Final = "-next"
"""Suffix of the name of a container that is about to replace another."""


class Processes(CanKill, CanRestart, CanPause):
    """Server processes of one cluster.

    `why_not_alive(node)` returns why a server does not answer on its own port, None if it does;
    `why_unready(node)`, why it cannot serve; `last_lines(node)`, the end of its log. `create(node)`
    creates and starts the container of a node that has none.
    """

    def __init__(
        self,
        engine: Callable[[], docker.DockerClient],
        topology: Topology,
        containers: Mapping[str, str],
        pods: Mapping[str, PodAgent],
        why_not_alive: Callable[[str], str | None],
        why_unready: Callable[[str], str | None],
        last_lines: Callable[[str], str],
        create: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._topology = topology
        self._containers = containers
        self._pods = pods
        self._why_not_alive = why_not_alive
        self._why_unready = why_unready
        self._last_lines = last_lines
        self._create = create
        self._starting = {node: threading.Lock() for node in topology.names}

    def kill(self, nodes: Iterable[str]) -> None:
        on_each(nodes, lambda node: self._signal(node, "KILL", "gone"))

    def pause(self, nodes: Iterable[str]) -> None:
        """Send SIGSTOP and return when every thread is stopped. Raises FaultError for a server that
        does not run."""
        on_each(nodes, self._pause)

    def resume(self, nodes: Iterable[str]) -> None:
        """Send SIGCONT and return when no thread is stopped."""
        on_each(nodes, lambda node: self._signal(node, "CONT", "continued"))

    def running(self, node: str) -> bool:
        return bool(self._list(node))

    def paused(self, node: str) -> bool:
        """Return whether the server has processes and all their threads are stopped."""
        processes = self._list(node)
        return bool(processes) and all(set(p["states"]) <= set("TtZX") for p in processes)

    def start(self, nodes: Iterable[str], answers: bool = True) -> None:
        """Start the servers that do not run, and return when each answers on its own port: a
        ZooKeeper server does so with or without a quorum. Raises ClusterError."""
        keepers, replicas = self._keepers_first(nodes)
        on_each(keepers, self._start)
        if not all(map(self.running, replicas)):
            self._await_leader(keepers)
        if answers:
            on_each(replicas, self._start)
        else:
            on_each([node for node in replicas if not self.running(node)], self._run)

    def restart(self, nodes: Iterable[str], answers: bool = True) -> None:
        """Send SIGTERM, wait and start, as `start` does.

        Raises FaultError if a server did not end and was killed; it was started again.
        """
        nodes = tuple(nodes)
        ended = on_each(nodes, self._stop)
        self.start(nodes, answers)
        killed = [node for node, graceful in ended.items() if not graceful]
        if killed:
            raise FaultError(
                f"{' '.join(killed)}: did not end {_TERM_S} s after SIGTERM; was killed and "
                "started again"
            )

    def replace(
        self,
        node: str,
        image: str,
        environment: Mapping[str, str | None],
        program: Sequence[str],
        change: Callable[[Container | None], None],
    ) -> float:
        """Send SIGTERM, wait, and start a container of another image in place of the old one, with
        its own program unless one is given.

        Return the seconds from SIGTERM until the new server answers. `change` is called in between
        with the container that has ended; with None if an earlier call was interrupted. Raises
        StartError if the new server does not answer, FaultError if the old one did not end and was
        killed.
        """
        ended = self._container(node)
        began = time.monotonic()
        graceful = True
        if ended is None:
            change(None)
        else:
            fresh = self._create_like(ended, node, image, environment, program)
            began = time.monotonic()
            try:
                graceful = self._stop(node, _UPGRADE_TERM_S)
                change(ended)
            except BaseException:
                with engine_request(f"remove a container of {node}"):
                    fresh.remove(force=True)
                raise
            with engine_request(f"replace the container of {node}"):
                ended.remove(force=True)
                fresh.rename(self._containers[node])
        self._start(node, exits_max=_UPGRADE_EXITS_MAX)
        if not graceful:
            raise FaultError(
                f"{node}: did not end {_UPGRADE_TERM_S} s after SIGTERM; was killed, and replaced"
            )
        return time.monotonic() - began

    def _create_like(
        self,
        other: Container,
        node: str,
        image: str,
        environment: Mapping[str, str | None],
        program: Sequence[str],
    ) -> Container:
        """Return a new container that joins the same pod and has the same volumes and labels, and
        the same values of the variables that `environment` names without one.

        It is created while the old server still serves, because that takes longest on a busy
        machine. With the compose tool the server would be away for seconds.
        """
        self._remove_unused(node)
        kept = [v for v in environment_of(other).items() if environment.get(v[0], "") is None]
        given = [v for v in environment.items() if v[1] is not None]
        config = {
            "Image": image,
            "Env": [f"{name}={value}" for name, value in (*given, *kept)],
            "Labels": other.attrs["Config"]["Labels"],
            "HostConfig": other.attrs["HostConfig"],
            **({"Entrypoint": list(program)} if program else {}),
        }
        with engine_request(f"make a container of {image} for {node}"):
            client = self._engine()
            api: Any = client.api
            made = api.create_container_from_config(config, f"{self._containers[node]}{_NEXT}")
            return client.containers.get(made["Id"])

    def _remove_unused(self, node: str) -> None:
        """Remove the container that an interrupted call has left."""
        with engine_request(f"look for a container of {node}"), suppress(NotFound):
            self._engine().containers.get(f"{self._containers[node]}{_NEXT}").remove(force=True)

    def _keepers_first(self, nodes: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the ZooKeeper servers and the replicas, which need ZooKeeper to start."""
        nodes = tuple(nodes)
        first = [node for node in nodes if self._topology.node(node).role is Role.ZOOKEEPER]
        return first, [node for node in nodes if node not in first]

    def _await_leader(self, keepers: Sequence[str]) -> None:
        """Wait until the servers have a leader, or long enough to conclude that they elect none."""
        deadline = time.monotonic() + _ELECTED_S
        while any(map(self._why_unready, keepers)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _list(self, node: str) -> list[dict[str, Any]]:
        processes: list[dict[str, Any]] = self._pods[node].call("processes")
        return processes

    def _signal(self, node: str, name: str, until: str) -> int:
        done = self._pods[node].call("signal", name=name, until=until, wait_s=_SIGNAL_S)
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

    def _container(self, node: str) -> Container | None:
        """Return the container of a node; None if an interrupted upgrade has left none."""
        with engine_request(f"find the container of {node}"):
            try:
                return self._engine().containers.get(self._containers[node])
            except NotFound:
                return None

    def _start(self, node: str, *, exits_max: int | None = None) -> None:
        """Start a server as `_start_alone` does. Of two calls at once the second waits, lest it
        kill what the first has started."""
        with self._starting[node]:
            self._start_alone(node, exits_max)

    def _start_alone(self, node: str, exits_max: int | None) -> None:
        """Start a server, and start it again if it exits or hangs, as a service manager would.

        With `exits_max`, it is not started again after that many exits. Raises StartError.

        18.16.1 with a replicated table needs one of its ZooKeeper servers when it starts. If it
        reaches none it exits with error 132 or "Invalid argument", or hangs at "Starting up tables"
        even after ZooKeeper has come back (measured: 6 and 2 of 8 starts); or, on a busy machine,
        it answers without the table until it is started again (9 of 14).
        """
        began = time.monotonic()
        starts = exits = 0
        hangs_s = _HANGS_S
        while True:
            if self.paused(node):
                raise ClusterError(f"{node}: cannot answer, it is paused; resume it first")
            if not self.running(node):
                self._run(node)
                starts += 1
            why = self._await_answer(node, hangs_s)
            if why is None:
                return
            if hanging := self.running(node):
                hangs_s *= 2
            else:
                exits += 1
            patience_s = _START_S if hanging else _EXITS_S
            if exits == exits_max or time.monotonic() - began > patience_s:
                raise StartError(
                    f"{node}: does not answer {time.monotonic() - began:.0f} s and {starts} starts "
                    f"on: {why}; the end of its log:\n{self._last_lines(node)}"
                )
            self._signal(node, "KILL", "gone")
            time.sleep(_BETWEEN_STARTS_S)

    def _run(self, node: str) -> None:
        container = self._exited(node)
        if container is None:
            self._remove_unused(node)
            self._create(node)
            return
        with engine_request(f"start {node}"):
            container.start()

    def _await_answer(self, node: str, hangs_s: float) -> str | None:
        """Wait for a server and return None once it answers; else why, once it exits or hangs."""
        hangs = time.monotonic() + hangs_s
        while (why := self._why_not_alive(node)) is not None:
            if not self.running(node):
                return "it ended"
            if time.monotonic() > hangs:
                return why
            time.sleep(_POLL_S)
        return None

    def _exited(self, node: str) -> Container | None:
        """Return the container once the engine knows that its processes are gone; None without one.

        Until then the engine would ignore a start.
        """
        began = time.monotonic()
        asked = False
        while True:
            container = self._container(node)
            if container is None or container.status in ("exited", "created"):
                return container
            waited_s = time.monotonic() - began
            if not asked and waited_s > _NOTICE_S:
                asked = True
                with suppress(ClusterError), engine_request(f"end the container of {node}"):
                    container.kill()
            if waited_s > _EXIT_S:
                raise ClusterError(
                    f"{node}: has no process, yet the engine still calls its container "
                    f"{container.status} after {_EXIT_S:g} s"
                )
            time.sleep(0.02)

    def _stop(self, node: str, term_s: int = _TERM_S) -> bool:
        """Send SIGTERM, wait, and return whether the server ended by itself.

        A paused server is resumed first because it could not end.
        """
        self._signal(node, "CONT", "continued")
        container = self._container(node)
        if container is None:
            return True
        with engine_request(f"stop {node}"):
            container.stop(timeout=term_s)
            container.reload()
        return bool(container.attrs["State"]["ExitCode"] != 137)


def end_of(container: Container) -> str:
    """Return how a container ended, as in "its container exited with 137 (SIGKILL), killed for its
    memory (OOM)"; "" if it has not ended."""
    state = container.attrs["State"]
    if state["Status"] not in ("exited", "dead"):
        return ""
    code = int(state["ExitCode"])
    names = {128 + number: f" ({number.name})" for number in signal.Signals}
    memory = ", killed for its memory (OOM)" if state["OOMKilled"] else ""
    return f"its container exited with {code}{names.get(code, '')}{memory}"
